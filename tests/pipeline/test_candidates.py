"""Which reward model PPO takes."""

import json

import pytest

from rlhf_ray.pipeline.candidates import RewardModelCandidates, best_of, last_step
from rlhf_ray.tracking.artifacts import Candidate
from rlhf_ray.types import Last


def stats(accuracy, loss):
    return {"reward_model/val_accuracy": Last(accuracy), "reward_model/val_loss": Last(loss)}


def candidate(step, accuracy, loss):
    return Candidate(step=step, metrics={"reward_model/val_accuracy": accuracy, "reward_model/val_loss": loss})


@pytest.mark.parametrize(
    ("candidates", "best"),
    [
        ([(1, 0.8, 0.5), (2, 0.9, 0.6), (3, 0.85, 0.4)], 2),
        ([(1, 0.9, 0.4), (2, 0.9, 0.6)], 1),
        ([(1, 0.9, 0.4), (2, 0.9, 0.4)], 2),
        ([(1, 0.5, 0.4), (2, None, None)], 1),
    ],
    ids=["most accurate", "then lowest loss", "then latest", "unmeasured is worst"],
)
def test_the_best_is_the_most_accurate(candidates, best):
    assert best_of([candidate(*one) for one in candidates]).step == best


class Model:
    """A model that writes down the step it is at."""

    def __init__(self):
        self.step = 0

    def save(self, folder):
        (folder / "critic").mkdir(parents=True)
        (folder / "critic" / "step").write_text(str(self.step))

    def load(self, folder):
        self.step = int((folder / "critic" / "step").read_text())


def train(folder, model, accuracies, *, rows=()):
    """Validated at steps 1, 2, ...; the last one decides."""
    candidates = RewardModelCandidates(folder, rows=rows, save=model.save)
    first = len([row for row in rows if row["step"] > 0]) + 1
    steps = list(enumerate(accuracies, start=first))
    for step, accuracy in steps:
        model.step = step
        if step < steps[-1][0]:
            candidates.consider(step, stats(accuracy, 0.5))
    candidates.decide(steps[-1][0], stats(accuracies[-1], 0.5), load=model.load)
    return candidates.decision()


def test_the_best_state_is_gone_back_to_and_the_choice_is_recorded(tmp_path):
    model = Model()
    decision = train(tmp_path / "best", model, [0.7, 0.9, 0.8, 0.85])
    assert model.step == decision.chosen == 2
    assert [(one.step, one.metrics["reward_model/val_accuracy"]) for one in decision.candidates] == [
        (1, 0.7),
        (2, 0.9),
        (3, 0.8),
        (4, 0.85),
    ]
    assert json.loads((tmp_path / "best" / "decision.json").read_text())["chosen"] == 2


def test_the_last_state_is_taken_where_none_was_better(tmp_path):
    model = Model()
    assert train(tmp_path / "best", model, [0.7, 0.9, 0.95]).chosen == 3
    assert model.step == 3
    assert train(tmp_path / "one", Model(), [0.5]).chosen == 1


def test_a_resumed_stage_knows_the_candidates_before_it(tmp_path):
    model = Model()
    candidates = RewardModelCandidates(tmp_path, rows=[], save=model.save)
    model.step = 1
    candidates.consider(1, stats(0.9, 0.5))
    rows = [
        {"step": 0, "reward_model/val_accuracy": 0.99, "reward_model/val_loss": 0.1},
        {"step": 1, "reward_model/val_accuracy": 0.9, "reward_model/val_loss": 0.5},
    ]
    assert train(tmp_path, model, [0.8, 0.85], rows=rows).chosen == 1
    assert model.step == 1


def test_a_better_state_that_a_resume_has_set_aside_is_no_candidate(tmp_path):
    """Steps beyond the last checkpoint are done again: what was kept of them is compared anew."""
    model = Model()
    candidates = RewardModelCandidates(tmp_path, rows=[], save=model.save)
    for step, accuracy in ((1, 0.7), (2, 0.9)):
        model.step = step
        candidates.consider(step, stats(accuracy, 0.5))
    rows = [{"step": 1, "reward_model/val_accuracy": 0.7, "reward_model/val_loss": 0.5}]
    decision = train(tmp_path, model, [0.9, 0.8], rows=rows)
    assert decision.chosen == model.step == 2


def test_of_other_stages_the_last_state_is_taken_and_the_best_one_named():
    rows = [{"step": step, "sft/val_loss": loss} for step, loss in ((0, 0.1), (10, 2.0), (20, 1.5), (30, 1.6))]
    decision = last_step([*rows, {"step": 35, "sft/loss": 1.0}], metric="sft/val_loss", sign=-1)
    assert decision is not None
    assert (decision.chosen, len(decision.candidates)) == (20, 3)
    assert last_step(rows, metric="sft/val_loss", sign=1).chosen == 10
    assert last_step(rows, metric="eval/gold_score", sign=1) is None
