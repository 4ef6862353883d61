from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import torch

from rlhf_ray.generation.seeds import derive_seeds


def by_hand(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") % 2**63


def test_a_seed_hashes_seed_step_sample_and_prompt():
    seeds = derive_seeds(["a", "b/c"], seed=1, step=20, num_samples=2)
    assert seeds.dtype == np.uint64
    assert seeds.tolist() == [by_hand(text) for text in ("1/20/0/a", "1/20/1/a", "1/20/0/b/c", "1/20/1/b/c")]


def test_seeds_depend_on_every_part_and_not_on_the_batch():
    base = derive_seeds(["a", "b"], seed=1, step=2, num_samples=2)
    assert derive_seeds(["b", "a"], seed=1, step=2, num_samples=2).tolist() == [*base[2:], *base[:2]]
    assert derive_seeds(["a"], seed=1, step=2, num_samples=1).tolist() == base[:1].tolist()
    others = [
        *derive_seeds(["a", "b"], seed=2, step=2, num_samples=2),
        *derive_seeds(["a", "b"], seed=1, step=3, num_samples=2),
        *derive_seeds(["c"], seed=1, step=2, num_samples=2),
    ]
    assert len({*base.tolist(), *(int(seed) for seed in others)}) == 14


def test_a_prompt_that_comes_twice_counts_its_samples_on():
    twice = derive_seeds(["a", "b", "a"], seed=0, step=0, num_samples=2)
    assert twice[[0, 1, 4, 5]].tolist() == derive_seeds(["a"], seed=0, step=0, num_samples=4).tolist()
    assert len(set(twice.tolist())) == 6


def test_every_seed_fits_what_torch_and_vllm_take():
    seeds = derive_seeds([str(i) for i in range(500)], seed=-(2**40), step=10**9, num_samples=2)
    assert seeds.max() < 2**63
    assert seeds.max() > 2**62
    torch.Generator().manual_seed(int(seeds.max()))


def test_seeds_are_the_same_in_another_process_with_another_hash_seed():
    code = (
        "from rlhf_ray.generation.seeds import derive_seeds;"
        "print(derive_seeds(['ä', 'b'], seed=5, step=6, num_samples=1).tolist())"
    )
    environment = os.environ | {"PYTHONHASHSEED": "123"}
    printed = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == str(derive_seeds(["ä", "b"], seed=5, step=6, num_samples=1).tolist())
