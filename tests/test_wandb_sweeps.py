"""The sweep files in docs/sweeps/: what W&B's agent makes of their command is run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

SWEEPS = Path(__file__).parents[1] / "docs" / "sweeps"


def one_trial(parameters):
    """A value for each parameter, as a sweep would choose it."""
    chosen = {
        name: about.get("value", about["values"][-1] if "values" in about else about.get("max"))
        for name, about in parameters.items()
    }
    return {"args": {name: {"value": value} for name, value in chosen.items()}}


@pytest.mark.parametrize("file", sorted(SWEEPS.glob("*.yaml")), ids=lambda file: file.stem)
def test_the_agents_command_line_is_one_of_this_program(file, tmp_path):
    sweep = yaml.safe_load(file.read_text())
    arguments = create_sweep_command_args(one_trial(sweep["parameters"]))
    macros = {
        "${env}": ["/usr/bin/env"],
        "${program}": [sweep["program"]],
        "${args_no_hyphens}": arguments["args_no_hyphens"],
    }
    command = [word for part in create_sweep_command(sweep["command"]) for word in macros.get(part, [part])]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    result = subprocess.run(
        [*command, "dry_run=true"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "nothing is wrong; stages=sft,reward_model,ppo would run" in result.stdout


def test_one_file_varies_the_seed_alone_and_the_other_beta_and_rate():
    seeds, random = (yaml.safe_load((SWEEPS / name).read_text()) for name in ("seeds.yaml", "beta_and_rate.yaml"))
    assert (seeds["method"], seeds["parameters"]) == ("grid", {"seed": {"values": [1, 2, 3, 4]}})
    assert random["method"] == "random"
    assert set(random["parameters"]) == {"seed", "algorithm.kl_coef", "algorithm.learning_rate"}
