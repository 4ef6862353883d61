"""From the words of a command line to a checked TrainConfig, or one ConfigError that lists everything wrong.

Imports no heavy library: a mistake is told in a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override
from omegaconf import OmegaConf

from rlhf_ray.config import rules
from rlhf_ray.config.composition import Composed, compose_values, group_choices, prepare_hydra
from rlhf_ray.config.host import Host, host_problems
from rlhf_ray.config.overrides import JOB_RUNNERS, override_problems, parse_overrides, value_problems
from rlhf_ray.config.resume import resumed_values
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.config.setting import walk
from rlhf_ray.errors import ConfigError

OWN_MODEL_EXPERIMENT = "own_models"
# a choice that means nothing without one more value
_NEEDED = {
    ("model", "directory"): "model.path",
    ("reward", "directory"): "reward.path",
    ("data", "files"): "data.prompts",
}
DATA_SET = "hf:"  # a data set's name, where a path could stand
_DEFAULT_RUNNER = "basic"


@dataclass(frozen=True, kw_only=True)
class Start:
    """What the world adds to a command line."""

    folder: Path  # where the program was started: relative paths begin there
    run_name: str  # the new run directory's own part of its name
    job: int | None  # number within a multirun
    host: Host


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A config that may be run, and what its user should know before."""

    config: TrainConfig
    warnings: tuple[str, ...]


def load(words: Sequence[str], start: Start) -> Loaded:
    """Compose, check, resolve. Raises ConfigError."""
    prepare_hydra(lambda: start.run_name)
    words = with_experiment(words)
    overrides = check_words(words, hydra_runs_jobs=False)
    composed = compose_values(words, job=start.job)
    raise_together(_choice_problems(composed))
    values = composed.values
    if values["resume"] == "":
        raise ConfigError("resume= is empty; accepted is the directory of an earlier run, with its run.json")
    if values["resume"]:
        asked = asdict(typed(values, folder=start.folder))
        values = resumed_values(Path(asked["resume"]), overrides=overrides, asked=asked)
    else:
        values["run_dir"] = values["run_dir"] or composed.run_dir
    config = typed(values, folder=start.folder)
    raise_together(rules.problems(config) + host_problems(config, start.host))
    # what the chosen files set, or the resumed run had, is no surprise
    preset = values if values["resume"] else compose_values([w for w in words if _is_choice(w)], job=None).values
    return Loaded(config=config, warnings=tuple(rules.warnings(config, preset=typed(preset, folder=start.folder))))


def with_experiment(words: Sequence[str]) -> list[str]:
    """The rates of the default experiment would ruin a pretrained model: own_models, unless another one is named."""
    named = any(word.startswith("experiment=") for word in words)
    resumes = any(word.startswith("resume=") for word in words)
    own_model = any(word.startswith(("model.path=", "model=directory")) for word in words)
    return [f"experiment={OWN_MODEL_EXPERIMENT}", *words] if own_model and not named and not resumes else list(words)


def check_words(words: Sequence[str], *, hydra_runs_jobs: bool) -> list[Override]:
    """The words, parsed. Raises ConfigError that lists those that cannot be right, whatever the others are."""
    overrides, wrong = parse_overrides(words)
    settings = {setting.key: setting for setting in walk(TrainConfig())}
    groups = group_choices(words)
    raise_together(
        wrong + override_problems(overrides, settings=settings, groups=groups, hydra_runs_jobs=hydra_runs_jobs)
    )
    return overrides


def typed(values: Mapping[str, Any], *, folder: Path) -> TrainConfig:
    """A plain mapping or a Hydra node as a TrainConfig, its paths absolute. Raises ConfigError."""
    node = OmegaConf.create(dict(values)) if not OmegaConf.is_config(values) else values
    tree = OmegaConf.to_container(node, resolve=True)
    assert isinstance(tree, dict), "made from a mapping"
    settings = {setting.key: setting for setting in walk(TrainConfig())}
    raise_together(
        [line for key, value in tree.items() for line in value_problems(str(key), value, settings=settings, groups={})]
    )
    merged = OmegaConf.merge(OmegaConf.structured(TrainConfig), tree)
    for setting in settings.values():
        path = OmegaConf.select(merged, setting.key)
        if setting.about.path and path and not path.startswith(DATA_SET):
            OmegaConf.update(merged, setting.key, str((folder / Path(path).expanduser()).resolve()))
    config = OmegaConf.to_object(merged)
    assert isinstance(config, TrainConfig), "merged into its schema"
    return config


def raise_together(problems: Sequence[str]) -> None:
    """One ConfigError with every line, or nothing."""
    if len(problems) == 1:
        raise ConfigError(problems[0])
    if problems:
        raise ConfigError("\n".join([f"{len(problems)} problems", *(f"  - {problem}" for problem in problems)]))


def _choice_problems(composed: Composed) -> list[str]:
    """Choices that lack their value, and job runners chosen in a file, where they come too late."""
    found = [
        f"{group}={choice} needs {key}, too"
        for (group, choice), key in _NEEDED.items()
        if composed.choices.get(group) == choice and not composed.values[group][key.partition(".")[2]]
    ]
    late = [f"{name}={composed.choices[name]}" for name in JOB_RUNNERS if composed.choices[name] != _DEFAULT_RUNNER]
    return found + [f"{word} in a file has no effect; give it on the command line, with -m" for word in late]


def _is_choice(word: str) -> bool:
    """Whether a word chooses among files, rather than setting one value."""
    key = word.partition("=")[0]
    return key in group_choices([]) or key == "hydra.searchpath"
