"""What the generators get does not depend on how many they are."""

import dataclasses

import numpy as np

from rlhf_ray.actors.handout import Handout
from rlhf_ray.data.prompt_table import prompt_table
from rlhf_ray.types import Prompts, Ragged


def prompts(name, lengths):
    made = Prompts(
        ids=tuple(f"{name}{i}" for i in range(len(lengths))),
        texts=tuple("x" * length for length in lengths),
        tokens=Ragged.from_rows([list(range(length)) for length in lengths], np.int32),
    )
    return prompt_table([made])


HANDOUT = Handout(
    prompts=prompts("t", [3, 1, 4, 1, 5, 9, 2, 6]),
    held_out_prompts=prompts("h", [2, 7, 1]),
    seed=1,
    max_new_tokens=4,
    num_parts=1,
)


def seeds_by_prompt(requests, num_samples):
    return {
        row_id: tuple(request.seeds[i * num_samples : (i + 1) * num_samples])
        for request in requests
        for i, row_id in enumerate(request.prompts.ids)
    }


def test_seeds_of_a_prompt_are_the_same_with_one_generator_and_with_three():
    one = HANDOUT.training(step=2, count=6, num_samples=2)
    three = dataclasses.replace(HANDOUT, num_parts=3).training(step=2, count=6, num_samples=2)
    assert (len(one), len(three)) == (1, 3)
    assert len(seeds_by_prompt(one, 2)) == 6
    assert seeds_by_prompt(one, 2) == seeds_by_prompt(three, 2)
    assert sorted(row for part in three for row in part.positions) == list(range(6))


def test_every_step_has_other_prompts_until_all_were_asked_and_other_seeds():
    first, second = (HANDOUT.training(step=step, count=4, num_samples=1)[0] for step in (0, 1))
    assert {*first.prompts.ids, *second.prompts.ids} == {f"t{i}" for i in range(8)}
    assert not {*first.seeds} & {*second.seeds}


def test_held_out_prompts_are_the_first_ones_with_seeds_of_their_own_purpose():
    (asked,) = HANDOUT.held_out(count=2, num_samples=1)
    probe = HANDOUT.probe(count=2)
    assert asked.prompts.ids == probe.prompts.ids == ("h0", "h1")
    assert np.array_equal(asked.seeds, HANDOUT.held_out(count=2, num_samples=1)[0].seeds)
    assert not {*asked.seeds} & {*probe.seeds}


def test_no_more_prompts_are_handed_out_than_there_are():
    assert HANDOUT.held_out(count=99, num_samples=1)[0].prompts.ids == ("h0", "h1", "h2")
    assert sorted(HANDOUT.compared(count=99, num_samples=2)[0].prompts.ids) == [f"t{i}" for i in range(8)]
