"""A sick and a healthy log for every rule about rewards, reward models, answers and speed."""

from doctor_cases import Made, ramp

from rlhf_ray.doctor.findings import Severity

WATCH, WARNING, CRITICAL = Severity.WATCH, Severity.WARNING, Severity.CRITICAL
UP = ramp(0.0, 2.0, 10)
FAR = [12.0] * 10
MADE_REWARD = (
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
