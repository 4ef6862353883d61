import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlhf_ray.algorithms.masking import mask_from_lengths
from rlhf_ray.algorithms.shaping import (
    MissingEos,
    ScoreSlot,
    apply_missing_eos,
    mask_to_score,
    score_slots,
    shape_rewards,
)

WINDOW = 5


def test_rewards_by_hand_with_absurd_pads() -> None:
    kl = torch.tensor([[0.1, 0.0, -0.05, 1e6, 1e6]], dtype=torch.float64)
    shaped = shape_rewards(
        kl,
        torch.tensor([1.0]),
        mask_from_lengths(torch.tensor([3]), width=WINDOW),
        kl_coef=0.1,
        score_slot=ScoreSlot.EOS,
    )
    assert shaped.rewards.tolist()[0] == pytest.approx([-0.01, 0.0, 1.005, 0.0, 0.0], abs=1e-12)
    assert shaped.non_score.tolist()[0] == pytest.approx([-0.01, 0.0, 0.005, 0.0, 0.0], abs=1e-12)


@pytest.mark.parametrize(("slot", "expected"), [(ScoreSlot.EOS, [0, 2, 4, -1]), (ScoreSlot.AFTER_EOS, [1, 3, 4, -1])])
def test_score_slot_of_first_middle_last_and_no_token(slot: ScoreSlot, expected: list[int]) -> None:
    assert score_slots(torch.tensor([1, 3, 5, 0]), width=WINDOW, slot=slot).tolist() == expected


def test_a_row_without_tokens_has_no_reward_and_no_slot() -> None:
    mask = torch.zeros(1, WINDOW, dtype=torch.bool)
    for slot in ScoreSlot:
        shaped = shape_rewards(torch.ones(1, WINDOW), torch.tensor([3.0]), mask, kl_coef=0.1, score_slot=slot)
        assert shaped.rewards.abs().sum().item() == 0.0
        assert not mask_to_score(mask, slot=slot).any()


@given(
    st.lists(st.integers(min_value=1, max_value=WINDOW), min_size=1, max_size=6),
    st.sampled_from(list(ScoreSlot)),
    st.floats(min_value=0, max_value=1),
)
def test_every_answer_has_one_score_slot_and_nothing_after_it(lengths: list[int], slot: ScoreSlot, beta: float) -> None:
    mask = mask_from_lengths(torch.tensor(lengths), width=WINDOW)
    kl = torch.full((len(lengths), WINDOW), 0.25, dtype=torch.float64)
    scores = torch.arange(1, len(lengths) + 1, dtype=torch.float64) * 10
    shaped = shape_rewards(kl, scores, mask, kl_coef=beta, score_slot=slot)
    from_score = shaped.rewards - shaped.non_score
    assert ((from_score != 0).sum(dim=1) == 1).all()
    torch.testing.assert_close(from_score.sum(dim=1), scores, rtol=0, atol=1e-12)
    assert not shaped.rewards[~mask_to_score(mask, slot=slot)].any()
    # the part that is no score is -beta times the KL of the answer's own tokens
    torch.testing.assert_close(
        shaped.non_score.sum(dim=1), -beta * 0.25 * torch.tensor(lengths, dtype=torch.float64), rtol=0, atol=1e-12
    )


def test_missing_eos_rules_touch_unfinished_answers_only() -> None:
    scores, finished = torch.tensor([2.3, 2.3]), torch.tensor([True, False])
    by_rule = {rule: apply_missing_eos(scores, finished, rule=rule, value=-1.0).tolist() for rule in MissingEos}
    assert by_rule[MissingEos.REPLACE] == pytest.approx([2.3, -1.0])
    assert by_rule[MissingEos.SUBTRACT] == pytest.approx([2.3, 1.3])
    assert by_rule[MissingEos.NONE] == pytest.approx([2.3, 2.3])
