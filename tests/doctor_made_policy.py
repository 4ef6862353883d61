"""A sick and a healthy log for every rule about the policy and the critic."""

from doctor_cases import Made, ramp

from rlhf_ray.doctor.findings import Severity

WARNING, CRITICAL = Severity.WARNING, Severity.CRITICAL

MADE_POLICY = (
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
        rule="mode_collapse.length",
        sick={"response/length_mean": [8.75, 9, 8.5, 8.75, 7, 5, 1.25, 1, 1, 1]},
        onset=7,
        severity=CRITICAL,
        healthy={"response/length_mean": [9, 8, 12, 3, 11, 8, 10, 3, 9, 4]},
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
)
