"""What a user should know of a model directory once, before it is trained."""

from __future__ import annotations

from collections.abc import Iterator

from rlhf_ray.models.directory import GENERATION_FILE, ModelDirectory


def model_notes(directory: ModelDirectory) -> Iterator[str]:
    """Ignored sampling defaults, the choice of padding, rows of the embedding that no token has."""
    path, pad = directory.path, directory.pad_token_id
    if directory.sampling_defaults:
        ignored = ", ".join(f"{key}={value}" for key, value in directory.sampling_defaults.items())
        yield f"{path / GENERATION_FILE}: ignored {ignored}; sampling follows algorithm.* alone"
    if pad is None:
        yield f"{path}: no pad token; rows are filled with id 0, which nothing reads: masks come from lengths"
    elif pad in directory.eos_token_ids:
        yield f"{path}: pads with its end token {pad}; masks come from lengths, so it is trained where it is real"
    if directory.ids_to_sample is not None:
        yield (
            f"{path}: {directory.vocab_size} embedding rows, {directory.num_token_ids} token ids; the others are never "
            "sampled and get probability 0"
        )
