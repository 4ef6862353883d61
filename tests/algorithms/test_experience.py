import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhf_ray.algorithms.aggregation import LossForm
from rlhf_ray.algorithms.corrections import CorrectionKind, RolloutCorrection
from rlhf_ray.algorithms.experience import ExperienceSettings, Truncated, make_experience
from rlhf_ray.algorithms.kl import KlEstimator
from rlhf_ray.algorithms.shaping import MissingEos, ScoreSlot
from rlhf_ray.types import (
    Completions,
    Experience,
    FinishReason,
    Prompts,
    Ragged,
    RewardPart,
    Rewards,
    Rollouts,
)

STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
PLAIN = ExperienceSettings(
    kl_coef=0.1,
    kl_in_loss=False,
    kl_estimator=KlEstimator.K1,
    gamma=1.0,
    lam=0.95,
    score_slot=ScoreSlot.EOS,
    missing_eos=MissingEos.NONE,
    missing_eos_value=-1.0,
    truncated=Truncated.TERMINAL,
    whiten_rewards=False,
    whiten_advantages=False,
    loss_form=LossForm.TOKEN_MEAN,
    max_new_tokens=5,
    rollout_correction=None,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """One row, written out."""

    tokens: Sequence[int] = (7, 8, 2)
    kl: Sequence[float] = (0.1, 0.0, -0.05)
    values: Sequence[float] = (0.5, 0.4, 0.2)
    end_value: float = 0.3
    score: float = 1.0
    finish: FinishReason = STOP
    mismatch: float = 0.0  # learner's minus generator's log-prob, on every token


EMPTY = Answer(tokens=(), kl=(), values=(), score=9.0)


def settings(**changes: Any) -> ExperienceSettings:
    return dataclasses.replace(PLAIN, **changes)


def rollouts_of(*answers: Answer) -> Rollouts:
    tokens = Ragged.from_rows([answer.tokens for answer in answers], np.int32)
    old = [[-1.0] * len(answer.tokens) for answer in answers]
    scores = np.array([answer.score for answer in answers], dtype=np.float64)
    completions = Completions(
        prompts=Prompts(
            ids=tuple(f"p{row}" for row in range(len(answers))),
            texts=("prompt",) * len(answers),
            tokens=Ragged.from_rows([[1, 3]] * len(answers), np.int32),
        ),
        tokens=tokens,
        texts=("",) * len(answers),
        logprobs=Ragged.from_rows([[-1.0 - a.mismatch] * len(a.tokens) for a in answers], np.float32),
        finish_reasons=tuple(answer.finish for answer in answers),
        versions=np.zeros((len(answers), 2), dtype=np.int64),
    )
    return Rollouts(
        completions=completions,
        rewards=Rewards(scores=scores, parts=(RewardPart(name="length", values=scores * 2),)),
        logprobs=Ragged.from_rows(old, np.float32),
        ref_logprobs=Ragged.from_rows([[-1.0 - kl for kl in answer.kl] for answer in answers], np.float64),
        values=Ragged.from_rows([answer.values for answer in answers], np.float64),
        end_values=np.array([answer.end_value for answer in answers], dtype=np.float64),
    )


def rows_of(ragged: Ragged) -> list[list[float]]:
    return [row.tolist() for row in ragged.rows()]


def values_of(experience: Experience) -> dict[str, float | None]:
    return {name: stat.value for name, stat in experience.stats.items()}


def test_one_answer_by_hand() -> None:
    experience = make_experience(rollouts_of(Answer()), settings=PLAIN)
    policy, critic = experience.policy, experience.critic
    assert rows_of(policy.targets.advantages)[0] == pytest.approx([0.4265125, 0.56475, 0.805], abs=1e-6)
    assert rows_of(critic.targets.returns)[0] == pytest.approx([0.9265125, 0.96475, 1.005], abs=1e-6)
    assert rows_of(critic.targets.old_values)[0] == pytest.approx([0.5, 0.4, 0.2], abs=1e-6)
    for batch in (policy, critic):
        assert rows_of(batch.targets.weights) == [[1.0, 1.0, 1.0]]
        assert batch.row_counts.tolist() == [3.0]
        assert rows_of(batch.sequences.tokens) == [[1, 3, 7, 8, 2]]
        assert batch.sequences.prompt_lengths.tolist() == [2]
        assert batch.rows_per_group == 1


def test_cut_answer_bootstraps_from_the_critics_last_reading_and_a_finished_one_does_not() -> None:
    cut = Answer(finish=LENGTH)
    experience = make_experience(rollouts_of(cut, Answer()), settings=settings(truncated=Truncated.BOOTSTRAP))
    advantages = rows_of(experience.policy.targets.advantages)
    assert advantages[0] == pytest.approx([0.6972625, 0.84975, 1.105], abs=1e-6)
    assert advantages[1] == pytest.approx([0.4265125, 0.56475, 0.805], abs=1e-6)


def test_missing_end_token_is_read_from_the_finish_reason_not_from_the_length() -> None:
    full = Answer(tokens=(7, 8, 9, 7, 2), kl=(0.0,) * 5, values=(0.0,) * 5)
    cut = Answer(finish=LENGTH)
    stats = values_of(make_experience(rollouts_of(full, cut), settings=settings(missing_eos=MissingEos.REPLACE)))
    assert stats["objective/scores_max"] == 1.0
    assert stats["objective/scores_min"] == -1.0
    assert stats["objective/scores"] == 0.0
    assert stats["val/num_eos_tokens"] == 1.0
    assert stats["val/eos_rate"] == stats["response/truncated_rate"] == 0.5


def test_score_after_the_end_trains_the_critic_one_slot_further() -> None:
    full = Answer(tokens=(7, 8, 9, 7, 2), kl=(0.0,) * 5, values=(0.0,) * 5)
    experience = make_experience(rollouts_of(Answer(), full, EMPTY), settings=settings(score_slot=ScoreSlot.AFTER_EOS))
    # the value before the score's slot is 0.3: d = [-0.11, -0.2, 0.105, 0.7]
    last = 0.105 + 0.95 * 0.7
    middle = -0.2 + 0.95 * last
    assert rows_of(experience.policy.targets.advantages)[0] == pytest.approx(
        [-0.11 + 0.95 * middle, middle, last], abs=1e-6
    )
    critic = experience.critic
    assert rows_of(critic.targets.returns)[0][3] == pytest.approx(1.0)
    assert rows_of(critic.targets.old_values)[0][3] == pytest.approx(0.3)
    assert critic.row_counts.tolist() == [4.0, 5.0, 0.0]
    assert rows_of(critic.sequences.tokens) == [[1, 3, 7, 8, 2, 2], [1, 3, 7, 8, 9, 7, 2], [1, 3]]
    assert experience.policy.row_counts.tolist() == [3.0, 5.0, 0.0]


def test_score_slot_does_not_depend_on_the_longest_answer_of_the_batch() -> None:
    full = Answer(tokens=(7, 8, 9, 7, 2), kl=(0.0,) * 5, values=(0.0,) * 5)
    chosen = settings(score_slot=ScoreSlot.AFTER_EOS)
    alone = make_experience(rollouts_of(Answer()), settings=chosen)
    beside = make_experience(rollouts_of(Answer(), full), settings=chosen)
    assert rows_of(alone.critic.targets.returns)[0] == rows_of(beside.critic.targets.returns)[0]
    assert len(rows_of(alone.critic.targets.returns)[0]) == 4


def test_advantages_are_whitened_over_response_tokens_not_over_the_score_slot() -> None:
    chosen = settings(score_slot=ScoreSlot.AFTER_EOS, whiten_advantages=True)
    experience = make_experience(rollouts_of(Answer(), Answer(score=-2.0)), settings=chosen)
    advantages = experience.policy.targets.advantages.values
    assert len(advantages) == 6
    assert advantages.mean() == pytest.approx(0.0, abs=1e-6)
    assert advantages.std() == pytest.approx(1.0, abs=1e-5)


def test_kl_in_the_loss_leaves_the_reward_to_the_score() -> None:
    experience = make_experience(rollouts_of(Answer()), settings=settings(kl_in_loss=True))
    stats = values_of(experience)
    assert stats["objective/non_score_reward"] == 0.0
    assert stats["objective/rlhf_reward"] == stats["objective/scores"] == 1.0
    assert stats["objective/kl"] == pytest.approx(0.05, abs=1e-6)
    assert rows_of(experience.critic.targets.returns)[0][2] == pytest.approx(1.0)


def test_statistics_by_hand() -> None:
    loop = Answer(tokens=(7, 7, 7, 7, 7), kl=(0.2,) * 5, values=(0.0,) * 5, score=3.0, finish=LENGTH, mismatch=0.1)
    stats = values_of(make_experience(rollouts_of(Answer(), loop), settings=PLAIN))
    expected = {
        "objective/scores": 2.0,
        "objective/scores_std": 1.0,
        "objective/scores_min": 1.0,
        "objective/scores_max": 3.0,
        "objective/scores_p05": 1.1,
        "objective/scores_p50": 2.0,
        "objective/scores_p95": 2.9,
        "objective/kl": 0.525,
        "objective/non_score_reward": -0.0525,
        "objective/rlhf_reward": 1.9475,
        "objective/entropy": 4.0,
        "objective/kl_coef": 0.1,
        "val/num_eos_tokens": 1.0,
        "val/eos_rate": 0.5,
        "response/length_mean": 4.0,
        "response/length_max": 5.0,
        "response/truncated_rate": 0.5,
        "response/distinct_1": 3 / 8,
        "response/distinct_2": 3 / 6,
        "response/repetition_4gram": 0.5,  # the short answer has no 4-gram
        "reward/length_correlation": 1.0,
        "reward/parts/length": 4.0,
        "rollout/kl_mismatch": 5 / 8 * (math.exp(0.1) - 1.1),
        "rollout/logprob_absdiff_max": 0.1,
    }
    explained = stats.pop("val/explained_variance")
    assert stats.pop("objective/scores_histogram") is None, "shown, not recorded"
    assert set(stats) == set(expected)
    for name, value in expected.items():
        assert stats[name] == pytest.approx(value, abs=1e-6), name
    returns = np.array([0.9265125, 0.96475, 1.005, *(3.0 - 0.02 - 0.02 * k for k in range(4, -1, -1))])
    # with values 0 the second answer's returns are discounted by lambda
    returns[3:] = [-0.02 * sum(0.95**k for k in range(5 - t)) + 3.0 * 0.95 ** (4 - t) for t in range(5)]
    errors = returns - np.array([0.5, 0.4, 0.2] + [0.0] * 5)
    assert explained == pytest.approx(1 - errors.var() / returns.var(), abs=1e-6)


def test_whitened_advantages_have_mean_zero_and_variance_one_over_the_batch_but_returns_are_untouched() -> None:
    answers = rollouts_of(Answer(), Answer(score=-2.0), EMPTY)
    plain = make_experience(answers, settings=PLAIN)
    whitened = make_experience(answers, settings=settings(whiten_advantages=True))
    advantages = whitened.policy.targets.advantages.values
    assert advantages.mean() == pytest.approx(0.0, abs=1e-6)
    assert advantages.std() == pytest.approx(1.0, abs=1e-5)
    assert rows_of(whitened.critic.targets.returns) == rows_of(plain.critic.targets.returns)
    assert values_of(whitened) == values_of(plain)


def test_whitened_rewards_keep_the_objective_as_measured() -> None:
    answers = rollouts_of(Answer(), Answer(score=-2.0))
    whitened = make_experience(answers, settings=settings(whiten_rewards=True))
    assert values_of(whitened)["objective/rlhf_reward"] == pytest.approx(-0.505, abs=1e-6)
    plain = make_experience(answers, settings=PLAIN)
    assert rows_of(whitened.critic.targets.returns) != rows_of(plain.critic.targets.returns)


def test_generators_gap_caps_the_policys_weights_but_not_the_divisor() -> None:
    correction = RolloutCorrection(kind=CorrectionKind.TIS_TOKEN, low=0.0, high=2.0)
    answers = rollouts_of(Answer(mismatch=math.log(1.5)), Answer(mismatch=3.0))
    experience = make_experience(answers, settings=settings(rollout_correction=correction))
    assert rows_of(experience.policy.targets.weights) == [pytest.approx([1.5] * 3), [2.0] * 3]
    assert experience.policy.row_counts.tolist() == [3.0, 3.0]
    assert rows_of(experience.critic.targets.weights) == [[1.0] * 3] * 2


def test_correction_multiplies_the_loss_forms_weights() -> None:
    correction = RolloutCorrection(kind=CorrectionKind.TIS_TOKEN, low=0.0, high=2.0)
    chosen = settings(rollout_correction=correction, loss_form=LossForm.SEQUENCE_MEAN_TOKEN_MEAN)
    experience = make_experience(rollouts_of(Answer(mismatch=3.0)), settings=chosen)
    assert rows_of(experience.policy.targets.weights)[0] == pytest.approx([2 / 3] * 3)


def test_sequence_mean_weights_count_answers() -> None:
    short = Answer(tokens=(2,), kl=(0.0,), values=(0.0,))
    experience = make_experience(
        rollouts_of(Answer(), short, EMPTY), settings=settings(loss_form=LossForm.SEQUENCE_MEAN_TOKEN_MEAN)
    )
    assert rows_of(experience.policy.targets.weights) == [pytest.approx([1 / 3] * 3), [1.0], []]
    assert experience.policy.row_counts.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize("answers", [(), (EMPTY,), (EMPTY, EMPTY)])
@pytest.mark.parametrize("slot", list(ScoreSlot))
def test_a_batch_in_which_nothing_is_trained_still_returns(answers: tuple[Answer, ...], slot: ScoreSlot) -> None:
    everything = settings(score_slot=slot, whiten_advantages=True, whiten_rewards=True, truncated=Truncated.BOOTSTRAP)
    experience = make_experience(rollouts_of(*answers), settings=everything)
    assert experience.policy.targets.weights.values.size == 0
    assert experience.policy.row_counts.sum() == experience.critic.row_counts.sum() == 0.0
    stats = values_of(experience)
    assert stats["val/explained_variance"] is None
    assert stats["rollout/kl_mismatch"] is None
    assert not any(isinstance(value, float) and math.isnan(value) for value in stats.values())


numbers = st.floats(min_value=-2, max_value=2, width=32)


@st.composite
def batches(draw: st.DrawFn) -> list[Answer]:
    answers = []
    for length in draw(st.lists(st.integers(0, 5), min_size=1, max_size=5)):
        row = st.lists(numbers, min_size=length, max_size=length)
        answers.append(
            Answer(
                tokens=draw(st.lists(st.integers(0, 9), min_size=length, max_size=length)),
                kl=draw(row),
                values=draw(row),
                end_value=draw(numbers),
                score=draw(numbers),
                finish=draw(st.sampled_from([STOP, LENGTH])),
            )
        )
    return answers


@given(batches(), st.sampled_from([0.0, 0.05]), st.sampled_from(list(ScoreSlot)))
def test_the_objective_is_score_plus_minus_beta_kl(answers: list[Answer], beta: float, slot: ScoreSlot) -> None:
    stats = values_of(make_experience(rollouts_of(*answers), settings=settings(kl_coef=beta, score_slot=slot)))
    scores, non_score = stats["objective/scores"], stats["objective/non_score_reward"]
    assert stats["objective/rlhf_reward"] == pytest.approx(scores + non_score, abs=1e-12)
    assert non_score == pytest.approx(-beta * stats["objective/kl"], abs=1e-12)


@given(batches(), st.sampled_from(list(ScoreSlot)), st.data())
def test_order_of_rows_and_width_of_the_window_change_nothing(
    answers: list[Answer], slot: ScoreSlot, data: st.DataObject
) -> None:
    chosen = settings(score_slot=slot, whiten_advantages=True, truncated=Truncated.BOOTSTRAP, max_new_tokens=6)
    plain = make_experience(rollouts_of(*answers), settings=chosen)
    order = data.draw(st.permutations(range(len(answers))))
    wider = dataclasses.replace(chosen, max_new_tokens=40)
    shuffled = make_experience(rollouts_of(*(answers[row] for row in order)), settings=wider)
    for field in ("weights", "advantages", "old_logprobs", "ref_logprobs"):
        got, expected = getattr(shuffled.policy.targets, field), getattr(plain.policy.targets, field).take(order)
        np.testing.assert_allclose(got.values, expected.values, rtol=0, atol=1e-6)
    for field in ("weights", "returns", "old_values"):
        got, expected = getattr(shuffled.critic.targets, field), getattr(plain.critic.targets, field).take(order)
        np.testing.assert_allclose(got.values, expected.values, rtol=0, atol=1e-6)
    stats, expected_stats = values_of(shuffled), values_of(plain)
    for name, value in expected_stats.items():
        assert stats[name] == pytest.approx(value, abs=1e-6), name


@given(batches(), st.sampled_from(list(ScoreSlot)))
def test_targets_align_with_the_response_tokens_of_their_sequences(answers: list[Answer], slot: ScoreSlot) -> None:
    experience = make_experience(rollouts_of(*answers), settings=settings(score_slot=slot))
    for batch, field in ((experience.policy, "advantages"), (experience.critic, "returns")):
        response_lengths = batch.sequences.tokens.lengths - batch.sequences.prompt_lengths
        assert getattr(batch.targets, field).lengths.tolist() == response_lengths.tolist()
        assert batch.targets.weights.lengths.tolist() == response_lengths.tolist()
        assert batch.row_counts.tolist() == response_lengths.tolist()
