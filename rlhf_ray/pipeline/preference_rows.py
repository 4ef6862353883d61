"""What the reward model learns from, and the scale that its scores get on it."""

from __future__ import annotations

from pathlib import Path

from rlhf_ray.actors.data_worker import DataWorker
from rlhf_ray.actors.handed_rows import HandedRows
from rlhf_ray.actors.learner_worker import LearnerWorker
from rlhf_ray.data.row_sets import RowSet
from rlhf_ray.pipeline import stage_settings
from rlhf_ray.pipeline.context import Context
from rlhf_ray.types import Last, Stats


def preferences(ctx: Context, policy: Path) -> tuple[HandedRows, HandedRows]:
    """Training and held-out groups of answers: the user's, or the policy's own labelled by gold."""
    if not ctx.opened.rows.has_preferences:
        _label_own_answers(ctx, policy)
    team = ctx.opened.team
    return HandedRows(team, RowSet.PREFERENCES), HandedRows(team, RowSet.HELD_OUT_PREFERENCES)


def normalize(ctx: Context, train: HandedRows) -> Stats:
    """Fix the scale of the scores on the training answers."""
    kind = ctx.config.reward_model.normalize
    if kind == "none":
        return {}
    runtime, critic = ctx.opened.team.runtime, ctx.opened.team.workers.critic
    scores = train.scores(critic)
    mean, std = float(scores.mean()), float(scores.std()) if kind == "mean_std" else 1.0
    runtime.gather([runtime.call(critic, LearnerWorker.normalize, mean, std)])
    return {"reward_model/score_mean": Last(mean), "reward_model/score_std": Last(std)}


def _label_own_answers(ctx: Context, policy: Path) -> None:
    """They stay with the data worker."""
    team, workers, stage = ctx.opened.team, ctx.opened.team.workers, ctx.config.reward_model
    runtime = team.runtime
    ctx.display.message(f"sampling {stage.samples_per_prompt} answers to each of {stage.num_prompts} prompts")
    runtime.gather([runtime.call(workers.policy, LearnerWorker.open_policy, policy, stage_settings.POLICY_METRICS)])
    team.sync(version=0)
    requests = runtime.call_many(
        workers.data,
        DataWorker.preference_requests,
        stage.num_prompts,
        stage.samples_per_prompt,
        num_results=len(workers.generators),
    )
    answers = team.answers(requests, num_samples=stage.samples_per_prompt, version=0)
    runtime.gather(
        [runtime.call(workers.data, DataWorker.label, answers, stage.samples_per_prompt, stage.held_out_share)]
    )
