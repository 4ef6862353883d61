"""W&B's own client, online, against a server that keeps what it is told."""

import time

import pytest
from wandb_server import KEY, Trouble, wandb_server
from wandb_writer import write

from rlhf_ray.tracking.wandb_file import read_wandb_run, wandb_files

POLICY = {"role": "policy", "name": "policy", "digest": "sha256:p", "tracked_run": "5f7", "url": "https://w/5f7"}


def online(folder, server, **changes):
    return write(folder, environment=server.environment, online=True, **changes)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """An SFT run; a PPO run on its policy and on one that is gone, which failed at 4 and went on from 2."""
    folder = tmp_path_factory.mktemp("online")
    with wandb_server() as server:
        sft = online(folder / "sft", server, stage="sft", run_id="5f7", steps=[1])
        used = [
            POLICY | {"tracked_artifact": f"team/rlhf_ray/policy:v{version}", "role": role}
            for version, role in ((0, "policy"), (7, "reward_model"))
        ]
        failed = online(folder / "ppo", server, steps=[0, 1, 2, 3, 4], status="failed", used=used)
        state = server.runs["f00d"].exit_code, dict(server.runs["f00d"].summary)
        resumed = online(folder / "ppo", server, steps=[3, 4, 5, 6], sweep_id="sweep9", used=used)
        yield folder, server, {"sft": sft, "failed": failed, "resumed": resumed}, state


def test_the_server_was_asked_nothing_that_it_does_not_know(recorded):
    assert recorded[1].unknown == []


def test_a_stage_is_one_run_and_goes_on_as_the_same(recorded):
    _, server, _, _ = recorded
    assert set(server.runs) == {"5f7", "f00d"}
    assert [row["iteration"] for row in server.runs["f00d"].rows] == [0, 1, 2, 3, 4, 5, 6]


def test_group_job_type_name_tags_and_config_are_there(recorded):
    run = recorded[1].runs["f00d"]
    about = {key: run.about[key] for key in ("groupName", "jobType", "displayName", "tags", "project", "sweep")}
    assert about == {
        "groupName": "run-1",
        "jobType": "ppo",
        "displayName": "run-1/ppo",
        "tags": ["reviews", "seed 3"],
        "project": "rlhf_ray",
        "sweep": "sweep9",
    }
    assert (run.config["seed"]["value"], run.config["beta"]["value"]) == (3, 0.05)
    assert run.config["used"]["value"][0]["url"] == "https://w/5f7"


def test_how_it_ended_best_and_last_values_and_alerts_are_told(recorded):
    _, server, _, (exit_code, failed) = recorded
    run = server.runs["f00d"]
    assert (exit_code, failed["status"], failed["error"]) == (1, "failed", "it broke")
    assert (run.exit_code, run.summary["status"], run.summary.get("error")) == (0, "finished", None)
    assert run.summary["objective/scores"] == {"max": 6, "last": 6}
    assert {(alert["runName"], alert["title"], alert["severity"]) for alert in server.alerts} == {
        ("5f7", "KL", "WARN"),
        ("f00d", "KL", "WARN"),
    }


def test_the_result_is_committed_with_its_card_and_the_run_that_uses_it_says_so(recorded):
    folder, server, said, _ = recorded
    results = [made for made in server.artifacts.values() if made.kind == "policy"]
    assert [(made.made_by, made.version, made.committed) for made in results] == [
        ("5f7", 0, True),
        ("f00d", 1, True),
        ("f00d", 2, True),
    ]
    assert set(results[0].aliases) == {"latest", "run-1"}
    assert (results[0].metadata["version"], results[0].metadata["metrics"]) == (1, {"eval/win_rate": 0.9})
    assert results[0].metadata["path"] == str(folder / "sft" / "policy")
    assert set(results[0].used_by) == {"f00d"}
    assert "artifact='team/rlhf_ray/policy:v0'" in said["sft"].stdout
    assert f"url='{server.url}/team/rlhf_ray/runs/5f7'" in said["sft"].stdout


def test_an_input_that_the_server_does_not_have_is_told_and_costs_nothing_else(recorded):
    for said in (recorded[2]["failed"], recorded[2]["resumed"]):
        assert "W&B: team/rlhf_ray/policy:v7 is not declared as the reward_model (" in said.stdout
        assert "left out" not in said.stdout
        assert "recorded offline" not in said.stdout


def test_the_key_is_shown_to_the_server_and_written_nowhere(recorded):
    folder, server, said, _ = recorded
    assert server.keys
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []
    assert not any(KEY in one.stdout + one.stderr for one in said.values())


def test_what_follows_a_rollback_is_recorded_and_on_the_iterations_axis(tmp_path):
    with wandb_server() as server:
        online(tmp_path, server, steps=[0, 1, 2, 3, 2, 3, 4], status="preempted")
        online(tmp_path, server, steps=[4, 5])
        rows = server.runs["f00d"].rows
    assert [row["iteration"] for row in rows] == [0, 1, 2, 3, 2, 3, 4, 5]
    assert [row["_step"] for row in rows] == [0, 1, 2, 3, 4, 5, 6, 7]


@pytest.mark.slow
@pytest.mark.parametrize("trouble", Trouble)
def test_a_server_that_fails_midway_holds_nothing_up_and_its_run_lies_here(tmp_path, trouble):
    began = time.monotonic()
    with wandb_server(trouble=trouble) as server:
        result = online(tmp_path, server, steps=list(range(8)), pause_s=0.5, patience_s=8.0)
        assert time.monotonic() - began < 60
    assert float(result.stdout.partition("slowest ")[2].split()[0]) < 1
    assert result.stdout.count("tracker left out: ") == 1
    (path,) = wandb_files(tmp_path)["f00d"]
    assert [row["iteration"] for row in read_wandb_run([path]).rows][:7] == [0, 1, 2, 3, 4, 5, 6]
