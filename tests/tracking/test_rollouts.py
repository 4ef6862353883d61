import numpy as np
import pyarrow.parquet as pq
import pytest

from rlhf_ray.tracking.rollout_files import prune_rollouts, rollouts_path
from rlhf_ray.tracking.rollouts import write_rollouts
from rlhf_ray.types import Completions, FinishReason, Prompts, Ragged, RewardPart, Rewards, Rollouts


def floats(*rows):
    return Ragged.from_rows(rows, np.float32)


@pytest.fixture
def rollouts():
    """Two answers, of two tokens and of none."""
    completions = Completions(
        prompts=Prompts(
            ids=("r1", "r7"), texts=("The soup", "Ä film"), tokens=Ragged.from_rows([[5, 6, 7], [8]], np.int32)
        ),
        tokens=Ragged.from_rows([[3, 2], []], np.int32),
        texts=(" is good", ""),
        logprobs=floats([-0.5, -0.25], []),
        finish_reasons=(FinishReason.STOP, FinishReason.LENGTH),
        versions=np.array([[4, 4], [4, 5]], dtype=np.int64),
    )
    return Rollouts(
        completions=completions,
        rewards=Rewards(
            scores=np.array([1.5, -1.0]),
            parts=(RewardPart(name="tone", values=np.array([0.75, 0.0])),),
        ),
        logprobs=floats([-0.5, -0.5], []),
        ref_logprobs=floats([-1.0, -2.0], []),
        values=floats([0.125, 0.5], []),
        end_values=np.array([0.5, 0.0], dtype=np.float64),
    )


def test_a_row_holds_everything_known_about_an_answer(tmp_path, rollouts):
    path = rollouts_path(tmp_path / "rollouts", 12)
    write_rollouts(path, step=12, rollouts=rollouts, advantages=floats([1.0, 0.5], []))
    assert path.name == "step-000012.parquet"
    first, second = pq.read_table(path).to_pylist()
    assert first == {
        "step": 12,
        "prompt_id": "r1",
        "prompt": "The soup",
        "prompt_tokens": [5, 6, 7],
        "response": " is good",
        "response_tokens": [3, 2],
        "version_first": 4,
        "version_last": 4,
        "finish_reason": "stop",
        "generator_logprobs": [-0.5, -0.25],
        "logprobs": [-0.5, -0.5],
        "ref_logprobs": [-1.0, -2.0],
        "values": [0.125, 0.5],
        "end_value": 0.5,
        "score": 1.5,
        "score/tone": 0.75,
        "kl": 2.0,
        "advantage_mean": 0.75,
    }
    assert (second["prompt"], second["version_last"], second["finish_reason"]) == ("Ä film", 5, "length")
    assert (second["response_tokens"], second["kl"], second["advantage_mean"]) == ([], 0.0, 0.0)


def test_nothing_but_the_file_is_left_beside_it(tmp_path, rollouts):
    path = rollouts_path(tmp_path, 1)
    for _ in range(2):
        write_rollouts(path, step=1, rollouts=rollouts, advantages=floats([1.0, 0.5], []))
    assert [found.name for found in tmp_path.iterdir()] == ["step-000001.parquet"]


def test_the_newest_iterations_are_kept_by_number_and_other_files_are_left_alone(tmp_path):
    for step in (2, 10, 999_999, 1_000_000):
        rollouts_path(tmp_path, step).touch()
    (tmp_path / "notes.txt").touch()
    prune_rollouts(tmp_path, keep=2)
    assert sorted(found.name for found in tmp_path.iterdir()) == [
        "notes.txt",
        "step-1000000.parquet",
        "step-999999.parquet",
    ]
