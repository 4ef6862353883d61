import json
import resource
import subprocess
import sys

import numpy as np
import pytest

from rlhf_ray.errors import DataError
from rlhf_ray.files.jsonl import JsonlWriter, read_jsonl


def test_every_append_is_readable_at_once(tmp_path):
    path = tmp_path / "deep" / "m.jsonl"
    with JsonlWriter(path) as writer:
        writer.append({"step": 1, "note": "ä\nb"})
        assert read_jsonl(path) == [{"step": 1, "note": "ä\nb"}]
        writer.append({"step": 2})
        assert read_jsonl(path)[1] == {"step": 2}


def test_non_finite_numbers_become_null_with_a_flag(tmp_path):
    path = tmp_path / "m.jsonl"
    row = {"a": float("nan"), "b": float("inf"), "c": np.float32("-inf"), "d": 1.5, "e": None}
    with JsonlWriter(path) as writer:
        writer.append(row)
    assert read_jsonl(path) == [
        {
            "a": None,
            "a/nonfinite": "nan",
            "b": None,
            "b/nonfinite": "inf",
            "c": None,
            "c/nonfinite": "-inf",
            "d": 1.5,
            "e": None,
        }
    ]


def test_numpy_numbers_are_written_as_numbers(tmp_path):
    path = tmp_path / "m.jsonl"
    with JsonlWriter(path) as writer:
        writer.append({"count": np.int64(3), "mean": np.float64(0.1), "half": np.float32(0.5)})
    assert path.read_text() == '{"count": 3, "mean": 0.1, "half": 0.5}\n'


def test_a_cut_last_line_is_not_read_and_is_set_aside_on_reopening(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "los')
    assert read_jsonl(path) == [{"step": 1}]
    with JsonlWriter(path) as writer:
        writer.append({"step": 2})
    assert read_jsonl(path) == [{"step": 1}, {"step": 2}]
    assert (tmp_path / "m.jsonl.cut").read_text() == '{"step": 2, "los\n'


def test_a_last_line_that_only_lacks_its_end_is_kept(tmp_path):
    path = tmp_path / "m.jsonl"
    path.write_text('{"step": 1}')
    with JsonlWriter(path) as writer:
        writer.append({"step": 2})
    assert read_jsonl(path) == [{"step": 1}, {"step": 2}]
    assert not (tmp_path / "m.jsonl.cut").exists()


@pytest.mark.parametrize("bad", ['{"step": 2, "los', "", "17"])
def test_a_bad_line_that_no_crash_explains_is_an_error_with_its_number(tmp_path, bad):
    path = tmp_path / "m.jsonl"
    path.write_text(f'{{"step": 1}}\n{bad}\n{{"step": 3}}\n')
    with pytest.raises(DataError, match=r"m\.jsonl, line 2: .*one JSON object"):
        read_jsonl(path)


def test_a_full_disk_leaves_whole_lines_only(tmp_path):
    path = tmp_path / "m.jsonl"
    code = (
        "import sys; from pathlib import Path; from rlhf_ray.files.jsonl import JsonlWriter\n"
        "with JsonlWriter(Path(sys.argv[1])) as writer:\n"
        "    while True: writer.append({'text': 'x' * 300})"
    )
    child = subprocess.run(
        [sys.executable, "-c", code, path],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
        capture_output=True,
        text=True,
    )
    assert "File too large" in child.stderr
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"text": "x" * 300}] * 3
    assert path.read_bytes().endswith(b"\n")


def test_a_file_that_was_removed_is_told_at_the_next_row(tmp_path):
    path = tmp_path / "m.jsonl"
    with JsonlWriter(path) as writer:
        writer.append({"step": 1})
        path.unlink()
        with pytest.raises(FileNotFoundError, match="removed while it was written"):
            writer.append({"step": 2})
