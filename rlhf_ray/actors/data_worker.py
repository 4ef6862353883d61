"""The worker that holds the rows: hands out prompts and batches, and does the whole-batch steps where the data is.

It keeps the driver thin: batches go from here to the models and back, never through the driver.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from rlhf_ray.actors.base_model import make_smollm2, make_tiny, open_tokenizer
from rlhf_ray.actors.handout import IMITATED, Handout
from rlhf_ray.actors.judge import Judge
from rlhf_ray.actors.worker import Worker, phase
from rlhf_ray.algorithms.experience import ExperienceSettings, make_experience
from rlhf_ray.data.completions import concat_completions
from rlhf_ray.data.file_rows import FileRows
from rlhf_ray.data.files import DataFiles, Lengths
from rlhf_ray.data.imitation import imitated_texts, imitation_prompts, imitation_rows
from rlhf_ray.data.on_disk import on_disk
from rlhf_ray.data.order import Rows, group_rows, original_order, split_rows
from rlhf_ray.data.preference_groups import group_batch
from rlhf_ray.data.render import shown_prompt
from rlhf_ray.data.retokenize import Retokenizer
from rlhf_ray.data.reviews import build_corpus
from rlhf_ray.data.row_sets import RowSet, RowSetSize, size_of, take_rows
from rlhf_ray.data.rows import CorpusSizes, PromptRow
from rlhf_ray.data.sentences import build_sentences
from rlhf_ray.data.tables import (
    RowFates,
    Tables,
    corpus_tables,
    file_tables,
    file_texts,
)
from rlhf_ray.data.tokenizer import load_tokenizer
from rlhf_ray.errors import DataError
from rlhf_ray.models.tiny import TinyLlama
from rlhf_ray.reward.built_in import gold_scorer
from rlhf_ray.tracking.evaluation import Judged
from rlhf_ray.tracking.preference_stats import preference_stats
from rlhf_ray.tracking.rollout_files import prune_rollouts
from rlhf_ray.tracking.rollouts import write_rollouts
from rlhf_ray.tracking.rouge import rouge_stats
from rlhf_ray.tracking.sink import Sheet
from rlhf_ray.tracking.specification import data_specification, tokenization
from rlhf_ray.tracking.summary import ShownAnswer
from rlhf_ray.types import (
    Completions,
    Experience,
    Last,
    Max,
    Mean,
    PolicyTargets,
    Ragged,
    Rewards,
    Rollouts,
    SampleRequest,
    Sequences,
    Stats,
    TrainBatch,
    ValueOutputs,
    ValueTargets,
    join,
)

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, kw_only=True)
class RowCounts:
    """What data there are, as the driver knows it."""

    prompts: int
    held_out_prompts: int
    has_demonstrations: bool
    has_preferences: bool
    fingerprint: str  # a digest over all rows
    fates: RowFates


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """How this worker hands out and records rows."""

    seed: int
    lengths: Lengths
    num_parts: int  # generators that share a batch
    gold: str | None  # the built-in scorer that labels and judges
    rollouts_dir: Path
    keep_rollouts: int
    threads: int


class DataWorker(Worker):
    """Rows, and the steps that need a whole batch."""

    def __init__(self, settings: DataSettings) -> None:
        super().__init__()
        torch.set_num_threads(settings.threads)
        self._settings = settings
        self._gold = gold_scorer(settings.gold)
        self._tables: Tables | None = None
        self._row_sets: dict[RowSet, TrainBatch[Any]] = {}
        self._tokenizer: PreTrainedTokenizerBase | None = None
        self._model_notes: tuple[str, ...] = ()
        self._prompt_rows: Iterable[PromptRow] = ()  # read anew where they are needed again
        self._retokenizer: Retokenizer | None = None
        self._judge = Judge()

    @phase("start")
    def make_smollm2(self, model_dir: Path) -> None:
        """SmolLM2 as a model directory, unless it is there."""
        make_smollm2(model_dir)

    @phase("start")
    def open_built_in(self, name: str, sizes: CorpusSizes, model_dir: Path, new_model: TinyLlama | None) -> RowCounts:
        """A built-in corpus; with `new_model`, first a tokenizer made from it and a random model in model_dir."""
        build = build_sentences if name == "sentences" else build_corpus
        corpus = build(sizes, seed=self._settings.seed)
        texts = (shown_prompt(row.prompt) + row.response for row in corpus.demonstrations)
        make_tiny(model_dir, new_model, texts, seed=self._settings.seed)
        self._prompt_rows = (*corpus.prompts, *corpus.held_out_prompts)
        tokenizer, self._model_notes = open_tokenizer(model_dir, chat=isinstance(corpus.prompts[0].prompt, tuple))
        return self._take(corpus_tables(corpus, tokenizer, lengths=self._settings.lengths), tokenizer)

    @phase("start")
    def open_files(self, files: DataFiles, model_dir: Path, new_model: TinyLlama | None) -> RowCounts:
        """The user's own files; with `new_model`, first a tokenizer made from them and a random model in model_dir."""
        make_tiny(model_dir, new_model, file_texts(files), seed=self._settings.seed)
        tokenizer, self._model_notes = open_tokenizer(model_dir, chat=files.chat)
        self._prompt_rows = FileRows(files, tokenizer, model_dir=model_dir).prompts()
        tables = file_tables(files, tokenizer, model_dir=model_dir, lengths=self._settings.lengths)
        return self._take(tables, tokenizer)

    @phase("start")
    def open_reward_tokenizer(self, reward_dir: Path) -> None:
        """From now on `retokenize` speaks this directory's tokenizer."""
        self._retokenizer = Retokenizer(self._prompt_rows, load_tokenizer(reward_dir))

    @phase("score")
    def retokenize(self, completions: Completions) -> Completions:
        """For a reward model with another tokenizer than the policy's."""
        assert self._retokenizer is not None, "open the reward model's tokenizer first"
        return self._retokenizer(completions)

    def notes(self) -> tuple[str, ...]:
        """What reading and encoding dropped, and what the model brings."""
        return (*self._model_notes, *self._opened().notes)

    def row_set_size(self, name: RowSet) -> RowSetSize:
        """How many rows there are under this name."""
        return size_of(self._rows(name))

    @phase("rows")
    def take_rows(self, name: RowSet, rows: Rows) -> TrainBatch[Any]:
        """These rows alone."""
        return take_rows(self._rows(name), rows)

    @phase("prompts")
    def requests(self, step: int, count: int, num_samples: int) -> list[SampleRequest]:
        """Training prompts of this step, one request per generator."""
        return self._handout().training(step=step, count=count, num_samples=num_samples)

    @phase("prompts")
    def preference_requests(self, count: int, num_samples: int) -> list[SampleRequest]:
        """Training prompts whose answers are compared."""
        return self._handout().compared(count=count, num_samples=num_samples)

    @phase("prompts")
    def held_out_requests(self, count: int, num_samples: int) -> list[SampleRequest]:
        """The first held-out prompts."""
        return self._handout().held_out(count=count, num_samples=num_samples)

    def specification(self) -> dict[str, Any]:
        """Rows, what was left out, lengths in tokens, tokenization."""
        assert self._tokenizer is not None, "open the data first"
        return data_specification(self._opened()) | {"tokenization": tokenization(self._tokenizer)}

    @phase("prompts")
    def imitation_requests(self, count: int) -> list[SampleRequest]:
        """The prompts of the first held-out demonstrations."""
        sequences, tokenizer, rows = self._imitated(count)
        prompts = imitation_prompts(sequences, tokenizer, rows=rows)
        return self._handout().split(prompts, step=IMITATED, num_samples=1)

    @phase("evaluate")
    def rouge(self, completions: Completions) -> Stats:
        """How near the answers to `imitation_requests` come to the demonstrations."""
        sequences, tokenizer, rows = self._imitated(len(completions.texts))
        return rouge_stats(completions.texts, imitated_texts(sequences, tokenizer, rows=rows))

    @phase("prompts")
    def probe_request(self, count: int) -> SampleRequest:
        """The first held-out prompts as one request."""
        return self._handout().probe(count=count)

    @phase("prompts")
    def collect(self, *requests_then_answers: SampleRequest | Completions) -> Completions:
        """The generators' answers in the batch's order; takes all requests, then all answers."""
        half = len(requests_then_answers) // 2
        requests = [item for item in requests_then_answers[:half] if isinstance(item, SampleRequest)]
        answers = [item for item in requests_then_answers[half:] if isinstance(item, Completions)]
        num_samples = sum(len(part.texts) for part in answers) // sum(len(part.prompts.ids) for part in requests)
        parts = [group_rows(request.positions, group=num_samples) for request in requests]
        return concat_completions(answers, order=original_order(parts))

    @phase("score")
    def label(self, completions: Completions, num_samples: int, held_out_share: float) -> None:
        """Groups of answers labelled by gold, split by prompt, become the preferences of this run."""
        assert self._gold is not None, "labels need a gold scorer"
        sequences = join(completions.prompts.tokens, completions.tokens)
        batch = group_batch(sequences, self._gold.score(completions).scores, group=num_samples)
        num_groups = len(completions.texts) // num_samples
        parts = split_rows(num_groups, share=held_out_share, seed=self._settings.seed)
        for name, groups in zip((RowSet.PREFERENCES, RowSet.HELD_OUT_PREFERENCES), parts, strict=True):
            self._row_sets[name] = on_disk(take_rows(batch, group_rows(groups, group=num_samples)))

    @phase("evaluate")
    def preference_stats(self, scores: NDArray[np.float64], clear_gap: float) -> Stats:
        """How well these scores order the answers of the held-out preferences."""
        held_out = self._rows(RowSet.HELD_OUT_PREFERENCES)
        labels = held_out.targets.labels.values.astype(np.float64)
        return preference_stats(labels, scores, group=held_out.rows_per_group, clear_gap=clear_gap)

    @phase("estimate")
    def assemble(
        self,
        completions: Completions,
        logprobs: Ragged,
        ref_logprobs: Ragged | None,
        values: ValueOutputs[Ragged],
        rewards: Rewards,
    ) -> Rollouts:
        """Everything known about the answers; without a reference the policy is its own."""
        return Rollouts(
            completions=completions,
            rewards=rewards,
            logprobs=logprobs,
            ref_logprobs=logprobs if ref_logprobs is None else ref_logprobs,
            values=values.values,
            end_values=values.scores.values.astype(np.float64),
        )

    @phase("estimate")
    def estimate(
        self, step: int, rollouts: Rollouts, settings: ExperienceSettings
    ) -> tuple[TrainBatch[PolicyTargets[Ragged]], TrainBatch[ValueTargets[Ragged]], Stats]:
        """See algorithms/experience.py. The version lag is how many updates older than `step` the answers are."""
        experience: Experience = make_experience(rollouts, settings=settings)
        lags = step - rollouts.completions.versions[:, 0]
        stats = experience.stats | {
            "rollout/policy_version_lag": Mean(float(lags.sum()), len(lags)),
            "rollout/policy_version_lag_max": Max(float(lags.max(initial=0))),
        }
        return experience.policy, experience.critic, stats

    @phase("record")
    def record(self, step: int, rollouts: Rollouts, policy: TrainBatch[PolicyTargets[Ragged]]) -> None:
        """Write the iteration's rollouts; forget the oldest beyond the limit."""
        path = self._settings.rollouts_dir / f"step-{step:06d}.parquet"
        write_rollouts(path, step=step, rollouts=rollouts, advantages=policy.targets.advantages)
        prune_rollouts(self._settings.rollouts_dir, keep=self._settings.keep_rollouts)

    def critic_gap(self, rollouts: Rollouts) -> Stats:
        """Largest difference of critic and reward model at the last token of an answer."""
        return {"check/critic_gap": Last(float(np.abs(rollouts.end_values - rollouts.rewards.scores).max()))}

    @phase("evaluate")
    def judge(
        self,
        completions: Completions,
        num_samples: int,
        logprobs: Ragged,
        ref_logprobs: Ragged | None,
        proxy: Rewards,
        is_baseline: bool,  # noqa: FBT001  workers are called with positional arguments
    ) -> Stats:
        """Stats of held-out answers against the baseline, which is the policy PPO starts from."""
        judged = Judged(
            completions=completions,
            num_samples=num_samples,
            proxy=proxy,
            gold=None if self._gold is None else self._gold.score(completions),
            logprobs=logprobs,
            ref_logprobs=logprobs if ref_logprobs is None else ref_logprobs,
        )
        return self._judge.judge(judged, is_baseline=is_baseline)

    def shown(self, count: int) -> list[ShownAnswer]:
        """The first held-out prompts with the answers before and now; none where nothing was evaluated."""
        return self._judge.shown(count)

    def samples(self, count: int) -> Sheet:
        """The first held-out prompts with the answers before and now and their scores, for a table."""
        return self._judge.samples(count)

    def _imitated(self, count: int) -> tuple[Sequences, PreTrainedTokenizerBase, list[int]]:
        assert self._tokenizer is not None, "open the data first"
        sequences = self._rows(RowSet.HELD_OUT_DEMONSTRATIONS).sequences
        limit = self._settings.lengths.max_prompt_tokens
        return sequences, self._tokenizer, imitation_rows(sequences, count=count, max_prompt_tokens=limit)

    def _take(self, tables: Tables, tokenizer: PreTrainedTokenizerBase) -> RowCounts:
        self._tables, self._tokenizer = tables, tokenizer
        self._row_sets = dict(tables.row_sets)
        return RowCounts(
            prompts=len(tables.prompts),
            held_out_prompts=len(tables.held_out_prompts),
            has_demonstrations=RowSet.DEMONSTRATIONS in tables.row_sets,
            has_preferences=RowSet.PREFERENCES in tables.row_sets,
            fingerprint=tables.fingerprint,
            fates=tables.fates,
        )

    def _rows(self, name: RowSet) -> TrainBatch[Any]:
        found = self._row_sets.get(name)
        if found is None:
            raise DataError(f"this run has no {name}; set data.{name.removeprefix('held_out_')}")
        return found

    def _opened(self) -> Tables:
        assert self._tables is not None, "open the data first"
        return self._tables

    def _handout(self) -> Handout:
        tables, settings = self._opened(), self._settings
        return Handout(
            prompts=tables.prompts,
            held_out_prompts=tables.held_out_prompts,
            seed=settings.seed,
            max_new_tokens=settings.lengths.max_new_tokens,
            num_parts=settings.num_parts,
        )
