"""Peak memory of log-probs and entropy, forward and backward, with and without chunks.

    python benchmarks/logprob_memory.py

Prints a JSON object and writes it to benchmarks/baselines/logprob_memory.json: MiB of tensors alive at once, by torch's
own count. The logits of all tokens at once are NUM_TOKENS x VOCABULARY x 4 bytes; the head's gradient, which is
there whatever the chunks, VOCABULARY x WIDTH x 4 bytes.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from rlhf_ray.algorithms.logprobs import token_logprobs

BASELINE = Path(__file__).parent / "baselines" / "logprob_memory.json"
NUM_TOKENS, VOCABULARY, WIDTH = 2 * 512, 50_000, 256
CHUNKS = (64, 256, NUM_TOKENS)  # the last is everything at once
MIB = 1 << 20


def main() -> None:
    """Measure every chunk size."""
    torch.set_num_threads(1)
    result = {
        "all_logits_mib": round(NUM_TOKENS * VOCABULARY * 4 / MIB, 1),
        "head_gradient_mib": round(VOCABULARY * WIDTH * 4 / MIB, 1),
        "peak_mib_by_chunk_tokens": {str(chunk): round(peak_bytes(chunk) / MIB, 1) for chunk in CHUNKS},
    }
    BASELINE.write_text(json.dumps(result, indent=2) + "\n")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


def peak_bytes(chunk_tokens: int) -> int:
    """The largest sum of what was taken and not yet given back."""
    head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)
    hidden = torch.randn(NUM_TOKENS, WIDTH, requires_grad=True)
    labels = torch.randint(VOCABULARY, (NUM_TOKENS,))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as measured:
        logprobs, entropy = token_logprobs(hidden, labels, project=head, temperature=0.7, chunk_tokens=chunk_tokens)
        (logprobs.sum() + 0.01 * entropy.sum()).backward()
    taken = peak = 0
    for event in measured.profiler.kineto_results.events():
        if event.name() == "[memory]":
            taken += event.nbytes()
            peak = max(peak, taken)
    return peak


if __name__ == "__main__":
    main()
