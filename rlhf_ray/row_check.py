"""Whether models fit their classes and every row can be rendered and encoded, before Ray starts or a model loads.

What needs no transformers, which take seconds to load, is found earlier (preflight.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from rlhf_ray.config.derived import is_tiny
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.data.file_rows import FileRows
from rlhf_ray.data.files import DataFiles, files_of, lengths_of
from rlhf_ray.data.read import RowStream
from rlhf_ray.data.refusals import refusals
from rlhf_ray.data.render import require_ending
from rlhf_ray.data.retokenize import Retokenizer
from rlhf_ray.data.rows import PromptRow
from rlhf_ray.data.tables import file_texts
from rlhf_ray.data.tokenizer import load_tokenizer, train_tokenizer
from rlhf_ray.errors import DataError, ModelError
from rlhf_ray.models.directory import inspect_model
from rlhf_ray.models.smollm2 import smollm2_tokenizer
from rlhf_ray.models.vocabulary import tokenizer_digest


def row_problems(config: TrainConfig) -> list[str]:
    """What stands in the way of loading each model and encoding each file; nothing for the built-in ones.

    Precondition: world_problems found nothing, so models and files are there.
    """
    misfits = list(_misfits(config))
    if misfits or config.data.prompts is None:
        return misfits
    files = files_of(config)
    with _tokenizer_folder(config, files) as folder:
        try:
            tokenizer = load_tokenizer(folder)
            if config.model.path is not None:
                require_ending(tokenizer, inspect_model(folder).eos_token_ids, chat=files.chat)
        except DataError as error:
            return [f"model.path={folder}: {error}"]
        problems = list(refusals(files, tokenizer, model_dir=folder, lengths=lengths_of(config)))
        rows = FileRows(files, tokenizer, model_dir=folder).prompts()
        return problems or list(_refused_by_reward_model(config, rows, folder))


def _misfits(config: TrainConfig) -> Iterator[str]:
    """Models that transformers cannot build from their config, or whose weights are another model's."""
    policy, reward = config.model.path, config.reward.path
    if policy is None and reward is None:
        return
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification  # noqa: PLC0415  loads torch

    from rlhf_ray.models.pretrained import require_fit  # noqa: PLC0415  loads torch

    kinds = {"model.path": (policy, AutoModelForCausalLM), "reward.path": (reward, AutoModelForSequenceClassification)}
    for key, (path, auto_class) in kinds.items():
        try:
            if path is not None:
                require_fit(auto_class, inspect_model(Path(path)))
        except ModelError as error:
            yield f"{key}: {error}"


@contextmanager
def _tokenizer_folder(config: TrainConfig, files: DataFiles) -> Iterator[Path]:
    """The model directory or, for a model that the run will make, one with its tokenizer alone."""
    if config.model.path is not None:
        yield Path(config.model.path)
        return
    with TemporaryDirectory() as folder:
        if is_tiny(config):
            tokenizer = train_tokenizer(file_texts(files), vocab_size=config.model.vocab_size)
        else:
            tokenizer = smollm2_tokenizer()
        tokenizer.save_pretrained(folder)
        yield Path(folder)


def _refused_by_reward_model(config: TrainConfig, rows: RowStream[PromptRow], policy_folder: Path) -> Iterator[str]:
    """A reward model with another tokenizer reads every prompt, too."""
    reward = config.reward.path
    if reward is None or tokenizer_digest(Path(reward)) == tokenizer_digest(policy_folder):
        return
    try:
        Retokenizer(rows, load_tokenizer(Path(reward)))
    except DataError as error:
        yield (
            f"reward.path={reward} cannot read data.prompts={config.data.prompts}: {error}; its tokenizer and "
            "template have to accept what the policy's do: data.on_bad_row=skip does not leave out such rows"
        )
