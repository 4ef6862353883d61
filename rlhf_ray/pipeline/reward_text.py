"""A reward model that was trained with another tokenizer than the policy's reads texts, not the sampled ids."""

from __future__ import annotations

from pathlib import Path

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.models.vocabulary import tokenizer_digest
from rlhf_ray.pipeline.context import Context


def open_reward_text(ctx: Context, reward: Path) -> bool:
    """Whether answers must be re-encoded; where they must, the data worker then can."""
    if tokenizer_digest(reward) == tokenizer_digest(ctx.opened.base_model):
        return False
    team = ctx.opened.team
    ctx.display.message(f"{reward} has another tokenizer than {ctx.opened.base_model}: it reads texts, not ids")
    team.runtime.gather([team.runtime.call(team.workers.data, DataWorker.open_reward_tokenizer, reward)])
    return True
