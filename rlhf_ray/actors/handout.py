"""Which prompts the generators get, in which parts and with which sampling seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlhf_ray.data.completions import take_prompts
from rlhf_ray.data.order import Rows, group_rows, split_by_load, stream_rows
from rlhf_ray.data.prompt_table import PromptTable
from rlhf_ray.generation.seeds import derive_seeds
from rlhf_ray.types import Prompts, SampleRequest

HELD_OUT, PROBED, COMPARED, IMITATED = -1, -2, -3, -4  # in place of a PPO step where sampling seeds are derived


@dataclass(frozen=True, kw_only=True)
class Handout:
    """The prompts of a run. What is handed out depends on the step and the seed alone."""

    prompts: PromptTable
    held_out_prompts: PromptTable
    seed: int
    max_new_tokens: int
    num_parts: int  # generators that share a batch

    def training(self, *, step: int, count: int, num_samples: int) -> list[SampleRequest]:
        """Training prompts of this step."""
        rows = stream_rows(len(self.prompts), seed=self.seed, start=step * count, count=count)
        return self.split(self.prompts.take(rows), step=step, num_samples=num_samples)

    def compared(self, *, count: int, num_samples: int) -> list[SampleRequest]:
        """Training prompts whose answers are compared, with seeds that PPO does not use."""
        num_prompts = len(self.prompts)
        rows = stream_rows(num_prompts, seed=self.seed, start=0, count=min(count, num_prompts))
        return self.split(self.prompts.take(rows), step=COMPARED, num_samples=num_samples)

    def held_out(self, *, count: int, num_samples: int) -> list[SampleRequest]:
        """The first held-out prompts, always with the same sampling seeds: answers of two policies are paired."""
        few = self.held_out_prompts.take(self._held_out_rows(count))
        return self.split(few, step=HELD_OUT, num_samples=num_samples)

    def probe(self, *, count: int) -> SampleRequest:
        """The first held-out prompts as one request, always with the same seeds."""
        rows = self._held_out_rows(count)
        few = self.held_out_prompts.take(rows)
        seeds = derive_seeds(few.ids, seed=self.seed, step=PROBED, num_samples=1)
        return SampleRequest(prompts=few, seeds=seeds, positions=rows)

    def split(self, prompts: Prompts, *, step: int, num_samples: int) -> list[SampleRequest]:
        """One request per generator, of near equal expected load; an answer's seed does not depend on the split."""
        seeds = derive_seeds(prompts.ids, seed=self.seed, step=step, num_samples=num_samples)
        parts = split_by_load(prompts.tokens.lengths, max_new_tokens=self.max_new_tokens, num_parts=self.num_parts)
        return [
            SampleRequest(
                prompts=take_prompts(prompts, rows),
                seeds=seeds[group_rows(rows, group=num_samples)],
                positions=rows,
            )
            for rows in parts
        ]

    def _held_out_rows(self, count: int) -> Rows:
        return np.arange(min(count, len(self.held_out_prompts)), dtype=np.int64)
