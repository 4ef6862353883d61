"""Ray changes no number: three stages over actors and in one process give the same metrics to the bit."""

import json

import pytest
from small_run import read_metrics, reproducible

from rlhf_ray.pipeline.run import run_stages


@pytest.fixture(scope="module")
def twins(local_bench, ray_bench, tmp_path_factory):
    """Run directories of the same stages over both teams."""
    folders = []
    for name, bench in (("local", local_bench), ("ray", ray_bench)):
        folders.append(tmp_path_factory.mktemp(name) / "run")
        with bench.context(folders[-1], "sft.num_steps=20") as ctx:
            run_stages(ctx)
    return folders


def test_all_metrics_are_equal_to_the_bit(twins):
    ours, theirs = (reproducible(read_metrics(folder)) for folder in twins)
    assert [row["step"] for row in ours if row["stage"] == "ppo"] == [0, 1, 2, 3]
    assert len(ours) == len(theirs)
    for mine, its in zip(ours, theirs, strict=True):
        assert mine == its


def test_all_artifacts_are_equal_to_the_bit(twins):
    for name in ("sft-policy", "reward-model", "policy"):
        cards = [json.loads((folder / "artifacts" / name / "artifact.json").read_text()) for folder in twins]
        assert cards[0]["digest"] == cards[1]["digest"], name


def test_the_metrics_moved(twins):
    """Equal because nothing happened would prove nothing."""
    rows = read_metrics(twins[0], "ppo")
    assert len({row["eval/proxy_score"] for row in rows if "eval/proxy_score" in row}) > 1
    assert all(row["policy/grad_norm"] > 0 for row in rows[1:])
