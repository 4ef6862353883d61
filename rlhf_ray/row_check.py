"""Whether every row of the user's files can be rendered and encoded, found out before Ray starts or a model loads.

Readers find bad rows without a tokenizer (preflight.py); this needs the tokenizers, which take seconds to load.
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
from rlhf_ray.errors import DataError
from rlhf_ray.models.directory import inspect_model
from rlhf_ray.models.smollm2 import smollm2_tokenizer
from rlhf_ray.models.vocabulary import tokenizer_digest


def row_problems(config: TrainConfig) -> list[str]:
    """What stands in the way of encoding each file; nothing for the built-in corpora.

    Precondition: world_problems found nothing, so models and files are there.
    """
    if config.data.prompts is None:
        return []
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
