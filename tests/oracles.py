"""The hand-checked numeric cases of oracles.json, in float64."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

Numbers = dict[str, Any]

GROUPS: dict[str, list[Numbers]] = json.loads((Path(__file__).parent / "oracles.json").read_text(encoding="utf-8"))
del GROUPS["_meta"]

REWARD_GROUPS = (
    "gae",
    "kl_reward",
    "masked_whiten",
    "eos_truncate",
    "eos_penalty",
    "position_ids",
    "adaptive_kl",
    "kl_estimators",
    "group_advantages",
    "rollout_correction",
    "explained_variance",
    "gao_overopt",
    "lr_schedule",
)
LOSS_GROUPS = tuple(group for group in GROUPS if group not in REWARD_GROUPS)


def cases_of(groups: tuple[str, ...]) -> list[tuple[str, Numbers]]:
    return [(group, case) for group in groups for case in GROUPS[group]]


def inputs_of(group: str, name: str) -> Numbers:
    return next(case["inputs"] for case in GROUPS[group] if case["name"] == name)


def expected_of(group: str, name: str) -> Numbers:
    return next(case["expected"] for case in GROUPS[group] if case["name"] == name)


def f64(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def assert_matches(computed: Numbers, expected: Numbers) -> None:
    """Every expected number and no other, to 1e-9; null means undefined."""
    assert set(computed) == set(expected)
    for name, value in expected.items():
        if value is None:
            assert computed[name] is None, name
        else:
            got = torch.as_tensor(computed[name], dtype=torch.float64).detach()
            torch.testing.assert_close(got, f64(value), rtol=0, atol=1e-9, msg=lambda text, n=name: f"{n}: {text}")
