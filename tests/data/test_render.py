"""One rendering for all stages: exact ids, one BOS, the generation prompt at the end, answers that end once."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from rlhf_ray.data.encode import encode_demonstrations, encode_preferences, encode_prompts
from rlhf_ray.data.render import (
    answer_form,
    answer_ids,
    assistant_mask,
    end_token,
    prompt_ids,
    prompt_text,
    render_conversation,
)
from rlhf_ray.data.rows import DemonstrationRow, Message, PreferenceRow, PromptRow
from rlhf_ray.errors import DataError

LIMITS = {"max_tokens": 64, "on_overlong": "error"}
ASKED = (
    Message(role="system", content="j"),
    Message(role="user", content="a b"),
    Message(role="assistant", content="c"),
    Message(role="user", content="d"),
)
# <bos> <system> j <eos> <user> a b <eos> <assistant> c <eos> <user> d <eos> <assistant>
ASKED_IDS = [1, 13, 12, 2, 14, 3, 4, 2, 15, 5, 2, 14, 6, 2, 15]


def with_template(tokenizer, template):
    other = copy.deepcopy(tokenizer)
    other.chat_template = template
    return other


def rendered(prompt, tokenizer):
    return prompt_ids([prompt_text(prompt, tokenizer, max_tokens=64)], tokenizer)[0]


def test_a_conversation_has_one_bos_and_ends_with_the_generation_prompt(chat_tokenizer):
    assert rendered(ASKED, chat_tokenizer) == ASKED_IDS


def test_a_template_without_bos_gets_the_one_the_tokenizer_adds(chat_tokenizer):
    bare = with_template(chat_tokenizer, chat_tokenizer.chat_template.replace("{{ bos_token }}", ""))
    assert rendered(ASKED, bare) == ASKED_IDS


def test_a_bos_written_twice_is_kept_once(chat_tokenizer):
    double = with_template(chat_tokenizer, "<bos> " + chat_tokenizer.chat_template)
    assert rendered(ASKED, double) == ASKED_IDS


def test_the_same_conversation_gives_the_same_ids_in_every_stage(chat_tokenizer):
    prompts, _ = encode_prompts(
        [PromptRow(id="1", prompt=ASKED)], chat_tokenizer, max_prompt_tokens=64, on_overlong="error"
    )
    sft, _ = encode_demonstrations(
        [DemonstrationRow(id="1", prompt=ASKED, response="e f")], chat_tokenizer, **LIMITS, loss_on="answer"
    )
    pairs, _ = encode_preferences(
        [PreferenceRow(id="1", prompt=ASKED, answers=("e f", "g"), labels=(1.0, 0.0))],
        chat_tokenizer,
        **LIMITS,
        as_pairs=False,
    )
    assert prompts.tokens.row(0).tolist() == ASKED_IDS
    assert sft.sequences.tokens.row(0).tolist() == [*ASKED_IDS, 7, 8, 2]
    assert [row.tolist() for row in pairs.sequences.tokens.rows()] == [[*ASKED_IDS, 7, 8, 2], [*ASKED_IDS, 9, 2]]
    assert sft.sequences.prompt_lengths.tolist() == [15]


def test_loss_on_assistant_trains_every_answer_with_its_end(chat_tokenizer):
    row = DemonstrationRow(id="1", prompt=ASKED, response="e f")
    batch, _ = encode_demonstrations([row], chat_tokenizer, **LIMITS, loss_on="assistant")
    trained = batch.sequences.tokens.row(0)[1:][batch.targets.weights.row(0) > 0]
    assert trained.tolist() == [5, 2, 7, 8, 2]
    assert batch.row_counts.tolist() == [5]


def test_the_mask_of_a_cut_conversation_is_cut_with_it(chat_tokenizer):
    row = DemonstrationRow(id="1", prompt=ASKED, response="e f")
    batch, _ = encode_demonstrations(
        [row], chat_tokenizer, max_tokens=10, on_overlong="truncate_left", loss_on="assistant"
    )
    assert batch.sequences.tokens.row(0).tolist() == [1, 5, 2, 14, 6, 2, 15, 7, 8, 2]
    assert batch.targets.weights.row(0).tolist() == [1, 1, 0, 0, 0, 0, 1, 1, 1]


def test_plain_text_has_no_answers_of_its_own(bos_tokenizer):
    assert assistant_mask("a b", bos_tokenizer) == [False, False, False]


def test_an_answer_in_a_chat_ends_as_the_template_ends_a_turn(chat_tokenizer):
    assert end_token(chat_tokenizer, chat=True) == 2
    other = with_template(chat_tokenizer, chat_tokenizer.chat_template.replace("<eos>", "<pad>"))
    assert end_token(other, chat=True) == 0
    assert end_token(other, chat=False) == 2


SPACED = (
    "{% for m in messages %}{% if m['role'] == 'user' %}Q: {{ m['content'] }} A:"
    "{% else %} {{ m['content'] }}{{ eos_token }}{% endif %}{% endfor %}"
)


def spaced_tokenizer(kind):
    """Tokenizers that keep spaces: of bytes, or of pieces with a space of their own before every text."""
    words = Tokenizer(models.BPE())
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if kind == "pieces":
        words.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    texts = ["Q: Hi there. A: The film was superb.", "Q: And? A: The film was vile."]
    words.train_from_iterator(texts * 9, trainers.BpeTrainer(vocab_size=300, special_tokens=["<eos>"]))
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token="<eos>", chat_template=SPACED)


@pytest.mark.parametrize("kind", ["bytes", "pieces"])
def test_an_answer_begins_as_the_template_begins_it(kind):
    """Prompt and answer laid end to end are the ids of the whole conversation, as the template writes it."""
    tokenizer = spaced_tokenizer(kind)
    asked = (Message(role="user", content="Hi there."),)
    whole = render_conversation((*asked, Message(role="assistant", content="The film was vile.")), tokenizer, ask=False)
    (answer,) = answer_ids(["The film was vile."], tokenizer, form=answer_form(tokenizer, chat=True))
    assert rendered(asked, tokenizer) + answer == tokenizer(whole, add_special_tokens=False)["input_ids"]
    assert answer_ids([" The film was vile."], tokenizer, form=answer_form(tokenizer, chat=True)) == [answer]


def test_what_a_template_writes_before_every_answer_is_part_of_the_answer(chat_tokenizer):
    block = "{% if message['role'] == 'assistant' %}j {% endif %}{{ message['content'] }}"
    thinking = with_template(chat_tokenizer, chat_tokenizer.chat_template.replace("{{ message['content'] }}", block))
    # <assistant> j c <eos>, of which the request for an answer writes the first
    assert answer_ids(["c"], thinking, form=answer_form(thinking, chat=True)) == [[12, 5, 2]]
    assert answer_ids(["c"], thinking, form=answer_form(thinking, chat=False)) == [[5, 2]]


def test_a_missing_template_says_how_to_supply_one(bos_tokenizer):
    with pytest.raises(DataError, match=r"chat_template\.jinja"):
        render_conversation(ASKED, bos_tokenizer, ask=True)


def test_a_template_that_loses_a_turn_is_refused(chat_tokenizer):
    deaf = with_template(
        chat_tokenizer,
        "{% for message in messages if message['role'] != 'system' %}{{ message['content'] }}{% endfor %}",
    )
    with pytest.raises(DataError, match="leaves out the system turn"):
        render_conversation(ASKED, deaf, ask=True)


def test_the_row_whose_conversation_does_not_fit_the_template_is_named(chat_tokenizer):
    deaf = with_template(chat_tokenizer, "{% for m in messages if m.role != 'system' %}{{ m.content }}{% endfor %}")
    rows = [PromptRow(id="4", prompt=ASKED[1:]), PromptRow(id="9", prompt=ASKED)]
    with pytest.raises(DataError, match="row 9: the chat template leaves out the system turn"):
        encode_prompts(rows, deaf, max_prompt_tokens=64, on_overlong="error")


def test_a_template_that_refuses_is_quoted(chat_tokenizer):
    strict = with_template(chat_tokenizer, "{{ raise_exception('no system turns here') }}")
    with pytest.raises(DataError, match="the roles system, user, assistant, user: no system turns here"):
        render_conversation(ASKED, strict, ask=True)


def test_a_template_that_rewrites_the_past_cannot_train_every_answer(chat_tokenizer):
    changing = with_template(chat_tokenizer, "{{ messages | length }}" + chat_tokenizer.chat_template)
    with pytest.raises(DataError, match=r"use sft\.loss_on=answer"):
        assistant_mask(ASKED, changing)


def test_an_eos_inside_the_prompt_stays(chat_tokenizer):
    assert rendered(ASKED, chat_tokenizer).count(2) == 4


WORDS = st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=6).map(" ".join)


@given(turns=st.lists(WORDS, min_size=1, max_size=5), response=WORDS)
def test_whatever_the_turns_prompt_and_answer_lie_end_to_end(chat_tokenizer, turns, response):
    if len(turns) % 2 == 0:
        turns = turns[:-1]
    asked = tuple(
        Message(role="user" if turn % 2 == 0 else "assistant", content=text) for turn, text in enumerate(turns)
    )
    row = DemonstrationRow(id="1", prompt=asked, response=response)
    batch, _ = encode_demonstrations([row], chat_tokenizer, **LIMITS, loss_on="assistant")
    ids = batch.sequences.tokens.row(0).tolist()
    whole = render_conversation((*asked, Message(role="assistant", content=response)), chat_tokenizer, ask=False)
    assert ids == chat_tokenizer(whole, add_special_tokens=False)["input_ids"]
    num_words = sum(len(text.split()) for text in [*turns[1::2], response])
    assert batch.row_counts[0] == num_words + len(turns) // 2 + 1
