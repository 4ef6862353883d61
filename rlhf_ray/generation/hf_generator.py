"""Answers from transformers' own `generate`: slower than vLLM, runs wherever torch runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoModelForCausalLM, GenerationConfig, LogitsProcessor, LogitsProcessorList

from rlhf_ray.data.tokenizer import load_tokenizer
from rlhf_ray.generation.batch import Answer, collect, spread
from rlhf_ray.generation.expected import expected_weights, ids_to_sample, untied_config
from rlhf_ray.generation.settings import HfSettings
from rlhf_ray.types import Bucket, Completions, FinishReason, Prompts, Ragged, Sampling, SyncReceipt, WeightManifest
from rlhf_ray.weight_sync.buckets import torch_dtype
from rlhf_ray.weight_sync.receiver import SyncReceiver


class GumbelMax(LogitsProcessor):  # type: ignore[misc]  # transformers is untyped here
    """argmax_v(log p_v - log e_v) with e_v ~ Exp(1) draws exactly from p = softmax(logits / temperature).

    One generator per row: an answer depends on its own seed only, not on its neighbours. Keeps the log-probs of what
    was drawn, free of noise. Ids from num_ids on are never drawn. At temperature 0 no noise is added, and log-probs are
    those of temperature 1, as in vLLM.
    """

    def __init__(self, seeds: Sequence[int], *, temperature: float, num_ids: int | None) -> None:
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self._temperature = temperature
        self._num_ids = num_ids
        self.drawn_logprobs: list[Tensor] = []  # one [rows] per new token

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Logits in, noisy log-probs out, both [rows, vocab]: the greedy choice that follows is the draw."""
        del input_ids
        if self._num_ids is not None:
            scores[:, self._num_ids :] = -torch.inf
        logprobs = torch.log_softmax(scores.float() / (self._temperature or 1.0), dim=-1)
        noisy = logprobs - self._noise(logprobs.shape[1]).to(logprobs.device) if self._temperature else logprobs
        drawn = noisy.argmax(dim=-1, keepdim=True)
        self.drawn_logprobs.append(logprobs.gather(1, drawn).squeeze(1))
        return noisy

    def _noise(self, vocab: int) -> Tensor:
        rows = [torch.empty(vocab).exponential_(generator=generator) for generator in self._generators]
        return torch.stack(rows).log()


class HfGenerator:
    """Generator protocol over a transformers model. The weights it starts with are random and never used."""

    def __init__(self, model_path: Path, *, settings: HfSettings) -> None:
        self._settings = settings
        self._tokenizer = load_tokenizer(model_path)
        self._model = AutoModelForCausalLM.from_config(
            untied_config(model_path), dtype=torch_dtype(settings.dtype), trust_remote_code=False
        )
        self._model.to(settings.device).eval()
        # generate() fills whatever a call leaves open from here: without this a model's own sampling defaults leak in
        self._model.generation_config = GenerationConfig()
        self._tensors: dict[str, Tensor] = self._model.state_dict()
        self._num_ids = ids_to_sample(model_path)
        self._sync = SyncReceiver(expected_weights(model_path, dtype=settings.dtype))

    def generate(self, prompts: Prompts, *, sampling: Sampling, seeds: NDArray[np.uint64], version: int) -> Completions:
        """See Generator."""
        self._sync.require(version)
        spread_prompts = spread(prompts, sampling=sampling, seeds=seeds, max_model_len=self._settings.max_model_len)
        answers: list[Answer] = []
        for start in range(0, len(seeds), self._settings.max_rows):
            rows = np.arange(start, min(start + self._settings.max_rows, len(seeds)))
            answers += self._answer(
                spread_prompts.tokens.take(rows), sampling=sampling, seeds=seeds[rows].tolist(), version=version
            )
        return collect(spread_prompts, answers, tokenizer=self._tokenizer)

    @torch.inference_mode()
    def _answer(self, prompts: Ragged, *, sampling: Sampling, seeds: Sequence[int], version: int) -> list[Answer]:
        input_ids, attention_mask = left_pad(prompts)
        sampler = GumbelMax(seeds, temperature=sampling.temperature, num_ids=self._num_ids)
        sequences = self._model.generate(
            input_ids.to(self._settings.device),
            attention_mask=attention_mask.to(self._settings.device),
            logits_processor=LogitsProcessorList([sampler]),
            generation_config=GenerationConfig(
                do_sample=False,
                max_new_tokens=sampling.max_new_tokens,
                eos_token_id=list(sampling.eos_token_ids) or None,
                pad_token_id=0,  # fills finished rows, which are cut below
            ),
        )
        token_ids = sequences[:, input_ids.shape[1] :].cpu().numpy()
        logprobs = torch.stack(sampler.drawn_logprobs, dim=1).cpu().numpy()
        ended = np.isin(token_ids, sampling.eos_token_ids)
        lengths = np.where(ended.any(axis=1), ended.argmax(axis=1) + 1, token_ids.shape[1])
        return [
            Answer(
                token_ids=token_ids[row, :length].tolist(),
                logprobs=logprobs[row, :length].tolist(),
                finish_reason=FinishReason.STOP if ended[row].any() else FinishReason.LENGTH,
                versions=(version, version),
            )
            for row, length in enumerate(lengths)
        ]

    def begin_sync(self, manifest: WeightManifest) -> None:
        """See Generator."""
        self._sync.begin(manifest)

    @torch.no_grad()
    def receive(self, bucket: Bucket) -> None:
        """See Generator."""
        for name, tensor in self._sync.accept(bucket):
            self._tensors[name].copy_(tensor)

    def finish_sync(self) -> SyncReceipt:
        """See Generator."""
        return self._sync.finish()


def left_pad(rows: Ragged) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask (1 = real token), both [rows, longest], padded on the left."""
    width = int(rows.lengths.max())
    token_ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros(len(rows), width, dtype=torch.long)
    for row, tokens in enumerate(rows.rows()):
        token_ids[row, width - len(tokens) :] = torch.from_numpy(tokens.astype(np.int64))
        mask[row, width - len(tokens) :] = 1
    return token_ids, mask
