"""What the supervised stages record besides their losses."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.actors.handed_rows import HandedRows
from rlhf_ray.data.row_sets import RowSet
from rlhf_ray.loops.supervised import SupervisedSettings
from rlhf_ray.pipeline.context import RIDING, Context
from rlhf_ray.tracking.artifacts import CARD, read_artifact
from rlhf_ray.tracking.preference_stats import reference_stats
from rlhf_ray.types import Last, Stats

Record = Callable[[int, Stats], None]


def sft_validation(stats: Stats) -> Stats:
    """The loss on held-out demonstrations, also as perplexity."""
    loss = stats["sft/loss"]
    perplexity = None if loss.value is None else math.exp(min(loss.value, 700.0))
    return {"sft/val_loss": loss, "sft/perplexity": Last(perplexity)}


def with_rouge(ctx: Context, record: Record, loop: SupervisedSettings) -> Record:
    """Adds ROUGE to the first validated record after each epoch, and to the last record."""
    epoch = 0

    def record_with_rouge(step: int, stats: Stats) -> None:
        nonlocal epoch
        reached = step * loop.batch_size // loop.num_rows
        due = step == loop.num_steps or ("sft/val_loss" in stats and reached > epoch)
        if due and ctx.config.sft.rouge_samples:
            epoch = reached
            stats.update(rouge(ctx))
        record(step, stats)

    return record_with_rouge


def rouge(ctx: Context) -> Stats:
    """The policy as it is answers the prompts of held-out demonstrations."""
    team, data = ctx.opened.team, ctx.opened.team.workers.data
    team.sync(version=0)
    requests = team.runtime.call_many(
        data, DataWorker.imitation_requests, ctx.config.sft.rouge_samples, num_results=len(team.workers.generators)
    )
    answers = team.answers(requests, num_samples=1, version=0)
    stats: Stats = team.runtime.gather([team.runtime.call(data, DataWorker.rouge, answers)])[0]
    return stats


def reference_scores(ctx: Context) -> Stats:
    """What the reward model thinks of held-out demonstrations, where there are some."""
    if not ctx.opened.rows.has_demonstrations:
        return {}
    team = ctx.opened.team
    return reference_stats(HandedRows(team, RowSet.HELD_OUT_DEMONSTRATIONS).scores(team.workers.critic))


def reward_model_facts(folder: Path) -> Stats:
    """What a reward model can know, as its card tells: recorded beside the scores it gives."""
    if not (folder / CARD).is_file():
        return {}
    metrics = read_artifact(folder, verify=False).metrics
    return {name: Last(metrics[name]) for name in RIDING if name in metrics}
