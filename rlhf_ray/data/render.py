"""From prompts and answers to token ids: one place, so that SFT, reward model and PPO read a conversation alike.

Prompt and answer are encoded apart: the border between them never moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from rlhf_ray.data.rows import Asked, Conversation, Message, Post, RowError
from rlhf_ray.data.tldr import fitting_query
from rlhf_ray.data.tokenizer import start_ids
from rlhf_ray.errors import DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

SUPPLY_TEMPLATE = (
    "put one into the model directory as chat_template.jinja (of a model that a run wrote: into a copy without its "
    "artifact.json), or use data.format=plain with text prompts"
)
_ANSWER = "Zyzzyva"  # a word that no template holds


def shown_prompt(prompt: Asked) -> str:
    """A prompt as people read it in records and reports."""
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Post):
        return prompt.post
    return "\n".join(f"{message.role}: {message.content}" for message in prompt)


def prompt_text(prompt: Asked, tokenizer: PreTrainedTokenizerBase, *, max_tokens: int) -> str:
    """What is encoded: plain text as it is, a conversation in the tokenizer's template, asking for the next answer.

    Only a post is cut to max_tokens here, by its own rule. Raises DataError where the template refuses or loses a turn.
    """
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Post):
        num_start = len(start_ids(tokenizer))
        return fitting_query(
            prompt,
            count_tokens=lambda text: len(plain_ids([text], tokenizer)[0]) + num_start,
            max_tokens=max_tokens,
        )
    return render_conversation(prompt, tokenizer, ask=True)


def prompt_ids(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """The ids of rendered prompts, with the tokenizer's BOS in front exactly once, whoever wrote it."""
    start = start_ids(tokenizer)
    rows = []
    for ids in plain_ids(texts, tokenizer):
        first = 0
        while start and ids[first : first + 1] == start:
            first += 1
        rows.append(start + ids[first:])
    return rows


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """How a whole answer is written behind its prompt."""

    lead: str  # what a chat template puts between the request for an answer and its text; often nothing, or a space
    end: int  # the token that ends it

    def led(self, texts: Sequence[str]) -> list[str]:
        """The answers as they begin behind a prompt."""
        return [self.lead + text.lstrip() for text in texts] if self.lead else list(texts)


def answer_form(tokenizer: PreTrainedTokenizerBase, *, chat: bool) -> AnswerForm:
    """As the template writes a conversation that goes on; plain answers begin as they are and end with EOS."""
    lead = _lead(tokenizer) if chat else ""
    return AnswerForm(lead=lead, end=end_token(tokenizer, chat=chat))


def answer_ids(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase, *, form: AnswerForm) -> list[list[int]]:
    """The ids of whole answers, ending in exactly one end token."""
    ids = plain_ids(form.led(texts), tokenizer)
    return [row if row[-1:] == [form.end] else [*row, form.end] for row in ids]


def plain_ids(texts: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """Ids without anything the tokenizer would add."""
    return [list(ids) for ids in tokenizer(list(texts), add_special_tokens=False)["input_ids"]] if texts else []


def end_token(tokenizer: PreTrainedTokenizerBase, *, chat: bool) -> int:
    """What a whole answer ends with: in a chat the special token its template writes after an answer, else EOS."""
    if chat:
        turns = (Message(role="user", content="?"), Message(role="assistant", content=_ANSWER))
        after = render_conversation(turns, tokenizer, ask=False).rpartition(_ANSWER)[2]
        special = set(tokenizer.all_special_ids)
        ids = [token for token in plain_ids([after], tokenizer)[0] if token in special]
        if ids:
            return ids[0]
    if tokenizer.eos_token_id is None:
        raise DataError(
            "the tokenizer has no EOS token, so no answer could end; set eos_token in tokenizer_config.json"
        )
    return int(tokenizer.eos_token_id)


def _lead(tokenizer: PreTrainedTokenizerBase) -> str:
    """What stands before an answer's text, less what the tokenizer itself puts before a text that stands alone."""
    asking = (Message(role="user", content="?"),)
    asked = render_conversation(asking, tokenizer, ask=True)
    whole = render_conversation((*asking, Message(role="assistant", content=_ANSWER)), tokenizer, ask=False)
    before = whole.rpartition(_ANSWER)[0]
    if not before.startswith(asked):
        return ""
    lead = before.removeprefix(asked)
    asked_ids, answered_ids = plain_ids([asked, before + _ANSWER], tokenizer)
    fitting = [
        form
        for form in dict.fromkeys((lead, lead.removeprefix(" ")))
        if asked_ids + plain_ids([form + _ANSWER], tokenizer)[0] == answered_ids
    ]
    return fitting[0] if fitting else lead


def require_ending(tokenizer: PreTrainedTokenizerBase, eos_token_ids: Sequence[int], *, chat: bool) -> None:
    """Raises DataError where answers would end with a token that does not end generation."""
    end = end_token(tokenizer, chat=chat)
    if end not in eos_token_ids:
        raise DataError(
            f"answers end with {tokenizer.convert_ids_to_tokens(end)} (id {end}), and the model's "
            f"eos_token_id is {list(eos_token_ids)}: generation would go on after them; add {end} to "
            "eos_token_id in generation_config.json"
        )


def require_template(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises DataError where no conversation could be rendered."""
    if not tokenizer.chat_template:
        raise DataError("chat rows need a chat template and the tokenizer has none; " + SUPPLY_TEMPLATE)


def render_conversation(conversation: Conversation, tokenizer: PreTrainedTokenizerBase, *, ask: bool) -> str:
    """The template's text; with `ask`, up to where the next answer begins."""
    require_template(tokenizer)
    messages = [{"role": message.role, "content": message.content} for message in conversation]
    try:
        text: str = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask)
    except TemplateError as error:
        raise RowError(f"the chat template refuses a conversation with {_roles(conversation)}: {error}") from error
    for message in conversation:
        if message.content.strip() not in text:
            raise RowError(
                f"the chat template leaves out the {message.role} turn of a conversation with {_roles(conversation)}; "
                "accepted: conversations without it, or a template that writes it"
            )
    return text


def assistant_mask(prompt: Asked, tokenizer: PreTrainedTokenizerBase) -> list[bool]:
    """[prompt ids] True in earlier answers of the conversation, their end tokens included.

    Raises DataError for templates that write a conversation's beginning differently once it goes on.
    """
    if not isinstance(prompt, tuple):
        (ids,) = prompt_ids([prompt_text(prompt, tokenizer, max_tokens=1 << 30)], tokenizer)
        return [False] * len(ids)
    whole = render_conversation(prompt, tokenizer, ask=True)
    spans = [_answer_span(prompt, turn, tokenizer, whole=whole) for turn in _answers(prompt)]
    encoded = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    mask = [any(low <= left < high for low, high in spans) for left, _ in encoded["offset_mapping"]]
    (ids,) = prompt_ids([whole], tokenizer)
    missing = len(ids) - len(mask)  # a BOS that the tokenizer adds, or one that came twice
    return [False] * missing + mask if missing >= 0 else mask[-missing:]


def _answers(conversation: Conversation) -> list[int]:
    return [turn for turn, message in enumerate(conversation) if message.role == "assistant"]


def _answer_span(
    conversation: Conversation, turn: int, tokenizer: PreTrainedTokenizerBase, *, whole: str
) -> tuple[int, int]:
    """First character of an answer and the one behind its end token."""
    before = render_conversation(conversation[:turn], tokenizer, ask=True)
    after = render_conversation(conversation[: turn + 1], tokenizer, ask=False)
    if not (after.startswith(before) and whole.startswith(after)):
        raise DataError(
            "sft.loss_on=assistant needs a chat template that writes the beginning of a conversation the same however "
            "it goes on, and this one does not; use sft.loss_on=answer"
        )
    return len(before), len(after.rstrip())


def _roles(conversation: Conversation) -> str:
    return "the roles " + ", ".join(message.role for message in conversation)
