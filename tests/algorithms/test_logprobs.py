from typing import Any

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from rlhf_ray.algorithms.logprobs import logprobs_and_entropy, token_logprobs

NUM_TOKENS, WIDTH, VOCAB = 11, 5, 13


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(NUM_TOKENS, WIDTH, generator=generator, dtype=torch.float64)
    head = torch.randn(VOCAB, WIDTH, generator=generator, dtype=torch.float64)
    labels = torch.randint(VOCAB, (NUM_TOKENS,), generator=generator)
    return hidden.requires_grad_(), head.requires_grad_(), labels


@pytest.mark.parametrize(("temperature", "expected"), [(1.0, -0.407606), (0.5, -0.142932)])
def test_golden_logits_at_two_temperatures(temperature: float, expected: float) -> None:
    logprob, _ = logprobs_and_entropy(torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0]), temperature=temperature)
    assert logprob.item() == pytest.approx(expected, abs=1e-6)


def test_labels_of_any_integer_type_are_accepted() -> None:
    logits = torch.tensor([[0.0, 0.0]])
    for dtype in (torch.int32, torch.int64):
        logprob, entropy = logprobs_and_entropy(logits, torch.tensor([1], dtype=dtype), temperature=1.0)
        assert logprob.item() == pytest.approx(-0.693147, abs=1e-6)
        assert entropy.item() == pytest.approx(0.693147, abs=1e-6)


def test_half_precision_is_raised_to_float32() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]], dtype=torch.bfloat16)
    logprob, entropy = logprobs_and_entropy(logits, torch.tensor([0]), temperature=1.0)
    assert logprob.dtype == entropy.dtype == torch.float32
    assert logprob.item() == pytest.approx(-0.407606, abs=1e-6)


@pytest.mark.parametrize("chunk_tokens", [1, 4, 11, 100])
def test_chunks_change_neither_values_nor_gradients(chunk_tokens: int) -> None:
    hidden, head, labels = inputs()
    expected = logprobs_and_entropy(hidden @ head.T, labels, temperature=0.7)
    wanted = torch.autograd.grad(expected[0].sum() + 2 * expected[1].sum(), (hidden, head))
    got = token_logprobs(hidden, labels, project=lambda h: h @ head.T, temperature=0.7, chunk_tokens=chunk_tokens)
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(
        torch.autograd.grad(got[0].sum() + 2 * got[1].sum(), (hidden, head)), wanted, rtol=0, atol=1e-12
    )


class LiveLogits(TorchDispatchMode):
    """Counts arrays with a column per vocabulary entry: the rows of the largest, and how many lived at once."""

    def __init__(self) -> None:
        super().__init__()
        self.most_rows = 0
        self.most_alive = 0
        self.storages: list[StorageWeakRef] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and out.shape[-1:] == (VOCAB,) and out.shape[0] != VOCAB:
            self.most_rows = max(self.most_rows, out.shape[0])
            ref = StorageWeakRef(out.untyped_storage())
            alive = [known for known in self.storages if not known.expired() and known.cdata != ref.cdata]
            self.storages = [*alive, ref]
            self.most_alive = max(self.most_alive, len(self.storages))
        return out


@pytest.mark.parametrize("use", ["logprobs", "entropy", "both"])
def test_memory_is_that_of_one_chunk_however_many_there_are(use: str) -> None:
    alive = {}
    for num_tokens in (12, 120):
        hidden = torch.randn(num_tokens, WIDTH, requires_grad=True)
        head = torch.randn(VOCAB + 1, WIDTH, requires_grad=True)
        labels = torch.zeros(num_tokens, dtype=torch.long)
        with LiveLogits() as live:
            logprobs, entropy = token_logprobs(
                hidden, labels, project=lambda h, w=head: h @ w.T, temperature=0.7, chunk_tokens=4, num_valid=VOCAB
            )
            used = {"logprobs": logprobs.sum(), "entropy": entropy.sum(), "both": logprobs.sum() + entropy.sum()}
            used[use].backward()
        assert live.most_rows == 4
        alive[num_tokens] = live.most_alive
    assert 0 < alive[120] == alive[12]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_gradients_are_those_of_the_formulas(temperature: float) -> None:
    hidden, head, labels = inputs()
    logits = (hidden @ head.T).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda z: logprobs_and_entropy(z, labels, temperature=temperature), logits)
    log_softmax = torch.log_softmax(logits / temperature, dim=-1)
    slow = log_softmax[range(NUM_TOKENS), labels], -(log_softmax.exp() * log_softmax).sum(dim=-1)
    torch.testing.assert_close(logprobs_and_entropy(logits, labels, temperature=temperature), slow, rtol=0, atol=1e-12)


def test_columns_beyond_the_vocabulary_have_no_probability() -> None:
    hidden, head, labels = inputs()
    padded = torch.cat([head, torch.full((3, WIDTH), 50.0, dtype=torch.float64)])
    expected = token_logprobs(hidden, labels, project=lambda h: h @ head.T, temperature=1.0, chunk_tokens=4)
    got = token_logprobs(
        hidden, labels, project=lambda h: h @ padded.T, temperature=1.0, chunk_tokens=4, num_valid=VOCAB
    )
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    assert torch.isfinite(got[1]).all()


def test_no_tokens_give_empty_outputs_with_a_zero_gradient() -> None:
    hidden, head, _ = inputs()
    none = torch.zeros(0, dtype=torch.long)
    logprobs, entropy = token_logprobs(hidden[:0], none, project=lambda h: h @ head.T, temperature=1.0, chunk_tokens=4)
    assert logprobs.shape == entropy.shape == (0,)
    (logprobs.sum() + entropy.sum()).backward()
    assert head.grad is not None
    assert head.grad.abs().sum().item() == 0.0
