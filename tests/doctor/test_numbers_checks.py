"""NaN in a log."""

import math

from doctor_cases import diagnosed_rows, rules_found

from rlhf_ray.doctor.findings import Severity

NAN = math.nan


def rows(values: list[float | None], name: str = "loss/policy_avg") -> list[dict[str, object]]:
    return [{"step": i, "objective/kl": 1.0, name: value} for i, value in enumerate(values, start=1)]


def test_a_loss_that_turns_nan_is_critical_from_that_step() -> None:
    (finding,) = diagnosed_rows(rows([0.1, 0.1, 0.1, 0.1, NAN, NAN, NAN])).findings
    assert (finding.rule, finding.severity, finding.first_step) == ("nonfinite.value", Severity.CRITICAL, 5)
    assert finding.until is None


def test_infinity_counts_as_well_and_recovery_is_told() -> None:
    (finding,) = diagnosed_rows(rows([0.1, math.inf, 0.1, 0.1, 0.1, 0.1])).findings
    assert (finding.first_step, finding.until) == (2, 3)


def test_nan_between_numbers_from_the_start_means_not_logged() -> None:
    values = [0.7, NAN, NAN, 0.71, NAN, NAN, 0.72, NAN, NAN, 0.73]
    assert "nonfinite.value" not in rules_found(diagnosed_rows(rows(values)))


def test_a_metric_that_may_be_undefined_is_not_alarming() -> None:
    values = [0.1, 0.2, NAN, NAN, NAN]
    assert "nonfinite.value" not in rules_found(diagnosed_rows(rows(values, "val/explained_variance")))


def test_a_log_of_nothing_but_nan_is_critical() -> None:
    diagnosis = diagnosed_rows([{"step": i, "loss/policy_avg": NAN} for i in range(4)])
    assert rules_found(diagnosis) == {"nonfinite.value"}


def test_our_own_writers_flag_is_read() -> None:
    made: list[dict[str, object]] = [{"step": i, "objective/kl": 1.0, "loss/policy_avg": 0.1} for i in range(5)]
    made.append({"step": 5, "objective/kl": 1.0, "loss/policy_avg": None, "loss/policy_avg/nonfinite": "nan"})
    (finding,) = diagnosed_rows(made).findings
    assert (finding.rule, finding.first_step) == ("nonfinite.value", 5)
