"""What the doctor does to a run: tells, stops, adapts, goes back; all of it from findings.jsonl again."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest
import yaml
from doctor_cases import HEALTHY_STEP
from small_run import LOCAL, by_step, read_metrics, small_config

from rlhf_ray.doctor.actions import replay
from rlhf_ray.errors import StoppedError
from rlhf_ray.files.jsonl import finite_row, read_jsonl
from rlhf_ray.loops.ppo import PpoState, Verdict
from rlhf_ray.pipeline.monitor import UNTREATED, Monitor
from rlhf_ray.pipeline.stages import ppo_stage
from rlhf_ray.pipeline.tracker import Tracker
from rlhf_ray.tracking.records import RunStatus, start_records
from rlhf_ray.types import Last

BETA = 0.05
START = PpoState(step=0, kl_coef=BETA, learning_rate_share=1.0)
KL_HIGH = HEALTHY_STEP | {"objective/kl": 30.0}
KL_LOST = HEALTHY_STEP | {"objective/kl": 60.0}


@dataclass
class Patient:
    """A run directory whose iterations are made up. Its state follows the verdicts as the loop's does."""

    folder: Path
    words: tuple[str, ...]
    state: PpoState = START
    told: list[str] = field(default_factory=list)
    rows: list[dict[str, float | str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        config = small_config(self.folder, *LOCAL, *self.words)
        self._records = start_records(
            self.folder, config=asdict(config), command=(), seed=1, source=self.folder, clock=lambda: 0.0
        )
        self._tracker = Tracker(config, self._records, tell=self.told.append)
        self._config = config
        self._monitor = Monitor(config, self.folder, rows=(), tell=self.told.append)

    def restart(self) -> None:
        """As after a kill: everything that the monitor knows is in the directory."""
        self._monitor.close()
        self._monitor = Monitor(self._config, self.folder, rows=self.rows, tell=self.told.append)

    def resume(self, checkpoint: PpoState) -> None:
        """As after a kill, from the last checkpoint: what came after it is gone."""
        self.rows = [row for row in self.rows if int(row["step"]) <= checkpoint.step]
        self.state = checkpoint
        self.restart()
        self._monitor.forget_after("ppo", checkpoint.step)

    def supervised(self, stage: str, step: int, values: Mapping[str, float]) -> None:
        """A record of a stage before PPO."""
        stats = {name: Last(value) for name, value in values.items()}
        self._monitor.watch(stage, step, stats, tracker=self._tracker)

    def iterate(self, values: Mapping[str, float], *, checkpoints: tuple[int, ...] = ()) -> Verdict:
        """One iteration with these metrics."""
        step = self.state.step + 1
        self.state = PpoState(step=step, kl_coef=self.state.kl_coef, learning_rate_share=self.state.learning_rate_share)
        stats = {name: Last(value) for name, value in values.items()}
        verdict = self._monitor.examine(self.state, stats, checkpoints=checkpoints, tracker=self._tracker)
        self.rows.append({"stage": "ppo", "step": step, **values})
        if verdict.rollback_to is not None:
            step = verdict.rollback_to
            self.rows = [row for row in self.rows if int(row["step"]) <= step]
            self._monitor.forget_after("ppo", step)
        self.state = PpoState(step=step, kl_coef=verdict.kl_coef, learning_rate_share=verdict.learning_rate_share)
        return verdict

    def live(self, *stretches: tuple[int, Mapping[str, float]]) -> list[Verdict]:
        """Stretches of equal iterations."""
        return [self.iterate(values) for count, values in stretches for _ in range(count)]

    def findings(self, record: str) -> list[dict[str, object]]:
        """The lines of findings.jsonl of one kind."""
        return [line for line in read_jsonl(self.folder / "findings.jsonl") if line["record"] == record]

    def end(self) -> None:
        self._monitor.close()
        self._records.finish(RunStatus.FINISHED, error=None)


Admit = Callable[..., Patient]


@pytest.fixture
def patient(tmp_path: Path) -> Iterator[Admit]:
    """Opens run directories."""
    admitted: list[Patient] = []

    def admit(*words: str) -> Patient:
        admitted.append(Patient(folder=tmp_path / f"run-{len(admitted)}", words=words))
        return admitted[-1]

    yield admit
    for one in admitted:
        one.end()


def test_a_healthy_run_goes_on_untouched(patient: Admit) -> None:
    run = patient()
    verdicts = run.live((12, HEALTHY_STEP))
    untouched = Verdict(kl_coef=BETA, learning_rate_share=1.0, rollback_to=None, stop=None)
    assert verdicts == [untouched] * 12
    assert run.told == []


def test_nan_ends_the_run_at_once(patient: Admit) -> None:
    run = patient()
    verdicts = run.live((4, HEALTHY_STEP), (1, HEALTHY_STEP | {"loss/policy_avg": math.nan}))
    assert [verdict.stop is None for verdict in verdicts] == [True] * 4 + [False]
    assert [(action["kind"], action["policy"], action["step"]) for action in run.findings("action")] == [
        ("nonfinite", "stop", 5)
    ]


def test_a_warning_is_told_and_recorded_and_changes_nothing(patient: Admit) -> None:
    run = patient()
    verdicts = run.live((6, HEALTHY_STEP), (5, KL_HIGH))
    assert {(verdict.kl_coef, verdict.learning_rate_share, verdict.stop) for verdict in verdicts} == {(BETA, 1.0, None)}
    assert any(line.startswith("warning: ppo") for line in run.told)
    assert {action["policy"] for action in run.findings("action")} == {"warn"}


def test_a_policy_of_stop_ends_the_run(patient: Admit) -> None:
    run = patient("doctor.stop=[runaway_kl]")
    ended = [verdict.stop for verdict in run.live((6, HEALTHY_STEP), (5, KL_HIGH)) if verdict.stop]
    assert ended[0].startswith("stopped by the doctor at iteration 8: the KL")
    assert "start a new run without runaway_kl in doctor.stop" in ended[0]


def test_without_the_doctor_only_the_kl_limit_ends_a_run(patient: Admit) -> None:
    run = patient("doctor.enabled=false", "algorithm.stop_above_kl=40")
    verdicts = run.live((6, KL_HIGH), (1, KL_LOST))
    assert [verdict.stop for verdict in verdicts[:-1]] == [None] * 6
    assert verdicts[-1].stop == "objective/kl=60.00 nats at iteration 7 is above algorithm.stop_above_kl=40"
    assert run.told == []


def test_adapting_raises_beta_and_lowers_the_rate_once_in_a_cooldown(patient: Admit) -> None:
    run = patient("doctor.adapt=[runaway_kl]", "doctor.cooldown=4")
    run.live((6, HEALTHY_STEP), (4, KL_HIGH), (4, KL_LOST))
    adapted = [action for action in run.findings("action") if action["policy"] == "adapt"]
    steps = [action["step"] for action in adapted]
    assert len(adapted) == 2
    assert steps[1] - steps[0] >= 4
    assert [action["kl_coef"] for action in adapted] == pytest.approx([BETA * 1.5, BETA * 1.5**2])
    assert [action["learning_rate_share"] for action in adapted] == [0.5, 0.25]
    assert (run.state.kl_coef, run.state.learning_rate_share) == (pytest.approx(BETA * 1.5**2), 0.25)


def test_adapting_stays_within_its_limits(patient: Admit) -> None:
    run = patient(
        "doctor.adapt=[runaway_kl]", "doctor.cooldown=0", "doctor.kl_coef_max=0.06", "doctor.learning_rate_min=0.4"
    )
    run.live((6, HEALTHY_STEP), (4, KL_HIGH), (6, KL_LOST))
    assert (run.state.kl_coef, run.state.learning_rate_share) == (0.06, 0.4)


def test_a_rollback_goes_to_the_last_checkpoint_before_the_onset(patient: Admit) -> None:
    run = patient("doctor.rollback=[runaway_kl]")
    run.live((6, HEALTHY_STEP))
    back = next(v for _ in range(5) if (v := run.iterate(KL_HIGH, checkpoints=(2, 4, 6, 8))).rollback_to is not None)
    assert back == Verdict(kl_coef=pytest.approx(0.075), learning_rate_share=0.5, rollback_to=6, stop=None)
    (finding,) = [line for line in run.findings("finding") if line["severity"] == "warning"][:1]
    assert finding["first_step"] == 7


def test_rollbacks_are_bounded(patient: Admit) -> None:
    run = patient("doctor.rollback=[runaway_kl]", "doctor.max_rollbacks=1", "doctor.cooldown=0")
    run.live((6, HEALTHY_STEP))
    verdicts = [run.iterate(KL_HIGH, checkpoints=(2, 4, 6)) for _ in range(12)]
    assert [v.rollback_to for v in verdicts if v.rollback_to is not None] == [6]
    assert any("there were 1 rollbacks already" in str(action["reason"]) for action in run.findings("action"))


def test_the_record_alone_tells_what_is_in_force(patient: Admit) -> None:
    run = patient("doctor.rollback=[runaway_kl]", "doctor.cooldown=0")
    run.live((6, HEALTHY_STEP))
    for _ in range(5):
        run.iterate(KL_HIGH, checkpoints=(2, 4, 6))
    replayed = replay(read_jsonl(run.folder / "findings.jsonl"), UNTREATED)
    assert (replayed.kl_coef, replayed.learning_rate_share) == (run.state.kl_coef, run.state.learning_rate_share)
    assert replayed.num_rollbacks == 2  # in iteration 9, and in the second iteration 8
    assert replayed.last_action == 6


@pytest.mark.parametrize("killed_after", [3, 8, 9, 11, 13])
def test_a_resumed_run_is_judged_as_a_straight_one(patient: Admit, killed_after: int) -> None:
    course = [HEALTHY_STEP] * 6 + [KL_HIGH] * 4 + [KL_LOST] * 6
    words = ("doctor.adapt=[runaway_kl]", "doctor.cooldown=4")
    straight, resumed = patient(*words), patient(*words)
    for step, values in enumerate(course, start=1):
        assert straight.iterate(values) == resumed.iterate(values)
        if step == killed_after:
            resumed.restart()
    assert straight.findings("finding") == resumed.findings("finding")
    assert straight.findings("action") == resumed.findings("action")


def test_a_resume_from_before_an_adaptation_makes_it_again(patient: Admit) -> None:
    course = [HEALTHY_STEP] * 6 + [KL_HIGH] * 4 + [KL_LOST] * 6
    words = ("doctor.adapt=[runaway_kl]", "doctor.cooldown=4")
    straight, resumed = patient(*words), patient(*words)
    verdicts = [straight.iterate(values) for values in course]
    for values in course[:7]:
        resumed.iterate(values)
    checkpoint = resumed.state
    for values in course[7:10]:
        resumed.iterate(values)
    assert resumed.state.learning_rate_share < checkpoint.learning_rate_share == 1.0
    resumed.resume(checkpoint)
    assert [resumed.iterate(values) for values in course[7:]] == verdicts[7:]


def test_a_resume_after_a_rollback_still_counts_it(patient: Admit) -> None:
    run = patient("doctor.rollback=[runaway_kl]", "doctor.max_rollbacks=1", "doctor.cooldown=0")
    run.live((6, HEALTHY_STEP))
    while run.iterate(KL_HIGH, checkpoints=(2, 4, 6)).rollback_to is None:
        pass
    run.resume(run.state)
    assert {run.iterate(KL_HIGH, checkpoints=(2, 4, 6)).rollback_to for _ in range(6)} == {None}
    assert any("there were 1 rollbacks already" in str(action["reason"]) for action in run.findings("action"))


def test_a_stage_before_ppo_ends_where_its_finding_is_to_stop_the_run(patient: Admit) -> None:
    run = patient("doctor.stop=[reward_model_near_chance]")
    for step in (0, 20):
        run.supervised("reward_model", step, {"reward_model/val_accuracy": 0.5})
    with pytest.raises(StoppedError) as caught:
        run.supervised("reward_model", 40, {"reward_model/val_accuracy": 0.5})
    assert str(caught.value) == (
        "reward_model step 40: the reward model is right on 50% of the pairs: do not start PPO with it "
        "(doctor.stop names reward_model_near_chance)"
    )
    assert [(action["kind"], action["policy"]) for action in run.findings("action")] == [
        ("reward_model_near_chance", "stop")
    ]


def test_a_stage_before_ppo_goes_on_where_its_finding_is_only_to_be_told(patient: Admit) -> None:
    run = patient("doctor.rollback=[gradient_explosion]", "doctor.cooldown=0")
    for step in range(1, 13):
        run.supervised("sft", step, {"sft/grad_norm": 1.0 if step < 10 else 50.0})
    (action,) = run.findings("action")
    assert (action["stage"], action["policy"]) == ("sft", "warn")
    assert run.live((1, HEALTHY_STEP))[0].kl_coef == BETA


def test_nan_in_the_record_is_known_after_a_restart(patient: Admit) -> None:
    run = patient("doctor.stop=[]")
    run.live((3, HEALTHY_STEP))
    run.rows.append({"stage": "ppo", "step": 4, "objective/kl": 3.0, **finite_row({"loss/policy_avg": math.nan})})
    run.restart()
    run.state = PpoState(step=4, kl_coef=BETA, learning_rate_share=1.0)
    run.live((1, HEALTHY_STEP | {"loss/policy_avg": math.nan}))
    assert run.findings("finding") == []  # told before


def test_a_user_s_thresholds_count(patient: Admit, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump({"runaway_kl.level": {"watch": 1.0, "warning": 2.0, "critical": 100.0}}))
    run = patient(f"doctor.rules={rules}")
    run.live((6, HEALTHY_STEP))
    assert {line["rule"] for line in run.findings("finding")} == {"runaway_kl.level"}


def test_a_real_run_goes_back_with_lower_rates_and_ends_well(local_bench, tmp_path: Path) -> None:
    """No critic explains twice the variance, so this threshold fires once the warm-up is over, in iteration 4."""
    rules = tmp_path / "rules.yaml"
    numbers = {"warning": 2.0, "critical": -1e9, "warm_up": 3, "persistence": 1}
    rules.write_text(yaml.safe_dump({"value_failure.explained_variance": numbers}))
    words = (
        f"doctor.rules={rules}",
        "doctor.rollback=[value_failure]",
        "doctor.max_rollbacks=1",
        "algorithm.num_iterations=6",
        "algorithm.schedule=constant",
        "checkpoint.every=1",
        "checkpoint.keep=10",
    )
    run_dir = tmp_path / "run"
    with local_bench.context(run_dir, *words) as ctx:
        policy = ppo_stage(ctx, policy=local_bench.policy, reward=local_bench.reward)

    (back,) = [line for line in read_jsonl(run_dir / "findings.jsonl") if line.get("policy") == "rollback"]
    went_back_from, to = back["step"], back["rollback_to"]
    assert to == 3
    assert back["learning_rate_share"] == 0.5
    (again,) = (run_dir / "checkpoints" / "ppo").glob("step-000003*")  # a kill from then on is resumed as adapted
    state = json.loads((again / "manifest.json").read_text())["state"]
    assert (state["step"], state["learning_rate_share"]) == (3, 0.5)
    rows = by_step(read_metrics(run_dir, "ppo"))
    assert sorted(rows) == [0, 1, 2, 3, 4, 5, 6]
    (aside,) = run_dir.glob("metrics.set-aside-*.jsonl")
    undone = [json.loads(line) for line in aside.read_text().splitlines()]
    assert [row["step"] for row in undone] == list(range(4, went_back_from + 1))
    assert rows[4]["val/lr"] == pytest.approx(undone[0]["val/lr"] / 2)
    # the same weights, prompts and seeds once more: only what follows the changed rate differs
    assert rows[4]["objective/scores"] == undone[0]["objective/scores"]
    assert rows[4]["policy/approxkl_avg"] != undone[0]["policy/approxkl_avg"]
    assert rows[5]["val/lr"] == rows[6]["val/lr"] == rows[4]["val/lr"]
    assert (policy / "model.safetensors").exists()
