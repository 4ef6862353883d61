"""What a symptom means and what to do: words per kind (or kind.form), changes in the run's own numbers, their risk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.config.setting import Setting, walk
from rlhf_ray.doctor.advice_changes import CHANGES
from rlhf_ray.doctor.advice_table import ADVICE
from rlhf_ray.doctor.findings import Change, Severity

_TIMES = {2.0: "twice", 0.5: "half", 0.2: "a fifth of"}


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The words for one kind of finding."""

    phrase: str
    causes: tuple[str, ...]
    changes: tuple[str, ...]  # names in CHANGES, the first to try first
    watch: tuple[str, ...]  # metrics


def advice_for(rule_name: str) -> Advice:
    """The row of the form, else of the kind."""
    kind = rule_name.partition(".")[0]
    phrase, causes, changes, watch = ADVICE[rule_name] if rule_name in ADVICE else ADVICE[kind]
    return Advice(phrase=phrase, causes=causes, changes=changes, watch=watch)


def change_of(name: str, settings: Mapping[str, float], *, severity: Severity) -> Change | None:
    """One piece of advice with numbers; None where the run does it already or the setting allows no more of it.

    A factor acts on the value in force (squared where a critical finding lowers it); `start` is named where that is 0.
    """
    setting, words, factor, start, reason, risk = CHANGES[name]
    if setting is None:
        return Change(setting=None, now=None, to=None, text=f"{words}: {reason}", risk=risk)
    now = settings.get(setting)
    what = f"{words} {setting}"
    if factor is None:
        to, text = start, what if start is None else f"{what} to {start:g}"
        text = text if start is None or now is None else f"{what} from {now:g} to {start:g}"
    elif now is None:
        to, text = None, f"{what} to about {_TIMES.get(factor, f'{factor:g} times')} its value"
        text += f" (to {start:g} where it is 0)" if start is not None and factor > 1 else ""
    else:
        lowered = factor**2 if severity == Severity.CRITICAL and factor < 1 else factor
        to = start if now == 0 else allowed(setting, now * lowered)
        text = "" if to is None else f"{what} from {now:g} to about {to:g}"
    if not text or (now is not None and to is not None and (to == now or (factor or 2.0) > 1 > to / (now or to))):
        return None
    return Change(setting=setting, now=now, to=to, text=f"{text}: {reason}", risk=risk)


def allowed(key: str, value: float) -> float:
    """The nearest value that the setting accepts; whole, or in two digits."""
    setting = _settings()[key]
    about = setting.about
    low = about.low if about.low is not None else -math.inf
    high = about.high if about.high is not None else math.inf
    kept = min(max(value, low), high)
    return float(round(kept)) if setting.kind == "int" else float(f"{kept:.2g}")


@cache
def _settings() -> Mapping[str, Setting]:
    return {setting.key: setting for setting in walk(TrainConfig())}
