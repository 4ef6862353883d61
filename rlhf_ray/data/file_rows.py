"""The rows of the user's files as one model reads them: with its special tokens, and by its chat template."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rlhf_ray.data.files import DataFiles, layout_for
from rlhf_ray.data.read import RowStream, read_demonstrations, read_preferences, read_prompts
from rlhf_ray.data.render import render_conversation
from rlhf_ray.data.rows import AnyRow, DemonstrationRow, PreferenceRow, PromptRow

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Row = TypeVar("Row", PromptRow, DemonstrationRow, PreferenceRow)


class FileRows:
    """One stream a file. Where bad rows are skipped, those that the chat template refuses are bad rows, too.

    Where they are not, encoding tells them: rendering each row more than once would take longer for nothing.
    """

    def __init__(self, files: DataFiles, tokenizer: PreTrainedTokenizerBase, *, model_dir: Path) -> None:
        self._files = files
        self._layout = layout_for(files, model_dir)
        self._check = template_check(tokenizer)

    def prompts(self) -> RowStream[PromptRow]:
        """See read_prompts."""
        files = self._files
        return self._usable(read_prompts(files.prompts, layout=self._layout, on_bad_row=files.on_bad_row))

    def demonstrations(self) -> RowStream[DemonstrationRow] | None:
        """See read_demonstrations; None where there is no such file."""
        path, mode = self._files.demonstrations, self._files.on_bad_row
        return None if path is None else self._usable(read_demonstrations(path, layout=self._layout, on_bad_row=mode))

    def preferences(self) -> RowStream[PreferenceRow] | None:
        """See read_preferences; None where there is no such file."""
        path, mode = self._files.preferences, self._files.on_bad_row
        return None if path is None else self._usable(read_preferences(path, layout=self._layout, on_bad_row=mode))

    def _usable(self, rows: RowStream[Row]) -> RowStream[Row]:
        return rows.that_pass(self._check) if self._files.on_bad_row == "skip" else rows


def template_check(tokenizer: PreTrainedTokenizerBase | None) -> Callable[[AnyRow], None]:
    """Raises RowError for a conversation that the tokenizer's template refuses or loses a turn of."""

    def check(row: AnyRow) -> None:
        if tokenizer is not None and isinstance(row.prompt, tuple):
            render_conversation(row.prompt, tokenizer, ask=True)

    return check
