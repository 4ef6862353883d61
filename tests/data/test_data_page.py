"""Every row that docs/data.md shows is read under the format it is shown for."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data.check import Plan, check_file
from rlhf_ray.data.guess import KINDS, guess_kind
from rlhf_ray.data.layout import layout_of

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def shown_rows():
    """(format, row) for every line of every jsonl block, under the format its section is about."""
    sections = re.split(r"^### `(\w+)`:", PAGE, flags=re.MULTILINE)[1:]
    for name, text in zip(sections[::2], sections[1::2], strict=True):
        for block in re.findall(r"^```jsonl\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            yield from ((name, line) for line in block.splitlines())


ROWS = list(shown_rows())
PYTHON_FIRST = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def test_every_format_is_shown():
    assert {name for name, _ in ROWS} == {"plain", "chat", "instruction", "tldr"}


@pytest.mark.parametrize(("name", "row"), ROWS)
def test_a_shown_row_can_be_used_as_all_that_it_says(tmp_path, name, row):
    (tmp_path / "rows.jsonl").write_text(row)
    plan = Plan(
        layout=layout_of(DataConfig(format=name)),
        tokenizer=None,
        loss_on="answer",
        held_out_share=0.1,
        seed=1,
        num_examples=1,
    )
    kinds = {
        "preferences": '"rejected"' in row or '"completions"' in row,
        "demonstrations": '"response"' in row or '"summary"' in row or '"messages"' in row,
    }
    expected = next((kind for kind in KINDS if kinds.get(kind)), "prompts")
    assert guess_kind(tmp_path / "rows.jsonl", plan.layout).kind == expected
    assert check_file(tmp_path / "rows.jsonl", plan, kind=expected).report.kept == 1


def test_the_shown_command_makes_prompts_of_demonstrations(tmp_path):
    (command,) = re.findall(r"^```sh\n(python -c .*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    asked, answer = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
    (tmp_path / "demonstrations.jsonl").write_text(json.dumps({"messages": [asked, answer]}))
    subprocess.run(["bash", "-c", command], cwd=tmp_path, env=PYTHON_FIRST, check=True)
    (row,) = (tmp_path / "prompts.jsonl").read_text().splitlines()
    assert json.loads(row) == {"prompt": [asked]}
