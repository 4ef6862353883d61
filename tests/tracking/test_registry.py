import ast
import re
from pathlib import Path

import pytest

import rlhf_ray
from rlhf_ray.errors import MetricError
from rlhf_ray.tracking.metrics_foreign import FOREIGN_METRICS
from rlhf_ray.tracking.metrics_page import SECTIONS, metrics_page
from rlhf_ray.tracking.registry import METRICS, check_names, describe

PACKAGE = Path(rlhf_ray.__file__).parent
GROUPS = {metric.name.split("/")[0] for metric in METRICS if "/" in metric.name}
METRIC_NAME = re.compile(rf"({'|'.join(sorted(GROUPS))})/[A-Za-z0-9_]+")


def test_a_known_metric_is_described_with_formula_unit_and_reduction():
    metric = describe("objective/kl")
    assert metric.formula == "sum over an answer's tokens of logp - ref_logp"
    assert (metric.unit, metric.reduction) == ("nats", "mean over answers")


def test_a_pattern_stands_for_one_name_without_slashes():
    assert describe("reward/parts/well-formed.v2").name == "reward/parts/<scorer>"
    with pytest.raises(MetricError):
        describe("reward/parts/a/b")
    with pytest.raises(MetricError):
        describe("reward/parts/")


def test_an_unknown_metric_is_refused_with_the_nearest_known_one():
    with pytest.raises(MetricError, match=r"unknown metric objective/kll; did you mean objective/kl\?"):
        check_names(["objective/scores", "objective/kll"])


def test_no_metric_is_listed_twice():
    names = [metric.name for metric in METRICS]
    assert sorted(set(names)) == sorted(names)


def test_every_metric_has_a_formula_a_unit_and_a_reduction():
    assert [metric for metric in METRICS if not all(metric)] == []


def test_the_documented_metrics_are_those_of_the_registry():
    listed = [metric for _, metrics in SECTIONS for metric in metrics]
    assert sorted(listed) == sorted(METRICS)
    page = PACKAGE.parent / "docs" / "metrics.md"
    assert page.read_text(encoding="utf-8") == metrics_page(), (
        "run: python -m rlhf_ray.tracking.metrics_page docs/metrics.md"
    )


def test_every_metric_name_written_in_the_package_is_registered():
    unknown = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.is_relative_to(PACKAGE / "doctor"):
            continue  # reads the logs of other trainers, too, under their names
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and METRIC_NAME.fullmatch(node.value):
                try:
                    describe(node.value)
                except MetricError:
                    unknown.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {node.value}")
    assert unknown == []


def test_the_names_that_dashboards_know_are_there():
    trl = (
        "objective/scores objective/kl objective/non_score_reward objective/rlhf_reward objective/entropy lr episode"
        " eps policy/approxkl_avg policy/clipfrac_avg policy/entropy_avg loss/policy_avg loss/value_avg"
        " val/clipfrac_avg val/ratio val/ratio_var val/num_eos_tokens"
    )
    check_names(trl.split())


READERS = ("doctor/", "report/", "tracking/metrics_", "tracking/comparison", "tracking/summary", "tracking/progress")


def test_every_registered_metric_is_written_by_the_package_but_those_of_other_trainers():
    """Whole, or in two pieces: f"time/{name}", f"{stage}/grad_norm"."""
    whole, beginnings, ends = set(), set(), set()
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).as_posix().startswith(READERS):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                beginnings |= {node.values[0].value} if isinstance(node.values[0], ast.Constant) else set()
                ends |= {node.values[-1].value} if isinstance(node.values[-1], ast.Constant) else set()
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                whole.add(node.value)

    def is_written(name):
        beginning, slash, end = name.partition("<")[0].rpartition("/")
        known = name in whole or slash + end in ends
        return known or (beginning + slash in beginnings and (not end or end in whole))

    assert [one for one in METRICS if not is_written(one.name)] == list(FOREIGN_METRICS)
