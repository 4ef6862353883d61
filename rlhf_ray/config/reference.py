"""Writes docs/configuration.md from the schemas: python -m rlhf_ray.config.reference"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from rlhf_ray.config.composition import CONF_DIR, compose_values, group_choices, prepare_hydra
from rlhf_ray.config.resume import CHANGEABLE
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.config.setting import Setting, accepted, shown, walk

REFERENCE_FILE = CONF_DIR.parent / "docs" / "configuration.md"
_INTRODUCTION = """\
# Configuration

Made by `python -m rlhf_ray.config.reference`; do not edit.

    python -m rlhf_ray.train [GROUP=CHOICE ...] [KEY=VALUE ...]

- Without words: the default job, `experiment=review_sentiment`. Where `model.path` is given and no experiment is named,
  `experiment=own_models`, whose learning rates suit pretrained models.
- `dry_run=true` checks everything and stops; `--cfg job` shows the configuration;
  `-m seed=1,2,3` makes one job per value.
- Relative paths begin where the program is started. A run writes to `outputs/<experiment_name>/<time>-<random id>/`.
- `resume=RUN_DIRECTORY` continues a run as it was started. Changeable then: {changeable}.
- A value that is not accepted ends the program before anything is loaded (exit code 2). One outside its usual range
  gives a warning, unless the chosen experiment sets it.

## Choices

| group | choices (first: the default) |
|---|---|
{choices}
"""
_TABLE_HEAD = "| key | default | meaning | accepted | usual |\n|---|---|---|---|---|"


def reference() -> str:
    """The whole page."""
    prepare_hydra(lambda: "")
    composed = compose_values([], job=None)
    default_job = {setting.key: value for setting, value in _with_values(composed.values)}
    choices = "\n".join(
        f"| {group} | {', '.join(_first(composed.choices[group], names))} |"
        for group, names in group_choices([]).items()
    )
    changeable = ", ".join(f"`{name}`" if name == "dry_run" else f"`{name}.*`" for name in CHANGEABLE)
    parts = [_INTRODUCTION.format(choices=choices, changeable=changeable)]
    for title, settings in _sections():
        rows = "\n".join(_row(setting, default_job[setting.key]) for setting in settings)
        parts.append(f"## {title}\n\n{_TABLE_HEAD}\n{rows}\n")
    return "\n".join(parts)


def _sections() -> Iterator[tuple[str, list[Setting]]]:
    config = TrainConfig()
    settings = list(walk(config))
    yield "Top level", [setting for setting in settings if "." not in setting.key]
    for item in fields(config):
        if is_dataclass(getattr(config, item.name)):
            yield item.name, [setting for setting in settings if setting.key.startswith(f"{item.name}.")]


def _with_values(tree: dict[str, Any]) -> Iterator[tuple[Setting, Any]]:
    for setting in walk(TrainConfig()):
        value: Any = tree
        for name in setting.key.split("."):
            value = value[name]
        yield setting, value


def _row(setting: Setting, in_default_job: Any) -> str:
    about = setting.about
    default = f"`{shown(setting.value)}`" if setting.value != "" else "empty"
    if in_default_job != setting.value:
        default += f" (review_sentiment: `{shown(in_default_job)}`)"
    meaning = f"{about.meaning} [{about.unit}]" if about.unit else about.meaning
    usual = f"{about.usual[0]:g}..{about.usual[1]:g}: {about.outside}" if about.usual else ""
    cells = (f"`{setting.key}`", default, meaning, accepted(setting), usual)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _first(default: str, names: tuple[str, ...]) -> list[str]:
    return [default, *(name for name in names if name != default)]


def write(file: Path) -> None:
    """The page as a file."""
    file.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    write(REFERENCE_FILE)
