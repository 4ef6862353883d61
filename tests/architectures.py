"""The same small language model in four architectures, with three more embedding rows than its tokenizer has ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NUM_IDS, NUM_ROWS, EOS, OTHER_EOS, CONTEXT = 61, 64, 2, 5, 192
ARCHITECTURES = ("llama", "gpt2", "gpt_neox", "qwen2")
VOCABULARY = ("<pad>", "<s>", "</s>", "<unk>", "stone", "<end>", *(f"w{i}" for i in range(6, NUM_IDS)))
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }} {{ message['content'] }} </s> {% endfor %}"
    "{% if add_generation_prompt %}assistant{% endif %}"
)


def write_architecture(folder: Path, name: str, *, num_rows: int = NUM_ROWS, pad: bool = True) -> Path:
    """A model directory whose rows beyond the tokenizer are by far the most likely where their logit is positive."""
    import torch
    from transformers import AutoModelForCausalLM, GenerationConfig

    torch.manual_seed(5)
    model = AutoModelForCausalLM.from_config(config_of(name, num_rows))
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.normal_(0, 0.15)
    with torch.no_grad():
        model.get_output_embeddings().weight[NUM_IDS:] *= 20
    model.generation_config = GenerationConfig(
        eos_token_id=[EOS, OTHER_EOS], do_sample=True, top_p=0.8, top_k=20, repetition_penalty=1.1
    )
    model.save_pretrained(folder)
    write_tokenizer(folder, pad=pad)
    return folder


def write_tokenizer(folder: Path, *, pad: bool) -> None:
    """Words; BOS before every text that is not a chat."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        pad_token="<pad>" if pad else None,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        chat_template=TEMPLATE,
    )
    tokenizer.save_pretrained(folder)


def config_of(name: str, num_rows: int) -> PreTrainedModel:
    """Width 64, two heads of 32, which vLLM on CPUs takes; dropout where the family has it."""
    from transformers import GPT2Config, GPTNeoXConfig, LlamaConfig, Qwen2Config

    ids = {"vocab_size": num_rows, "eos_token_id": EOS, "bos_token_id": 1}
    rotary = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": CONTEXT,
    }
    match name:
        case "llama":
            return LlamaConfig(**ids, **rotary, num_key_value_heads=1, tie_word_embeddings=False)
        case "qwen2":
            return Qwen2Config(
                **ids, **rotary, num_key_value_heads=1, tie_word_embeddings=True, use_sliding_window=False
            )
        case "gpt_neox":
            return GPTNeoXConfig(**ids, **rotary, hidden_dropout=0.1, attention_dropout=0.1)
        case _:
            return GPT2Config(**ids, n_embd=64, n_layer=2, n_head=2, n_positions=CONTEXT)
