"""The built-in tokenizer (byte-level BPE, distinct pad and end tokens) and what data needs to know of any tokenizer."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from rlhf_ray.errors import DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

log = logging.getLogger(__name__)
PROBE, PROBE_TOKENS = "Hello, world!  12345 don't\nzwölf ", 50
PAD = "<pad>"
EOS = "<eos>"


def train_tokenizer(texts: Iterable[str], *, vocab_size: int) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer: every text has ids and comes back unchanged. `save_pretrained` writes it.

    No token begins before a space, so ids(prompt) + ids(answer) = ids(prompt + answer) if the answer starts with one.
    """
    from transformers import PreTrainedTokenizerFast  # noqa: PLC0415  loads torch; readers of data files do not

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[PAD, EOS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe, pad_token=PAD, eos_token=EOS, clean_up_tokenization_spaces=False
    )


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a model directory, as its tokenizer.json says.

    transformers rebuilds the tokenizers of some families by their model_type and may so ignore what the file says:
    where ids differ, the file is taken. Raises DataError where none can be loaded.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast  # noqa: PLC0415  loads torch

    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise DataError(f"{folder}: no tokenizer can be loaded from it: {error}") from error
    file = folder / "tokenizer.json"
    if not file.is_file():
        return tokenizer
    written = Tokenizer.from_file(str(file))
    probe = PROBE + " ".join(sorted(written.get_vocab())[:PROBE_TOKENS])
    if tokenizer(probe, add_special_tokens=False)["input_ids"] == written.encode(probe, add_special_tokens=False).ids:
        return tokenizer
    log.warning("%s: %s ignores what tokenizer.json says; the file is taken", folder, type(tokenizer).__name__)
    plain: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
    return plain


def start_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The ids that this tokenizer puts before every text: its BOS, or nothing."""
    first = list(tokenizer.encode("", add_special_tokens=True))[:1]
    return first if tokenizer.bos_token_id is not None and first == [tokenizer.bos_token_id] else []


def special_tokens(model_dir: Path) -> tuple[str, ...]:
    """The special tokens of a saved tokenizer, read from tokenizer.json without loading it; none without that file."""
    file = model_dir / "tokenizer.json"
    if not file.is_file():
        return ()
    added = json.loads(file.read_text(encoding="utf-8"))["added_tokens"]
    return tuple(token["content"] for token in added if token["special"])
