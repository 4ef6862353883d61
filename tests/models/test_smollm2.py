"""The pretrained model of the demo package."""

import pytest
import torch

from rlhf_ray.data.render import end_token, prompt_ids, prompt_text
from rlhf_ray.data.rows import Message
from rlhf_ray.data.tokenizer import load_tokenizer
from rlhf_ray.errors import ModelError
from rlhf_ray.models import smollm2
from rlhf_ray.models.directory import inspect_model, require_language_model
from rlhf_ray.models.load import load_language_model


def test_a_missing_package_is_named_with_the_way_to_install_it(monkeypatch):
    monkeypatch.setattr(smollm2, "NEEDED", ("gguf", "no-such-package"))
    with pytest.raises(ModelError, match=r"SmolLM2 needs no-such-package, .* requirements-demo\.lock"):
        smollm2.gguf_file()


def test_the_command_wants_one_folder(capsys):
    assert smollm2.main([]) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.slow  # a model of 135M weights is dequantised and loaded
def test_it_becomes_an_ordinary_directory_that_answers_in_a_chat(tmp_path):
    assert smollm2.main([str(tmp_path / "model")]) == 0
    directory = inspect_model(tmp_path / "model")
    require_language_model(directory)
    weights = sum(torch.Size(tensor.shape).numel() for tensor in directory.tensors.values())
    assert weights == smollm2.SMOLLM2_WEIGHTS
    assert (directory.tied, directory.vocab_size, directory.ids_to_sample) == (True, 49_152, None)
    assert directory.eos_token_ids == (2,)
    assert directory.pad_token_id == 0, "padding with the end token would be told and is not needed"
    tokenizer = load_tokenizer(tmp_path / "model")
    assert end_token(tokenizer, chat=True) == 2
    asked = (Message(role="user", content="What is the capital of France?"),)
    (ids,) = prompt_ids([prompt_text(asked, tokenizer, max_tokens=64)], tokenizer)
    model = load_language_model(tmp_path / "model", dtype=torch.float32)
    answer = model.causal.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False)[0, len(ids) :]
    assert "Paris" in tokenizer.decode(answer)
