"""docs/doctor.md, made from the tables: python -m rlhf_ray.doctor.page docs/doctor.md"""

from __future__ import annotations

import sys
from pathlib import Path

from rlhf_ray.doctor.actions import DEFAULT_LIMITS, DEFAULT_POLICIES
from rlhf_ray.doctor.advice import advice_for
from rlhf_ray.doctor.advice_changes import CHANGES
from rlhf_ray.doctor.names_table import BY_HAND, TRAINERS
from rlhf_ray.doctor.rules import RULES, Rule

_HEAD = """\
# The run doctor

Made by `python -m rlhf_ray.doctor.page docs/doctor.md` from the tables in `rlhf_ray/doctor/`; change it there.

    python -m rlhf_ray.doctor PATH... [--map THEIRS=OURS] [--rules FILE] [--json | --html FILE]

Reads the metrics of a run and says what is wrong, since when, why, what to change (with the run's own numbers) and what
to watch next. Loads neither torch nor ray. Exit code: 0 healthy, 1 warnings, 2 critical, 3 a path cannot be read or an
option is wrong; of several paths, the highest.

## What is read

| path | what |
|---|---|
| our run directory | `metrics.jsonl`, settings, own thresholds and how it ended from `run.json` |
| JSON Lines, JSON rows or columns, CSV, TSV, Parquet | one row a step; histories exported from W&B, too |
| `trainer_state.json`, or a folder with one | Hugging Face trainers |
| `*tfevents*`, or a folder with them | TensorBoard scalars |
| `*.wandb`, or a folder with one | W&B offline runs, with their configuration |

Of several logs below a folder the largest is read; NOTES name it, and those that are not.

Columns are known by our names (`docs/metrics.md`), by those of {trainers},
and in a person's words ({words}, ...).
What is not known is listed; `--map 'Judge=eval/gold_score'` says what it is, `--map 'T=step'` what counts the steps.
The report tells what each column was taken for, and which checks could not be made.

Steps written twice (a resumed run): the last value counts. Rows out of order are sorted. A NaN between numbers from the
start means "not logged"; elsewhere it is a finding. A cut last line is left out. All of these are told under NOTES.

## How rules work

A limit counts once it is passed for `persistence` points: p of p + 2 neighbours; 2 in logs of fewer than 7 points
that count steps in larger strides; one more for every tenfold beyond 100 points; 1 in a log of one step.
The held-out score is `eval/gold_score`; without it `eval/win_rate`, which our runs then take from the reward model
itself: it shows that the held-out answers got better for the reward model, not for anyone else.
`baseline` is the number of first points whose median is the run's own start; `window` the number of points before,
whose median and median absolute deviation (`spread` times) a rise is compared with. Healthy stretches are split where
the slopes of score, KL, held-out score and entropy change (change points by `ruptures`). `watch` is healthy; `warning`
is likely to hurt; `critical` means that the run is being lost.

Of several findings that would change one setting, the weightiest decides: what is still there before what is over, then
the worse, then the earlier. The others give its number, or, where they want the opposite, name what has to be settled
first.

Every number can be changed by `--rules FILE`, YAML or JSON; without it, a run directory is judged by the file that its
`doctor.rules` named, where that is still there (NOTES tell):

    runaway_kl.level: {{watch: 8, warning: 15}}
    mode_collapse.entropy: {{warning: 0.4}}

## Rules
"""
_POLICIES = """
## Policies

While our own trainer runs, the same checks are made after every iteration on a window (the first 20 and the last 80 or
more points). A finding is told once, and again when it gets worse. It and what is done about it are lines of
`findings.jsonl`: `{{"record": "finding", ...}}` and `{{"record": "action", ...}}`; the actions alone tell what is in
force.

| policy | what it does |
|---|---|
| `warn` | tells and records |
| `stop` | ends the run: a stage before PPO with an error; PPO with checkpoint, policy and exit code 0, and the last \
lines say why |
| `adapt` | raises beta by {limits.kl_coef_factor:g} (to {limits.kl_coef_start:g} from 0, {limits.kl_coef_max:g} at \
most), lowers learning rates by {limits.learning_rate_factor:g} ({limits.learning_rate_min:g} of the schedule at \
least), at most every {limits.cooldown} iterations |
| `rollback` | goes back to the last checkpoint before the onset, adapted, and saves it so; at most \
{limits.max_rollbacks} times |
| `early_stop` | ends PPO as finished |

What is only to be watched ends nothing and changes nothing, `plateau` excepted: the score is flat while the KL grows, a
reason for `early_stop`. What cannot be acted on (no lever left, no checkpoint before the onset, an action whose effect
is still awaited) is told with the reason. A learner that meets a gradient that is not finite ends the run by itself,
before its weights change. A resume undoes the actions after its checkpoint, and comes to the same ones again.

Defaults: {defaults}.
"""


def doctor_page() -> str:
    """The page as Markdown."""
    head = _HEAD.format(trainers=", ".join(TRAINERS), words=", ".join(f'"{word}"' for word in list(BY_HAND)[:6]))
    stops = ", ".join(
        f"`{kind}`: `{policy.value}`" for kind, policy in DEFAULT_POLICIES.items() if policy.value != "warn"
    )
    tail = _POLICIES.format(limits=DEFAULT_LIMITS, defaults=f"{stops}, everything else: `warn`")
    return head + "".join(_rule(rule) for rule in RULES.by_name.values()) + tail


def _rule(rule: Rule) -> str:
    advice = advice_for(rule.name)
    needs = "; ".join(" or ".join(f"`{name}`" for name in group) for group in rule.needs)
    numbers = ", ".join(f"{name} {value:g}" for name, value in rule.numbers.items())
    changes = ", ".join(
        f"`{setting}`" for setting in dict.fromkeys(CHANGES[name][0] for name in advice.changes) if setting
    )
    return (
        f"\n### {rule.name}\n\n{rule.meaning[0].upper()}{rule.meaning[1:]}.\n\n- numbers: {numbers}\n- reads: {needs}\n"
        f"- likely causes: {'; '.join(advice.causes)}\n"
        + (f"- settings: {changes}\n" if changes else "")
        + f"- source: {rule.source}\n"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(doctor_page(), encoding="utf-8")
