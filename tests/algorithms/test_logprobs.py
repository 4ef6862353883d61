import pytest
import torch
from torch import Tensor

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


def test_no_logits_of_more_than_a_chunk_are_made_or_kept() -> None:
    hidden, head, labels = inputs()
    rows: list[int] = []
    kept: list[torch.Size] = []

    def project(part: Tensor) -> Tensor:
        rows.append(len(part))
        return part @ head.T

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logprobs, _ = token_logprobs(hidden, labels, project=project, temperature=1.0, chunk_tokens=4)
        forward_shapes = list(kept)
    logprobs.sum().backward()
    assert sorted(rows) == [3, 3, 4, 4, 4, 4]  # once forward, once again on the way back
    assert all(VOCAB not in shape for shape in forward_shapes)


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
