import numpy as np
import pytest

from rlhf_ray.data.encode import encode_demonstrations, encode_preferences, encode_prompts
from rlhf_ray.data.rows import DemonstrationRow, PreferenceRow, PromptRow
from rlhf_ray.errors import DataError
from rlhf_ray.types import Completions, FinishReason, Prompts, Ragged, join


def prompts_of(*texts):
    return [PromptRow(id=str(line), prompt=text) for line, text in enumerate(texts, start=1)]


def pair(row_id, prompt, chosen, rejected):
    return PreferenceRow(id=row_id, prompt=prompt, answers=(chosen, rejected), labels=(1.0, 0.0))


def letters(count):
    return " ".join("abcdefghij"[i % 10] for i in range(count))


def as_lists(ragged):
    return [row.tolist() for row in ragged.rows()]


def test_prompts_keep_ids_texts_and_get_one_bos(bos_tokenizer):
    rows = prompts_of("a b", "<bos> c")
    prompts, report = encode_prompts(rows, bos_tokenizer, max_prompt_tokens=8, on_overlong="error")
    assert prompts.ids == ("1", "2")
    assert prompts.texts == ("a b", "<bos> c")
    assert as_lists(prompts.tokens) == [[1, 3, 4], [1, 5]]
    assert prompts.tokens.values.dtype == np.int32
    assert report.summary == "kept 2, dropped 0, cut 0 for their length"


def test_built_in_prompts_get_no_special_tokens(corpus, tokenizer):
    prompts, _ = encode_prompts(corpus.prompts, tokenizer, max_prompt_tokens=16, on_overlong="error")
    assert tokenizer.decode(prompts.tokens.row(0)) == corpus.prompts[0].prompt
    assert not set(prompts.tokens.values.tolist()) & {tokenizer.pad_token_id, tokenizer.eos_token_id}


def test_drop_keeps_prompts_up_to_the_limit_and_counts_the_others(tokenizer):
    rows = prompts_of(*(" ".join(["The"] * n) for n in (15, 16, 17, 400)))
    prompts, report = encode_prompts(rows, tokenizer, max_prompt_tokens=16, on_overlong="drop")
    assert prompts.ids == ("1", "2")
    assert prompts.tokens.lengths.tolist() == [15, 16]
    assert (report.kept, report.dropped, report.cut) == (2, 2, 0)


def test_truncation_keeps_the_bos_and_the_last_ids_and_counts_the_row(bos_tokenizer):
    rows = prompts_of("a b", "a b c d e f")
    prompts, report = encode_prompts(rows, bos_tokenizer, max_prompt_tokens=4, on_overlong="truncate_left")
    assert as_lists(prompts.tokens) == [[1, 3, 4], [1, 6, 7, 8]]
    assert prompts.texts == ("a b", "d e f")
    assert (report.kept, report.dropped, report.cut) == (2, 0, 1)


def test_truncation_without_bos_keeps_the_last_ids(tokenizer):
    whole = tokenizer.encode("The film Anna chose was superb")
    prompts, _ = encode_prompts(
        prompts_of("The film Anna chose was superb"), tokenizer, max_prompt_tokens=3, on_overlong="truncate_left"
    )
    assert as_lists(prompts.tokens) == [whole[-3:]]


def test_error_names_the_rows_and_the_limit(bos_tokenizer):
    rows = prompts_of(letters(15), letters(16), letters(400))
    with pytest.raises(
        DataError, match="rows 2, 3 are longer than max_prompt_tokens=16, the longest of them 401 tokens; accepted: "
    ):
        encode_prompts(rows, bos_tokenizer, max_prompt_tokens=16, on_overlong="error")


@pytest.mark.parametrize("text", ["", "   ", "<bos>", "<bos> <eos>"])
def test_prompts_of_special_tokens_alone_are_refused(bos_tokenizer, text):
    with pytest.raises(DataError, match="empty prompts in rows 2"):
        encode_prompts(prompts_of("a", text), bos_tokenizer, max_prompt_tokens=4, on_overlong="error")


def test_demonstrations_train_the_response_and_its_end_token(bos_tokenizer):
    rows = [DemonstrationRow(id="1", prompt="a b", response="c d"), DemonstrationRow(id="2", prompt="e", response="f")]
    batch, _ = encode_demonstrations(rows, bos_tokenizer, max_tokens=16, on_overlong="error", loss_on="answer")
    assert as_lists(batch.sequences.tokens) == [[1, 3, 4, 5, 6, 2], [1, 7, 8, 2]]
    assert batch.sequences.prompt_lengths.tolist() == [3, 2]
    assert as_lists(batch.targets.weights) == [[1, 1, 1], [1, 1]]
    assert batch.row_counts.tolist() == [3, 2]
    assert batch.rows_per_group == 1


def test_loss_on_all_trains_all_but_the_first_token(bos_tokenizer):
    rows = [DemonstrationRow(id="1", prompt="a b", response="c d")]
    batch, _ = encode_demonstrations(rows, bos_tokenizer, max_tokens=16, on_overlong="error", loss_on="all")
    assert batch.sequences.prompt_lengths.tolist() == [1]
    assert as_lists(batch.targets.weights) == [[1, 1, 1, 1, 1]]
    assert batch.row_counts.tolist() == [5]


def test_a_response_that_ends_in_the_end_token_gets_no_second_one(bos_tokenizer):
    rows = [DemonstrationRow(id="1", prompt="a", response="b <eos>")]
    batch, _ = encode_demonstrations(rows, bos_tokenizer, max_tokens=16, on_overlong="error", loss_on="answer")
    assert as_lists(batch.sequences.tokens) == [[1, 3, 4, 2]]


def test_long_demonstrations_lose_the_left_of_the_prompt_never_the_response(bos_tokenizer):
    rows = [DemonstrationRow(id="1", prompt="a b c d", response="e f")]
    batch, report = encode_demonstrations(
        rows, bos_tokenizer, max_tokens=5, on_overlong="truncate_left", loss_on="answer"
    )
    assert as_lists(batch.sequences.tokens) == [[1, 6, 7, 8, 2]]
    assert batch.sequences.prompt_lengths.tolist() == [2]
    assert (report.dropped, report.cut) == (0, 1)


def test_a_response_that_leaves_its_prompt_no_room_is_refused(bos_tokenizer):
    rows = [DemonstrationRow(id="7", prompt="a", response="b c d")]
    with pytest.raises(DataError, match="answers of rows 7 alone fill max_prompt_tokens \\+ max_answer_tokens = 4"):
        encode_demonstrations(rows, bos_tokenizer, max_tokens=4, on_overlong="truncate_left", loss_on="answer")


def test_written_preferences_become_groups_of_two_with_the_chosen_one_first(bos_tokenizer):
    rows = [pair("1", "a", "b c", "d")]
    batch, _ = encode_preferences(rows, bos_tokenizer, max_tokens=16, on_overlong="error", as_pairs=False)
    assert as_lists(batch.sequences.tokens) == [[1, 3, 4, 5, 2], [1, 3, 6, 2]]
    assert batch.sequences.prompt_lengths.tolist() == [2, 2]
    assert as_lists(batch.targets.labels) == [[1], [0]]
    assert batch.row_counts.tolist() == [1, 0]
    assert batch.rows_per_group == 2


def test_a_pair_with_one_long_answer_is_dropped_whole(bos_tokenizer):
    rows = [
        pair("1", "a", "b", "c d e f"),
        pair("2", "a", "b", "c"),
    ]
    batch, report = encode_preferences(rows, bos_tokenizer, max_tokens=5, on_overlong="drop", as_pairs=False)
    assert as_lists(batch.sequences.tokens) == [[1, 3, 4, 2], [1, 3, 5, 2]]
    assert (report.kept, report.dropped) == (1, 1)


def test_join_lays_sampled_answers_behind_their_prompts_and_adds_no_end_token():
    completions = Completions(
        prompts=Prompts(ids=("1", "2"), texts=("a b", "c"), tokens=Ragged.from_rows([[3, 4], [5]], np.int32)),
        tokens=Ragged.from_rows([[6, 2], [7, 8, 9]], np.int32),
        texts=("d", "e f g"),
        logprobs=Ragged.from_rows([[0.0] * 2, [0.0] * 3], np.float32),
        finish_reasons=(FinishReason.STOP, FinishReason.LENGTH),
        versions=np.zeros((2, 2), dtype=np.int64),
    )
    sequences = join(completions.prompts.tokens, completions.tokens)
    assert as_lists(sequences.tokens) == [[3, 4, 6, 2], [5, 7, 8, 9]]
    assert sequences.prompt_lengths.tolist() == [2, 1]


def test_no_rows_encode_to_an_empty_batch(bos_tokenizer):
    batch, report = encode_preferences([], bos_tokenizer, max_tokens=5, on_overlong="error", as_pairs=False)
    assert (len(batch.sequences.tokens), len(batch.row_counts), report.kept) == (0, 0, 0)
