"""What a row's fields become, by format and column."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhf_ray.config.data import DataConfig
from rlhf_ray.data.layout import layout_of, parse_demonstration, parse_preference, parse_prompt
from rlhf_ray.data.rows import Message, Post, RowError

PLAIN = layout_of(DataConfig())
CHAT, INSTRUCTION, TLDR = (replace(PLAIN, format=name) for name in ("chat", "instruction", "tldr"))
ASK = {"role": "user", "content": "Name a colour."}
BLUE, RED = ({"role": "assistant", "content": text} for text in ("Blue.", "Red."))
ASKED = (Message(role="user", content="Name a colour."),)
HH_CHOSEN = "\n\nHuman: Name a colour.\n\nAssistant: Which kind?\n\nHuman: Any.\n\nAssistant: Blue."
HH_REJECTED = HH_CHOSEN.replace("Blue", "Red")
HH_TURNS = (
    Message(role="user", content="Name a colour."),
    Message(role="assistant", content="Which kind?"),
    Message(role="user", content="Any."),
)


def test_plain_prompts_are_the_text_itself():
    assert parse_prompt({"prompt": " Name a colour."}, PLAIN) == " Name a colour."


def test_chat_prompts_are_lists_of_messages_under_either_column():
    assert parse_prompt({"prompt": [ASK]}, CHAT) == ASKED
    assert parse_prompt({"messages": [ASK]}, CHAT) == ASKED


def test_text_parts_of_a_message_are_joined():
    parts = [{"type": "text", "text": "Name "}, {"type": "text", "text": "a colour."}]
    assert parse_prompt({"prompt": [{"role": "user", "content": parts}]}, CHAT) == ASKED


def test_an_instruction_is_asked_by_a_user_after_the_system_prompt():
    layout = replace(INSTRUCTION, system_prompt="Be brief.")
    assert parse_prompt({"prompt": "Name a colour."}, layout) == (Message(role="system", content="Be brief."), *ASKED)


def test_a_system_turn_of_the_row_stays_alone():
    own = {"role": "system", "content": "Be rude."}
    parsed = parse_prompt({"prompt": [own, ASK]}, replace(CHAT, system_prompt="Be brief."))
    assert [message.content for message in parsed] == ["Be rude.", "Name a colour."]


def test_column_names_are_settable():
    layout = layout_of(DataConfig(prompt_column="question", response_column="answer"))
    assert parse_demonstration({"question": "a", "answer": "b"}, layout) == ("a", "b")


@pytest.mark.parametrize("key", ["response", "completion"])
def test_demonstrations_take_the_name_others_use_too(key):
    assert parse_demonstration({"prompt": "a", key: "b"}, PLAIN) == ("a", "b")


def test_the_last_answer_of_a_conversation_is_the_demonstration():
    assert parse_demonstration({"messages": [ASK, BLUE, ASK, RED]}, CHAT) == (
        (*ASKED, Message(role="assistant", content="Blue."), *ASKED),
        "Red.",
    )


def test_explicit_preferences_plain_and_chat():
    assert parse_preference({"prompt": "a", "chosen": "b", "rejected": "c"}, PLAIN) == ("a", ("b", "c"), (1.0, 0.0))
    row = {"prompt": [ASK], "chosen": [BLUE], "rejected": [RED]}
    assert parse_preference(row, CHAT) == (ASKED, ("Blue.", "Red."), (1.0, 0.0))


def test_an_implicit_prompt_is_the_common_beginning_up_to_a_word():
    row = {"chosen": "The sky is blue.", "rejected": "The sky is brown."}
    assert parse_preference(row, PLAIN)[:2] == ("The sky is", (" blue.", " brown."))


def test_an_implicit_conversation_is_all_but_the_last_turn():
    row = {"chosen": [ASK, BLUE], "rejected": [ASK, RED]}
    assert parse_preference(row, CHAT)[:2] == (ASKED, ("Blue.", "Red."))
    assert parse_prompt(row, CHAT) == ASKED


def test_transcripts_are_split_before_the_last_answer_as_text():
    prompt, answers, _ = parse_preference({"chosen": HH_CHOSEN, "rejected": HH_REJECTED}, PLAIN)
    assert prompt == HH_CHOSEN.removesuffix(" Blue.")
    assert answers == (" Blue.", " Red.")


def test_transcripts_are_conversations_in_a_chat():
    row = {"chosen": HH_CHOSEN, "rejected": HH_REJECTED}
    assert parse_preference(row, CHAT) == (HH_TURNS, ("Blue.", "Red."), (1.0, 0.0))
    assert parse_prompt(row, CHAT) == HH_TURNS


def test_preferred_answers_are_demonstrations_only_where_the_column_says_so():
    row = {"chosen": HH_CHOSEN, "rejected": HH_REJECTED}
    with pytest.raises(RowError, match='no key "prompt"'):
        parse_demonstration(row, CHAT)
    layout = replace(layout_of(DataConfig(response_column="chosen")), format="chat")
    assert parse_demonstration(row, layout) == (HH_TURNS, "Blue.")


def test_completions_keep_their_labels():
    row = {"prompt": "a", "completions": ["b", "c", "d"], "labels": [2, 0.5, True]}
    assert parse_preference(row, PLAIN) == ("a", ("b", "c", "d"), (2.0, 0.5, 1.0))


def test_posts_have_three_parts_and_summaries_a_leading_space():
    row = {"subreddit": "tifu", "title": "Lost keys", "post": "I lost them.", "summary": "Keys lost."}
    assert parse_demonstration(row, TLDR) == (
        Post(subreddit="tifu", title="Lost keys", post="I lost them."),
        " Keys lost.",
    )


@pytest.mark.parametrize(
    ("layout", "row", "reason"),
    [
        (PLAIN, {"prompt": [ASK]}, "a list of chat messages, and this file is read as plain text"),
        (CHAT, {"prompt": "Name a colour."}, "is a string, and this file is read as chat"),
        (CHAT, {"prompt": [{"role": "oracle", "content": "x"}]}, "has the role 'oracle'; accepted: system, user"),
        (
            CHAT,
            {"messages": [ASK, BLUE]},
            '"messages" ends with a turn of the assistant, as a demonstration does; accepted as a prompt: the '
            "conversation without that turn",
        ),
        (
            CHAT,
            {"prompt": [{"role": "system", "content": "a"}]},
            '"prompt" ends with a turn of the system; accepted: a last turn of the user',
        ),
        (CHAT, {"prompt": [{"role": "user", "content": ""}]}, "is empty"),
        (CHAT, {"prompt": [{"role": "user", "content": None}]}, "is null"),
        (CHAT, {"prompt": [{"role": "user"}]}, 'accepted: an object with "role" and "content"'),
        (CHAT, {"prompt": []}, "an empty list"),
        (CHAT, {"prompt": None}, "null"),
        (TLDR, {"title": "x", "post": "y"}, 'no key "subreddit"'),
    ],
)
def test_prompts_that_do_not_fit_the_format_are_refused_with_the_reason(layout, row, reason):
    with pytest.raises(RowError, match=reason):
        parse_prompt(row, layout)


@pytest.mark.parametrize(
    ("layout", "row", "reason"),
    [
        (PLAIN, {"chosen": "Blue.", "rejected": "Red."}, "have no beginning in common"),
        (
            PLAIN,
            {"chosen": HH_CHOSEN, "rejected": HH_REJECTED.replace("Any", "None")},
            "differ before their last answer",
        ),
        (CHAT, {"chosen": [ASK, BLUE], "rejected": [ASK]}, "does not end with a turn of the user and one of the"),
        (CHAT, {"prompt": [ASK], "chosen": [BLUE, ASK], "rejected": [RED]}, "has 2 turns"),
        (PLAIN, {"prompt": "a", "completions": ["b", "c"], "labels": [1]}, "two lists of the same length"),
        (PLAIN, {"prompt": "a", "completions": ["b", "c"], "labels": [1, 1]}, "all the same"),
        (PLAIN, {"prompt": "a", "completions": ["b", "c"], "labels": [1, None]}, "something else than finite numbers"),
        (PLAIN, {"prompt": "a", "chosen": "b"}, 'no key "rejected"'),
    ],
)
def test_preferences_that_compare_nothing_are_refused_with_the_reason(layout, row, reason):
    with pytest.raises(RowError, match=reason):
        parse_preference(row, layout)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["prompt", "chosen", "rejected", "messages", "role", "content", "completions", "labels"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(value=JSON, layout=st.sampled_from([PLAIN, CHAT, INSTRUCTION, TLDR]))
def test_any_json_is_parsed_or_refused_with_a_reason(value, layout):
    for parse in (parse_prompt, parse_demonstration, parse_preference):
        assert outcome(parse, value, layout)


def outcome(parse, value, layout):
    """What is parsed, or why nothing is; any other error escapes."""
    try:
        return parse(value, layout)
    except RowError as error:
        return str(error)
