"""The user's own files and the limits in tokens: what the check before a run and the data worker both go by."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.data.encode import LossOn, OnOverlong
from rlhf_ray.data.layout import CHATS, Layout, layout_of
from rlhf_ray.data.read import OnBadRow
from rlhf_ray.data.tokenizer import special_tokens


@dataclass(frozen=True, kw_only=True)
class DataFiles:
    """Files of the user's own, and how they are read."""

    prompts: Path
    demonstrations: Path | None
    preferences: Path | None
    layout: Layout  # special tokens are added from the model directory
    held_out_share: float
    on_bad_row: OnBadRow
    seed: int

    @property
    def chat(self) -> bool:
        """Whether prompts are rendered by a chat template."""
        return self.layout.format in CHATS


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Limits in tokens, and which tokens of demonstrations are trained on."""

    max_prompt_tokens: int
    max_new_tokens: int  # of sampled answers
    max_answer_tokens: int  # of written ones
    on_long_prompt: OnOverlong
    loss_on: LossOn

    @property
    def max_tokens(self) -> int:
        """Prompt and written answer together."""
        return self.max_prompt_tokens + self.max_answer_tokens


def files_of(config: TrainConfig) -> DataFiles:
    """As the settings say. Precondition: data.prompts is set."""
    data = config.data
    assert data.prompts is not None
    return DataFiles(
        prompts=Path(data.prompts),
        demonstrations=None if data.demonstrations is None else Path(data.demonstrations),
        preferences=None if data.preferences is None else Path(data.preferences),
        layout=layout_of(data),
        held_out_share=data.held_out_share,
        on_bad_row=data.on_bad_row,  # type: ignore[arg-type]  # one of the choices, checked at load
        seed=config.seed,
    )


def lengths_of(config: TrainConfig) -> Lengths:
    """As the settings say."""
    return Lengths(
        max_prompt_tokens=config.data.max_prompt_tokens,
        max_new_tokens=config.algorithm.max_new_tokens,
        max_answer_tokens=config.data.max_answer_tokens or config.algorithm.max_new_tokens,
        on_long_prompt=config.data.on_long_prompt,  # type: ignore[arg-type]  # one of the choices, checked at load
        loss_on=config.sft.loss_on,  # type: ignore[arg-type]  # as above
    )


def layout_for(files: DataFiles, model_dir: Path) -> Layout:
    """The layout, with the special tokens of the model that reads the rows."""
    return dataclasses.replace(files.layout, special_tokens=special_tokens(model_dir))
