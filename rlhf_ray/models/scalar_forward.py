"""What a scalar model says about rows: a value before each response token and a score at each row's last token."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from rlhf_ray.models.batching import MicroBatch, RowCollector, micro_batches, response_offsets
from rlhf_ray.models.scalar_model import ScalarModel
from rlhf_ray.types import Ragged, Sequences, ValueOutputs


def scalar_micro_batch(model: ScalarModel, micro_batch: MicroBatch) -> ValueOutputs[Tensor]:
    """values [n], scores [b]; gradients flow where they are enabled."""
    hidden = model.hidden_states(micro_batch.input_ids).flatten(0, 1)
    cells = torch.cat([micro_batch.predicting_cells, micro_batch.last_cells])
    outputs = model.score(hidden.index_select(0, cells))
    num_values = len(micro_batch.predicting_cells)
    return ValueOutputs(values=outputs[:num_values], scores=outputs[num_values:])


@torch.no_grad()
def scalar_outputs(model: ScalarModel, sequences: Sequences, *, max_tokens: int) -> ValueOutputs[Ragged]:
    """All rows, in order, at most `max_tokens` padded tokens at a time."""
    num_rows = len(sequences.tokens)
    values, scores = RowCollector(response_offsets(sequences)), RowCollector(np.arange(num_rows + 1))
    for micro_batch in micro_batches(
        sequences, rows=np.arange(num_rows), rows_per_group=1, max_tokens=max_tokens, device=model.device
    ):
        outputs = scalar_micro_batch(model, micro_batch)
        values.add(outputs.values, rows=micro_batch.rows)
        scores.add(outputs.scores, rows=micro_batch.rows)
    return ValueOutputs(values=values.ragged(), scores=scores.ragged())
