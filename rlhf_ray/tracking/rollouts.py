"""rollouts/step-000012.parquet: every answer of an iteration with everything known about it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rlhf_ray.files.atomic import replaced_atomically
from rlhf_ray.types import Ragged, Rollouts


def write_rollouts(path: Path, *, step: int, rollouts: Rollouts, advantages: Ragged) -> None:
    """One row an answer, in batch order. The file appears complete or not at all. Raises OSError for a full disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced_atomically(path) as temporary:
        pq.write_table(rollouts_table(step, rollouts, advantages), temporary, compression="zstd")


def rollouts_table(step: int, rollouts: Rollouts, advantages: Ragged) -> pa.Table:
    """The columns. Log-probs are natural logarithms; kl is the answer's sum of logprobs - ref_logprobs, in nats."""
    answers, rewards = rollouts.completions, rollouts.rewards
    kl = rollouts.logprobs.like(
        rollouts.logprobs.values.astype(np.float64) - rollouts.ref_logprobs.values.astype(np.float64)
    )
    columns = {
        "step": pa.array([step] * len(answers.tokens), pa.int64()),
        "prompt_id": pa.array(answers.prompts.ids, pa.string()),
        "prompt": pa.array(answers.prompts.texts, pa.string()),
        "prompt_tokens": _lists(answers.prompts.tokens),
        "response": pa.array(answers.texts, pa.string()),
        "response_tokens": _lists(answers.tokens),
        "version_first": pa.array(answers.versions[:, 0]),
        "version_last": pa.array(answers.versions[:, 1]),
        "finish_reason": pa.array([reason.value for reason in answers.finish_reasons], pa.string()),
        "generator_logprobs": _lists(answers.logprobs),
        "logprobs": _lists(rollouts.logprobs),
        "ref_logprobs": _lists(rollouts.ref_logprobs),
        "values": _lists(rollouts.values),
        "end_value": pa.array(rollouts.end_values),
        "score": pa.array(rewards.scores),
        **{f"score/{part.name}": pa.array(part.values) for part in rewards.parts},
        "kl": pa.array(_row_sums(kl)),
        "advantage_mean": pa.array(_row_sums(advantages) / np.maximum(advantages.lengths, 1)),
    }
    return pa.table(columns)


def _lists(ragged: Ragged) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(ragged.offsets, pa.int32()), pa.array(ragged.values))


def _row_sums(ragged: Ragged) -> NDArray[np.float64]:
    return np.array([row.sum(dtype=np.float64) for row in ragged.rows()], dtype=np.float64)
