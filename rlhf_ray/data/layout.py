"""How a row's fields become a prompt and answers: column names, plain text or chat, transcripts, implicit prompts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data.rows import Asked, Conversation, Message, Post, RowError
from rlhf_ray.data.transcripts import is_transcript, split_transcript, transcript_messages

Format = Literal["plain", "chat", "instruction", "tldr"]
CHATS = ("chat", "instruction")  # formats that are rendered by a model's template
ROLES = ("system", "user", "assistant")
POST_KEYS = ("subreddit", "title", "post")
COMPLETION, SUMMARY = "completion", "summary"  # what others call the response


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What the fields are called."""

    prompt: str
    response: str
    chosen: str
    rejected: str
    messages: str
    completions: str
    labels: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the rows of a file are read."""

    format: Format  # instruction: plain text that a user asks in a chat; tldr: subreddit, title and post
    columns: Columns
    system_prompt: str | None  # put before conversations that have no system turn
    special_tokens: tuple[str, ...]  # text that is blank without them counts as empty


def layout_of(data: DataConfig) -> Layout:
    """As the settings say."""
    columns = Columns(
        prompt=data.prompt_column,
        response=data.response_column,
        chosen=data.chosen_column,
        rejected=data.rejected_column,
        messages=data.messages_column,
        completions=data.completions_column,
        labels=data.labels_column,
    )
    return Layout(
        format=data.format,  # type: ignore[arg-type]  # one of the choices, checked at load
        columns=columns,
        system_prompt=data.system_prompt,
        special_tokens=(),
    )


def parse_prompt(value: object, layout: Layout) -> Asked:
    """The prompt of a row; of a preference row without one, what its answers have in common."""
    columns = layout.columns
    row = _object(value, (columns.prompt,))
    if layout.format == "tldr" or columns.prompt in row:
        return _explicit_prompt(row, layout)
    if columns.messages in row:
        return _asked(row[columns.messages], columns.messages, layout)
    if columns.chosen in row and columns.rejected in row:
        return _implicit(row, layout)[0]
    raise _no_key(columns.prompt, row)


def parse_demonstration(value: object, layout: Layout) -> tuple[Asked, str]:
    """Prompt and response: from their columns, or a conversation that ends with the response.

    Preferred answers are demonstrations where the response's column is said to be theirs.
    """
    columns = layout.columns
    row = _object(value, (columns.prompt, columns.response))
    if columns.prompt not in row and layout.format != "tldr":
        if columns.messages in row:
            return _last_answer(row[columns.messages], columns.messages, layout)
        if columns.response == columns.chosen and columns.chosen in row and columns.rejected in row:
            prompt, chosen, _ = _implicit(row, layout)
            return prompt, chosen
        raise _no_key(columns.prompt, row)
    name = next((key for key in (columns.response, COMPLETION, SUMMARY) if key in row), None)
    if name is None:
        raise _no_key(columns.response, row)
    return _explicit_prompt(row, layout), _answer(row[name], name, layout)


def parse_preference(value: object, layout: Layout) -> tuple[Asked, tuple[str, ...], tuple[float, ...]]:
    """Prompt, answers and their labels: chosen and rejected, or completions with a number each."""
    columns = layout.columns
    row = _object(value, (columns.prompt, columns.chosen, columns.rejected))
    if columns.completions in row:
        prompt = _explicit_prompt(row, layout)
        return prompt, *_labelled(row, layout)
    explicit = columns.prompt in row or layout.format == "tldr"
    if explicit:
        prompt = _explicit_prompt(row, layout)
        chosen, rejected = (_answer(_field(row, key), key, layout) for key in (columns.chosen, columns.rejected))
    elif columns.chosen in row and columns.rejected in row:
        prompt, chosen, rejected = _implicit(row, layout)
    else:
        raise _no_key(columns.prompt, row)
    if chosen == rejected:
        raise RowError(f'"{columns.chosen}" and "{columns.rejected}" are the same text')
    return prompt, (chosen, rejected), (1.0, 0.0)


def _object(value: object, keys: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise RowError(f"{_kind(value)} instead of an object with {_quoted(keys)}")


def _field(row: dict[str, Any], key: str) -> Any:
    if key in row:
        return row[key]
    raise _no_key(key, row)


def _explicit_prompt(row: dict[str, Any], layout: Layout) -> Asked:
    if layout.format == "tldr":
        texts = {key: _text(_field(row, key), key, layout) for key in POST_KEYS}
        return Post(**texts)
    key = layout.columns.prompt
    return _asked(_field(row, key), key, layout)


def _asked(value: object, name: str, layout: Layout) -> Asked:
    if layout.format == "plain":
        return _text(value, name, layout)
    if layout.format == "instruction":
        return _with_system((Message(role="user", content=_text(value, name, layout)),), layout)
    if isinstance(value, str):
        if not is_transcript(value):
            raise RowError(
                f'"{name}" is a string, and this file is read as chat; accepted: a list of messages, or '
                "data.format=instruction, where a user asks the text"
            )
        conversation = transcript_messages(value)
    else:
        conversation = _conversation(value, name, layout)
    last = conversation[-1].role
    if last == "assistant":
        raise RowError(
            f'"{name}" ends with a turn of the assistant, as a demonstration does; accepted as a prompt: the '
            "conversation without that turn, in another file"
        )
    if last != "user":
        raise RowError(f'"{name}" ends with a turn of the {last}; accepted: a last turn of the user')
    return _with_system(conversation, layout)


def _with_system(conversation: Conversation, layout: Layout) -> Conversation:
    if layout.system_prompt is None or conversation[0].role == "system":
        return conversation
    return (Message(role="system", content=layout.system_prompt), *conversation)


def _conversation(value: object, name: str, layout: Layout) -> Conversation:
    if not isinstance(value, list) or not value:
        raise RowError(f'"{name}" is {_kind(value)}; accepted: a list of messages with "role" and "content"')
    return tuple(_message(item, f"{name}[{turn}]", layout) for turn, item in enumerate(value))


def _message(item: object, name: str, layout: Layout) -> Message:
    if not isinstance(item, dict) or "role" not in item or "content" not in item:
        raise RowError(f'"{name}" is {_kind(item)}; accepted: an object with "role" and "content"')
    role, content = item["role"], item["content"]
    if role not in ROLES:
        raise RowError(f'"{name}" has the role {role!r}; accepted: {", ".join(ROLES)}')
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        content = "".join(str(part.get("text")) for part in content)
    return Message(role=role, content=_text(content, f"{name}.content", layout))


def _last_answer(value: object, name: str, layout: Layout) -> tuple[Conversation, str]:
    """A conversation without its last turn, which must be the assistant's, and that turn."""
    if layout.format != "chat":
        raise RowError(
            f'"{name}" is {_kind(value)}; accepted with data.format={layout.format}: a prompt and a response'
        )
    conversation = (
        transcript_messages(value)
        if isinstance(value, str) and is_transcript(value)
        else _conversation(value, name, layout)
    )
    if len(conversation) < 2 or conversation[-1].role != "assistant" or conversation[-2].role != "user":
        raise RowError(f'"{name}" does not end with a turn of the user and one of the assistant, which is the answer')
    return _with_system(conversation[:-1], layout), conversation[-1].content


def _answer(value: object, name: str, layout: Layout) -> str:
    """A text, or in a chat a list with one turn of the assistant."""
    if isinstance(value, list) and layout.format in CHATS:
        turns = _conversation(value, name, layout)
        if len(turns) != 1 or turns[0].role != "assistant":
            raise RowError(f'"{name}" has {len(turns)} turns; accepted: a text, or one turn of the assistant')
        return turns[0].content
    text = _text(value, name, layout)
    return f" {text}" if layout.format == "tldr" and not text.startswith(" ") else text


def _implicit(row: dict[str, Any], layout: Layout) -> tuple[Asked, str, str]:
    """Two whole texts or conversations: the prompt is what they have in common."""
    names = (layout.columns.chosen, layout.columns.rejected)
    chosen, rejected = (row[name] for name in names)
    if layout.format == "chat":
        (prompt, better), (other, worse) = (_last_answer(row[name], name, layout) for name in names)
        if prompt != other:
            raise RowError(f'"{names[0]}" and "{names[1]}" differ before their last answer')
        return prompt, better, worse
    better, worse = (_text(value, name, layout) for value, name in zip((chosen, rejected), names, strict=True))
    if is_transcript(better) and is_transcript(worse):
        (text, better), (other_text, worse) = split_transcript(better), split_transcript(worse)
        if text != other_text:
            raise RowError(f'"{names[0]}" and "{names[1]}" differ before their last answer')
    else:
        text = _common_beginning(better, worse)
        better, worse = better.removeprefix(text), worse.removeprefix(text)
    if not text.strip():
        raise RowError(f'no key "{layout.columns.prompt}", and {_quoted(names)} have no beginning in common')
    for name, answer in zip(names, (better, worse), strict=True):
        _text(answer, name, layout)
    return _asked(text, names[0], layout), better, worse


def _common_beginning(a: str, b: str) -> str:
    """Up to the last space before the texts part, so that no word is cut; the space belongs to the answers."""
    length = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    common = a[:length]
    edge = len(common.rstrip()) if common[-1:].isspace() else common.rfind(" ")
    return common[: max(edge, 0)]


def _labelled(row: dict[str, Any], layout: Layout) -> tuple[tuple[str, ...], tuple[float, ...]]:
    names = (layout.columns.completions, layout.columns.labels)
    texts, labels = (_field(row, name) for name in names)
    if not isinstance(texts, list) or not isinstance(labels, list) or len(texts) != len(labels) or len(texts) < 2:
        raise RowError(f"{_quoted(names)} are not two lists of the same length, at least 2")
    if not all(isinstance(label, bool | int | float) and math.isfinite(label) for label in labels):
        raise RowError(f'"{names[1]}" holds something else than finite numbers and truth values')
    if len(set(labels)) == 1:
        raise RowError(f'"{names[1]}" are all the same: no answer is preferred')
    answers = tuple(_answer(text, f"{names[0]}[{i}]", layout) for i, text in enumerate(texts))
    return answers, tuple(float(label) for label in labels)


def _text(value: object, name: str, layout: Layout) -> str:
    """A field that must be usable text."""
    reason = why_no_text(value, layout.special_tokens)
    if reason is not None:
        raise RowError(f'"{name}" is {reason}; accepted: a non-empty string')
    return str(value)


def why_no_text(value: object, special_tokens: tuple[str, ...]) -> str | None:
    """What is wrong with a field; None for usable text."""
    if not isinstance(value, str):
        return _kind(value)
    if any("\ud800" <= character <= "\udfff" for character in value):
        return "not valid Unicode (a lone surrogate)"
    rest = value
    for token in special_tokens:
        rest = rest.replace(token, "")
    if not rest.strip():
        return "empty" if not value.strip() else "nothing but special tokens"
    return None


def _no_key(key: str, row: dict[str, Any]) -> RowError:
    return RowError(f'no key "{key}" (the row has {_quoted(tuple(row)) or "no keys"})')


def _kind(value: object) -> str:
    """A value in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case []:
            return "an empty list"
        case [{"role": _, **_rest}, *_]:
            return "a list of chat messages, and this file is read as plain text"
        case list():
            return "a list"
        case _:
            return "an object"


def _quoted(keys: tuple[str, ...]) -> str:
    return ", ".join(f'"{key}"' for key in keys)
