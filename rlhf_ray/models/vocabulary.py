"""What a tokenizer's files say without transformers: how many ids it knows, whether two are alike, chat templates."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rlhf_ray.errors import ModelError
from rlhf_ray.models.json_object import read_json_object

WHOLE_FILE = "tokenizer.json"
SETTINGS_FILE = "tokenizer_config.json"
OLDER_FILES = ("tokenizer.model", "spiece.model", "vocab.json", "merges.txt")


def num_token_ids(folder: Path) -> int | None:
    """The tokenizer's largest id + 1; None where its files do not tell (SentencePiece alone).

    Raises ModelError for files that are not JSON or not of a tokenizer.
    """
    whole, words = folder / WHOLE_FILE, folder / "vocab.json"
    if whole.is_file():
        content = read_json_object(whole)
        try:
            added = [token["id"] for token in content.get("added_tokens") or []]
            return _end([*_ids(content["model"]["vocab"]), *added])
        except (KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{whole} is not a tokenizer's: {error!r}") from error
    if words.is_file():
        extra = folder / "added_tokens.json"
        return _end([*read_json_object(words).values(), *(read_json_object(extra).values() if extra.is_file() else ())])
    return None


def tokenizer_digest(folder: Path) -> str | None:
    """Equal for tokenizers that turn text into the same ids; None for a folder without a tokenizer.

    What a tokenizer adds around texts (BOS, padding, truncation) does not count: it is never asked to.
    """
    whole = folder / WHOLE_FILE
    if whole.is_file():
        content = read_json_object(whole)
        added = sorted((token["id"], token["content"]) for token in content.get("added_tokens") or [])
        parts = [json.dumps([content.get(key) for key in ("normalizer", "pre_tokenizer", "model")], sort_keys=True)]
        data = [*parts, json.dumps(added)]
        return _digest(text.encode() for text in data)
    present = [folder / name for name in OLDER_FILES if (folder / name).is_file()]
    return _digest(file.read_bytes() for file in present) if present else None


def require_tokenizer(folder: Path) -> None:
    """Raises ModelError for a folder without a tokenizer's files, or with settings that are no JSON object."""
    if tokenizer_digest(folder) is None:
        raise ModelError(
            f"{folder} holds no tokenizer: {WHOLE_FILE} is not there, nor any of {', '.join(OLDER_FILES)}; copy "
            f"{WHOLE_FILE} and {SETTINGS_FILE} there from where the model comes from"
        )
    for settings in (SETTINGS_FILE, "special_tokens_map.json"):
        if (folder / settings).is_file():
            read_json_object(folder / settings)


def has_chat_template(folder: Path) -> bool:
    """Whether one is there under any of the names that transformers reads."""
    if any((folder / name).is_file() for name in ("chat_template.jinja", "chat_template.json")):
        return True
    file = folder / SETTINGS_FILE
    return file.is_file() and bool(read_json_object(file).get("chat_template"))


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()


def _ids(vocabulary: Any) -> Iterable[int]:
    """A mapping from token to id or, for Unigram, a list whose places are the ids."""
    return vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))


def _end(ids: list[int]) -> int | None:
    return max(ids) + 1 if ids else None
