"""The advice of one diagnosis on one setting: one direction and one number."""

from collections.abc import Mapping

from doctor_cases import found

from rlhf_ray.doctor.findings import Change, Finding, Severity, Symptom
from rlhf_ray.doctor.reconcile import findings_from
from rlhf_ray.doctor.rules import RULES

SETTINGS = {"algorithm.learning_rate": 1e-5, "algorithm.kl_coef": 0.1}
RATE = "algorithm.learning_rate"


def symptom(severity: Severity, step: float, until: float | None = None) -> Symptom:
    return Symptom(onsets={severity: step}, until=until, summary="made", evidence=())


def findings(symptoms: Mapping[str, Symptom]) -> dict[str, Finding]:
    pairs = [(symptom, RULES[name]) for name, symptom in symptoms.items()]
    return {finding.rule: finding for finding in findings_from(pairs, stage="ppo", settings=SETTINGS)}


def change(finding: Finding, setting: str) -> Change:
    (found,) = [item for item in finding.changes if item.setting == setting]
    return found


def test_the_worse_finding_decides_and_the_contrary_one_waits() -> None:
    told = findings(
        {"kl_stuck.zero": symptom(Severity.WARNING, 1), "policy_instability.ratio": symptom(Severity.CRITICAL, 9)}
    )
    assert change(told["policy_instability.ratio"], RATE).to == 2.5e-6
    waiting = change(told["kl_stuck.zero"], RATE)
    assert waiting.to is None
    assert waiting.text.startswith(
        'not before "policy unstable" is settled, which asks for the opposite: raise algorithm.learning_rate from 1e-05'
    )


def test_of_equal_findings_the_earlier_decides() -> None:
    told = findings({"runaway_kl.level": symptom(Severity.WARNING, 9), "kl_stuck.zero": symptom(Severity.WARNING, 1)})
    assert change(told["kl_stuck.zero"], RATE).to == 1e-4
    assert change(told["runaway_kl.level"], RATE).to is None
    assert change(told["runaway_kl.level"], "algorithm.kl_coef").text.startswith('not before "nothing moves"')


def test_what_is_over_decides_nothing_that_is_still_there() -> None:
    told = findings(
        {
            "policy_instability.ratio": symptom(Severity.CRITICAL, 1, until=5),
            "kl_stuck.zero": symptom(Severity.WARNING, 1),
        }
    )
    assert change(told["kl_stuck.zero"], RATE).to == 1e-4
    assert change(told["policy_instability.ratio"], RATE).to is None


def test_in_the_same_direction_all_give_the_number_of_the_worst() -> None:
    told = findings(
        {
            "policy_instability.clip_fraction": symptom(Severity.WARNING, 1),
            "policy_instability.approx_kl": symptom(Severity.CRITICAL, 3),
            "runaway_kl.level": symptom(Severity.WARNING, 2),
        }
    )
    assert {change(finding, RATE).to for finding in told.values()} == {2.5e-6}


def test_the_critics_rate_is_raised_or_lowered_not_both() -> None:
    told = findings(
        {
            "value_failure.explained_variance": symptom(Severity.WARNING, 4),
            "value_failure.loss_rise": symptom(Severity.CRITICAL, 8),
        }
    )
    assert "lower" in change(told["value_failure.loss_rise"], "algorithm.critic_learning_rate").text
    waits = change(told["value_failure.explained_variance"], "algorithm.critic_learning_rate")
    assert waits.text.startswith('not before "value loss rises" is settled')


def test_findings_keep_their_order_and_what_is_no_setting_stays() -> None:
    symptoms = {
        "kl_stuck.zero": symptom(Severity.WARNING, 1),
        "reward_hacking.evaluation_falls": symptom(Severity.CRITICAL, 9),
    }
    told = findings(symptoms)
    assert list(told) == list(symptoms)
    texts = [item.text for item in told["reward_hacking.evaluation_falls"].changes if item.setting is None]
    assert [text.partition(":")[0] for text in texts] == [
        "look at samples",
        "go back to the last checkpoint before the onset",
    ]


def test_a_stage_is_told_to_change_its_own_rate_and_to_watch_its_own_metrics() -> None:
    norms = [1.0] * 9 + [50.0] * 3
    for stage, rate in (("sft", "sft.learning_rate"), ("reward_model", "reward_model.learning_rate")):
        (finding,) = found({f"{stage}/grad_norm": norms}, "gradient_explosion.norm", settings={rate: 1e-4})
        assert change(finding, rate).to == 5e-5
        assert {item.setting for item in finding.changes} == {rate, "learner.max_grad_norm"}
        assert finding.watch_next == (f"{stage}/grad_norm",)
    (finding,) = found({"policy/grad_norm": norms}, "gradient_explosion.norm")
    assert RATE in {item.setting for item in finding.changes}
    assert "objective/scores_max" in finding.watch_next
