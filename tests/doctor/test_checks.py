"""Every rule finds its illness in a made log, with the right onset, and nothing in a healthy one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from doctor_cases import Columns, found, ramp

from rlhf_ray.doctor.checks.registry import CHECKS
from rlhf_ray.doctor.findings import Severity
from rlhf_ray.doctor.rules import RULES

WATCH, WARNING, CRITICAL = Severity.WATCH, Severity.WARNING, Severity.CRITICAL


@dataclass(frozen=True, kw_only=True)
class Made:
    rule: str
    sick: Columns
    onset: float
    severity: Severity
    healthy: Columns
    facts: Mapping[str, object] = field(default_factory=dict)


UP = ramp(0.0, 2.0, 10)
FAR = [12.0] * 10
MADE = (
    Made(
        rule="runaway_kl.level",
        sick={"objective/kl": [0, 2, 4, 8, 30, 40, 50, 60, 70]},
        onset=5,
        severity=CRITICAL,
        healthy={"objective/kl": [0, 1, 2, 4, 5, 5.5, 6, 5.8, 6.1]},
    ),
    Made(
        rule="runaway_kl.level",
        sick={"loss/kl_avg": [0, 0.1, 0.2, 0.7, 0.8, 0.9, 0.8]},
        onset=4,
        severity=WARNING,
        healthy={"objective/kl": [40.0] * 8, "response/length_mean": [2000.0] * 8},
    ),
    Made(
        rule="runaway_kl.jump",
        sick={"objective/kl": [10, 11, 12, 12.5, 13, 24, 26, 27, 28]},
        onset=6,
        severity=WARNING,
        healthy={"objective/kl": [10, 13, 16, 19, 22, 25, 28, 31, 34]},
    ),
    Made(
        rule="runaway_kl.target",
        sick={"objective/kl": [5, 6, 13, 13, 14, 13, 15, 14]},
        onset=3,
        severity=WARNING,
        healthy={"objective/kl": [5, 6, 7, 13, 7, 6, 7, 6]},
        facts={"settings": {"algorithm.kl_target": 6.0}},
    ),
    Made(
        rule="kl_stuck.zero",
        sick={"objective/kl": [0.001, -0.002] * 12},
        onset=1,
        severity=WARNING,
        healthy={"objective/kl": ramp(0.0, 1.0, 24)},
    ),
    Made(
        rule="negative_kl.mean",
        sick={"objective/kl": [0, -0.5, -1.5, -2, -3, -2]},
        onset=3,
        severity=WARNING,
        healthy={"objective/kl": [0, -0.2, 0.1, -0.3, 0.5, 0.8]},
    ),
    Made(
        rule="mode_collapse.entropy",
        sick={"policy/entropy_avg": [2, 2, 2, 2, 2, 1.5, 0.9, 0.8, 0.7, 0.7]},
        onset=7,
        severity=WARNING,
        healthy={"policy/entropy_avg": ramp(2.0, 1.2, 10)},
    ),
    Made(
        rule="mode_collapse.entropy_floor",
        sick={"policy/entropy_avg": [1, 0.5, 0.1, 0.04, 0.03, 0.02, 0.02, 0.02]},
        onset=3,
        severity=CRITICAL,
        healthy={"policy/entropy_avg": [0.9, 0.8, 0.7, 0.15, 0.6, 0.5, 0.5, 0.5]},
    ),
    Made(
        rule="mode_collapse.distinct",
        sick={"response/distinct_2": [0.5, 0.5, 0.5, 0.4, 0.3, 0.15, 0.12, 0.09, 0.08, 0.07]},
        onset=6,
        severity=CRITICAL,
        healthy={"response/distinct_2": ramp(0.5, 0.3, 10)},
    ),
    Made(
        rule="mode_collapse.repetition",
        sick={"response/repetition_4gram": [0, 0, 0, 0.1, 0.3, 0.4, 0.4, 0.4]},
        onset=5,
        severity=WARNING,
        healthy={"response/repetition_4gram": [0.18, 0.2, 0.22, 0.25, 0.24, 0.26, 0.25, 0.24]},
    ),
    Made(
        rule="policy_instability.clip_fraction",
        sick={"policy/clipfrac_avg": [0.1, 0.1, 0.3, 0.35, 0.3, 0.3, 0.3, 0.3]},
        onset=3,
        severity=WARNING,
        healthy={"policy/clipfrac_avg": [0.3, 0.15, 0.1, 0.08, 0.05, 0.05, 0.26, 0.05]},
    ),
    Made(
        rule="policy_instability.approx_kl",
        sick={"policy/approxkl_avg": [0.02, 0.02, 0.3, 0.4, 0.5, 0.4, 0.4, 0.4]},
        onset=3,
        severity=CRITICAL,
        healthy={"policy/approxkl_avg": [0.06, 0.05, 0.05, 0.02, 0.15, 0.02, 0.02, 0.02]},
    ),
    Made(
        rule="policy_instability.ratio",
        sick={"val/ratio": [1, 1, 1, 12, 15, 20, 20, 20]},
        onset=4,
        severity=CRITICAL,
        healthy={"val/ratio": [1, 1.3, 0.9, 1.1, 2.5, 1.0, 1.0, 1.0]},
    ),
    Made(
        rule="policy_instability.loss_rise",
        sick={"loss/policy_avg": [0.2, 0.21, 0.19, 0.2, 0.2, 0.6, 0.7, 0.8, 0.8]},
        onset=6,
        severity=WARNING,
        healthy={"loss/policy_avg": ramp(-0.1, -0.002, 12)},
    ),
    Made(
        rule="value_failure.explained_variance",
        sick={"val/explained_variance": [0.1, 0.2, 0.1, -2, -3, -5, -5, -5]},
        onset=4,
        severity=CRITICAL,
        healthy={"val/explained_variance": [-0.9, -0.8, -0.6, -0.1, 0.1, -0.2, 0.1, 0.0]},
    ),
    Made(
        rule="value_failure.loss_rise",
        sick={"loss/value_avg": [0.3, 0.31, 0.3, 0.29, 0.3, 0.3, 0.9, 1.2, 1.5, 2.0]},
        onset=7,
        severity=WARNING,
        healthy={"loss/value_avg": [0.3, 0.4, 0.25, 0.33, 0.5, 0.3, 0.28, 0.6, 0.3, 0.3]},
    ),
    Made(
        rule="value_failure.clip",
        sick={"val/clipfrac_avg": [0.1, 0.4, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]},
        onset=2,
        severity=WARNING,
        healthy={"val/clipfrac_avg": [0.5, 0.4, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1]},
    ),
    Made(
        rule="reward_hacking.evaluation_falls",
        sick={
            "objective/scores": UP,
            "eval/gold_score": [0, 0.4, 0.6, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2],
            "objective/kl": FAR,
        },
        onset=6,  # medians of 3 where there are 8 evaluations or more
        severity=CRITICAL,
        healthy={"objective/scores": UP, "eval/gold_score": ramp(0.0, 0.9, 10), "objective/kl": FAR},
    ),
    Made(
        rule="reward_hacking.evaluation_falls",
        sick={"objective/scores": UP[:6], "eval/win_rate": [0.5, 0.7, 0.8, 0.75, 0.6, 0.5], "objective/kl": FAR[:6]},
        onset=4,
        severity=CRITICAL,
        healthy={"objective/scores": UP[::-1], "eval/gold_score": ramp(0.9, 0.0, 10), "objective/kl": FAR},
    ),
    Made(
        rule="reward_hacking.evaluation_flat",
        sick={
            "objective/scores": UP,
            "eval/gold_score": [0.1, 0.12, 0.08, 0.11, 0.09, 0.1, 0.12, 0.1, 0.11, 0.09],
            "objective/kl": ramp(0.0, 60.0, 10),
        },
        onset=4,
        severity=WARNING,
        healthy={
            "objective/scores": UP,
            "eval/gold_score": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
            "objective/kl": ramp(0.0, 60.0, 10),
        },
    ),
    Made(
        rule="reward_hacking.part_falls",
        sick={
            "objective/scores": UP,
            "eval/parts/vader": [0.9] * 10,
            "eval/parts/well_formed": [0.96, 0.95, 0.9, 0.7, 0.5, 0.4, 0.3, 0.25, 0.23, 0.2],
        },
        onset=4,
        severity=CRITICAL,
        healthy={"objective/scores": UP, "eval/parts/vader": ramp(0.5, 0.9, 10), "reward/parts/model": UP},
    ),
    Made(
        rule="reward_hacking.above_ceiling",
        sick={"objective/scores": [0, 1, 1.5, 1.7, 1.8, 1.9, 2.0, 2.1]},
        onset=4,
        severity=WARNING,
        healthy={"objective/scores": [0, 1, 1.5, 1.5, 1.55, 1.6, 1.5, 1.5]},
        facts={"ceiling": 1.64},
    ),
    Made(
        rule="reward_hacking.length",
        sick={
            "objective/scores": UP,
            "response/length_mean": ramp(20, 80, 10),
            "reward/length_correlation": [0.7] * 10,
        },
        onset=6,
        severity=WARNING,
        healthy={
            "objective/scores": UP,
            "response/length_mean": ramp(30, 44, 10),
            "reward/length_correlation": [0.7] * 10,
        },
    ),
    Made(
        rule="reward_hacking.length",
        sick={"objective/scores": UP, "response/length_mean": ramp(20, 80, 10)},
        onset=6,
        severity=WARNING,
        healthy={
            "objective/scores": UP,
            "response/length_mean": ramp(20, 80, 10),
            "reward/length_correlation": [0.1] * 10,
        },
    ),
    Made(
        rule="reward_hacking.disagreement",
        sick={"reward/disagreement": [0.1, 0.1, 0.1, 0.12, 0.15, 0.25, 0.3, 0.35, 0.3, 0.3]},
        onset=6,
        severity=WARNING,
        healthy={"reward/disagreement": [0.1, 0.12, 0.15, 0.12, 0.18, 0.15, 0.16, 0.15, 0.15, 0.15]},
    ),
    Made(
        rule="reward_hacking.preferences",
        sick={"eval/preference_accuracy": [0.93, 0.7, 0.6, 0.44, 0.4, 0.4, 0.41]},
        onset=4,
        severity=CRITICAL,
        healthy={"eval/preference_accuracy": [0.93, 0.73, 0.75, 0.71, 0.71, 0.72, 0.7]},
    ),
    Made(
        rule="over_optimisation.peak",
        # d = sqrt(KL) = 1..8 with a = 1, b = 0.5: R = d (1 - 0.5 ln d) has its peak at d = e = 2.718
        sick={
            "eval/gold_score": [0, 1, 1.3069, 1.3521, 1.2274, 0.9764, 0.6247, 0.1894, -0.3178],
            "eval/kl": [0, 1, 4, 9, 16, 25, 36, 49, 64],
        },
        onset=5,
        severity=CRITICAL,
        healthy={"eval/gold_score": ramp(0.0, 0.9, 9), "eval/kl": ramp(0.0, 8.0, 9)},
    ),
    Made(
        rule="plateau.score_flat",
        sick={"objective/scores": ramp(0, 1, 8) + [1.0, 1.01] * 8, "objective/kl": ramp(0, 12, 24)},
        onset=17,
        severity=WATCH,
        healthy={"objective/scores": ramp(0, 3, 24), "objective/kl": ramp(0, 12, 24)},
    ),
    Made(
        rule="reward_model_near_chance.accuracy",
        sick={"reward_model/val_accuracy": [0.5, 0.52, 0.51]},
        onset=3,
        severity=CRITICAL,
        healthy={"reward_model/val_accuracy": [0.5, 0.63, 0.69]},
    ),
    Made(
        rule="reward_model_near_chance.accuracy",
        sick={"reward_model/accuracy": [0.5, 0.6, 0.58, 0.57, 0.58, 0.57]},
        onset=6,
        severity=WARNING,
        healthy={"reward_model/accuracy": [0.5, 0.52, 0.51]},  # too few batches to tell
    ),
    Made(
        rule="reward_model_overfit.validation",
        sick={"reward_model/val_loss": [0.7, 0.5, 0.4, 0.45, 0.6, 0.8, 0.9, 1.0]},
        onset=4,
        severity=WARNING,
        # losses and margins are in other units once the scores were scaled
        healthy={
            "reward_model/val_loss": [0.7, 0.5, 0.4, 0.3, 0.25, 0.24, 0.9, 0.9],
            "reward_model/score_std": [5.2, 5.2],
        },
    ),
    Made(
        rule="reward_model_overfit.validation",
        sick={"reward_model/val_accuracy": [0.5, 0.7, 0.72, 0.68, 0.66, 0.65, 0.64, 0.63]},
        onset=4,
        severity=WARNING,
        healthy={"reward_model/val_accuracy": [0.5, 0.7, 0.72, 0.71, 0.72, 0.70, 0.72, 0.71]},
    ),
    Made(
        rule="reward_model_overfit.gap",
        sick={"reward_model/accuracy": [0.6, 0.8, 0.95, 0.99], "reward_model/val_accuracy": [0.6, 0.68, 0.66, 0.65]},
        onset=3,
        severity=CRITICAL,
        healthy={"reward_model/accuracy": [0.6, 0.8, 0.92], "reward_model/val_accuracy": [0.6, 0.78, 0.9]},
    ),
    Made(
        rule="reward_model_overfit.margin",
        sick={"reward_model/val_margin_mean": [0.2, 1, 2, 1.5, 0.8, 0.5, 0.3, 0.2]},
        onset=5,
        severity=WARNING,
        healthy={"reward_model/val_margin_mean": [0.2, 1, 2, 1.9, 2.1, 2.0, 1.8, 2.1]},
    ),
    Made(
        rule="sft_overfit.validation",
        sick={"sft/val_loss": [6.9, 2.0, 1.8, 1.9, 2.1, 2.4, 2.6, 2.8]},
        onset=4,
        severity=CRITICAL,
        healthy={"sft/val_loss": [6.9, 2.0, 1.8, 1.81, 1.79, 1.8, 1.78, 1.79]},
    ),
    Made(
        rule="gradient_explosion.norm",
        sick={"policy/grad_norm": [0.5, 0.6, 0.5, 0.6, 0.5, 0.6, 60, 80, 90]},
        onset=7,
        severity=CRITICAL,
        healthy={"policy/grad_norm": [0.5, 0.6, 0.9, 0.6, 0.5, 3.0, 0.6, 0.5, 0.6]},
    ),
    Made(
        rule="lost_eos.rate",
        sick={"val/eos_rate": [1, 1, 1, 0.9, 0.7, 0.5, 0.4, 0.3, 0.2]},
        onset=5,
        severity=CRITICAL,
        healthy={"val/eos_rate": [0.06, 0.03, 0.03, 0, 0, 0, 0, 0, 0]},  # answers never ended by themselves here
    ),
    Made(
        rule="stale_generator.kl_mismatch",
        sick={"rollout/kl_mismatch": [1e-3, 1e-3, 0.02, 0.03, 0.05, 0.05, 0.05]},
        onset=3,
        severity=WARNING,
        healthy={"rollout/kl_mismatch": [1e-3, 2e-3, 1e-3, 2e-3, 1e-3, 1e-3, 1e-3]},
    ),
    Made(
        rule="stale_generator.logprob_gap",
        sick={"rollout/logprob_absdiff_max": [1e-5, 1e-5, 1e-5, 2, 3, 3, 3]},
        onset=4,
        severity=WARNING,
        healthy={"rollout/logprob_absdiff_max": [1.5, 1.2, 1.4, 1.3, 1.6, 1.2, 1.4]},  # half precision, as at the start
    ),
    Made(
        rule="stale_generator.logprob_gap",
        sick={"rollout/logprob_absdiff_mean": [0.005, 0.005, 0.3, 0.3, 0.3, 0.3, 0.3]},
        onset=3,
        severity=CRITICAL,
        healthy={"rollout/logprob_absdiff_mean": [0.005] * 7},
    ),
    Made(
        rule="stale_generator.version_lag",
        sick={"rollout/policy_version_lag": [0, 0, 0, 1, 1, 1, 1]},
        onset=4,
        severity=WARNING,
        healthy={"rollout/policy_version_lag": [2, 2, 2, 2, 2, 2, 2]},  # asynchronous by design
    ),
    Made(
        rule="stalled_throughput.time",
        sick={"time/iteration": [1, 1.1, 1, 1, 1.2, 1, 4, 5, 6, 5, 5, 5]},
        onset=7,
        severity=WARNING,
        healthy={"time/iteration": [1, 1.1, 3.5, 1, 1.2, 1, 4, 1, 1.1, 1, 1, 1]},
    ),
    Made(
        rule="stalled_throughput.time",
        sick={"throughput/tokens_per_second": [900, 910, 890, 900, 905, 900, 200, 180, 190, 200, 200, 200]},
        onset=7,
        severity=WARNING,
        healthy={"throughput/tokens_per_second": [900, 910, 890, 700, 905, 800, 900, 780, 890, 900, 900, 900]},
    ),
)


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.rule)
def test_the_illness_is_found_at_its_onset(made: Made) -> None:
    (finding,) = found(made.sick, made.rule, **made.facts)
    assert (finding.severity, finding.first_step) == (made.severity, made.onset)
    assert finding.evidence


@pytest.mark.parametrize("made", MADE, ids=lambda made: made.rule)
def test_a_healthy_log_has_no_such_finding(made: Made) -> None:
    assert found(made.healthy, made.rule, **made.facts) == []


def test_every_rule_has_a_check_and_a_made_log() -> None:
    assert set(CHECKS) == set(RULES.by_name)
    assert {made.rule for made in MADE} == set(RULES.by_name) - {"nonfinite.value"}  # test_numbers_checks.py


def test_what_has_passed_is_told_with_its_end() -> None:
    clip = [0.5, 0.5, 0.4, 0.3, 0.1, 0.1, 0.1, 0.1, 0.1]
    (finding,) = found({"policy/clipfrac_avg": clip}, "policy_instability.clip_fraction")
    assert (finding.first_step, finding.until) == (1, 5)


def test_evidence_holds_medians_before_and_after() -> None:
    (finding,) = found({"objective/kl": [1, 2, 3, 30, 32, 34, 36]}, "runaway_kl.level")
    (evidence,) = finding.evidence
    assert (evidence.before, evidence.after, evidence.last, evidence.limit) == (2, 32, 36, 25)


def test_throughput_is_shown_in_its_own_unit() -> None:
    (finding,) = found(MADE[-1].sick, "stalled_throughput.time")
    (evidence,) = finding.evidence
    assert evidence.metric == "throughput/tokens_per_second"
    assert evidence.before == pytest.approx(900, rel=0.01)
    assert evidence.after == pytest.approx(190)
