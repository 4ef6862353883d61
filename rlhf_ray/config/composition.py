"""Hydra's part: from conf/ and overrides to one tree of values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException, MissingConfigException
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import YAMLError

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.config.spelling import hint
from rlhf_ray.errors import ConfigError

CONF_DIR = Path(__file__).resolve().parents[2] / "conf"
CONFIG_NAME = "train"


@dataclass(frozen=True, kw_only=True)
class Composed:
    """What a command line stands for."""

    values: dict[str, Any]  # not yet checked
    run_dir: str
    choices: dict[str, str]  # group -> choice


def prepare_hydra(new_run_name: Callable[[], str]) -> None:
    """Tell Hydra the schema, and how run directories are called. Each reading of ${run_name:} is a new name."""
    ConfigStore.instance().store(name="train_schema", node=TrainConfig)
    OmegaConf.register_new_resolver("run_name", new_run_name, use_cache=False, replace=True)


def compose_values(overrides: Sequence[str], *, job: int | None) -> Composed:
    """The values of one job (its number in a multirun). Raises ConfigError for what Hydra refuses."""
    words = list(overrides) if job is None else [*overrides, f"hydra.job.num={job}"]
    state = GlobalHydra.instance()
    outer = state.hydra  # set where one of Hydra's own launchers runs this job
    state.clear()
    try:
        with initialize_config_dir(str(CONF_DIR), version_base="1.3", job_name="rlhf_ray"):
            tree = compose(CONFIG_NAME, overrides=words, return_hydra_config=True)
        return _composed(tree, job=job)
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise ConfigError(_reason(error)) from error
    finally:
        state.hydra = outer


def group_choices(overrides: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Every group with its choices: those of conf/ and of the folders that a hydra.searchpath override adds."""
    found: dict[str, set[str]] = {}
    for folder in (CONF_DIR, *searched_folders(overrides)):
        for file in folder.glob("*/*.yaml"):
            found.setdefault(file.parent.name, set()).add(file.stem)
    return {name: tuple(sorted(choices)) for name, choices in sorted(found.items())}


def searched_folders(overrides: Sequence[str]) -> tuple[Path, ...]:
    """The folders of a hydra.searchpath override."""
    written = [text.partition("=")[2] for text in overrides if text.startswith("hydra.searchpath=")]
    items = written[-1].strip("[]").split(",") if written else []
    return tuple(Path(item.strip().strip("'\"").removeprefix("file://")) for item in items if item.strip())


def _composed(tree: DictConfig, *, job: int | None) -> Composed:
    choices = {str(group): str(choice) for group, choice in tree.hydra.runtime.choices.items()}
    run, sweep = tree.hydra.run, tree.hydra.sweep
    run_dir = str(run.dir) if job is None else str(Path(str(sweep.dir)) / str(sweep.subdir))
    with flag_override(tree, ["struct", "readonly"], [False, False]):
        del tree["hydra"]
    values = OmegaConf.to_container(tree, resolve=True, throw_on_missing=False)
    assert isinstance(values, dict), "conf/train.yaml is a mapping"
    return Composed(
        values={str(key): value for key, value in values.items()},
        run_dir=run_dir,
        choices=choices,
    )


def _reason(error: Exception) -> str:
    """Hydra's message without search paths and internals, with the nearest name."""
    if isinstance(error, MissingConfigException):
        name, _, choice = str(error.missing_cfg_file).rpartition("/")
        known = list(error.options or ())
        return f"{name}={choice}: accepted is one of {', '.join(known)}{hint(choice, known)}"
    told = isinstance(error, OmegaConfBaseException) and error.full_key
    cause = error if told else error.__cause__ or error.__context__ or error
    where = str(error).partition(": ")[0] + ": " if str(error).startswith("In '") else ""
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return f"{where}{cause.full_key}: {_first_line(str(cause.msg))}{_key_hint(cause)}"
    return str(error) if isinstance(error, YAMLError) else _first_line(str(error))


def _key_hint(error: OmegaConfBaseException) -> str:
    """The nearest neighbours of a key that does not exist."""
    if not isinstance(error, ConfigKeyError | ConfigAttributeError) or not isinstance(error.parent_node, DictConfig):
        return ""
    prefix = str(error.full_key).rpartition(".")[0]
    return hint(str(error.full_key), [f"{prefix}.{key!s}".lstrip(".") for key in error.parent_node])


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]
