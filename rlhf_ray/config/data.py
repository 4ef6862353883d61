"""Prompts, demonstrations and preferences: files of your own, or a built-in corpus."""

from dataclasses import dataclass

from rlhf_ray.config.setting import setting


@dataclass(kw_only=True)
class DataConfig:
    """conf/data."""

    prompts: str | None = setting(
        None, "prompts: JSON Lines, Parquet, Arrow, or hf:NAME:SPLIT; empty: the built-in corpus", path=True
    )
    demonstrations: str | None = setting(None, "prompts with responses, for supervised fine-tuning", path=True)
    preferences: str | None = setting(None, "prompts with better and worse answers, for the reward model", path=True)
    format: str = setting(
        "plain",
        "what prompts are: text, chats, text that a user asks in a chat, or posts to be summed up (docs/data.md)",
        choices=("plain", "chat", "instruction", "tldr"),
    )
    system_prompt: str | None = setting(None, "put before chats that have no system turn")
    prompt_column: str = setting("prompt", "column of the prompt")
    response_column: str = setting("response", "column of a demonstration's answer")
    chosen_column: str = setting("chosen", "column of the better answer")
    rejected_column: str = setting("rejected", "column of the worse answer")
    messages_column: str = setting("messages", "column of whole conversations")
    completions_column: str = setting("completions", "column of several answers to one prompt")
    labels_column: str = setting("labels", "column of their labels: the higher, the better")
    built_in: str = setting(
        "reviews",
        "the built-in corpus: reviews to continue, or chats that ask for one sentence",
        choices=("reviews", "sentences"),
    )
    held_out_share: float = setting(0.1, "share of the rows kept from training for evaluation", above=0, high=0.5)
    on_bad_row: str = setting("error", "what an unusable row does", choices=("error", "skip"))
    max_prompt_tokens: int = setting(32, "longest prompt", unit="tokens", low=1)
    max_answer_tokens: int | None = setting(
        None,
        "longest answer of demonstrations and preferences, end token included; empty: algorithm.max_new_tokens",
        unit="tokens",
        low=1,
    )
    on_long_prompt: str = setting("error", "what a longer prompt does", choices=("error", "drop", "truncate_left"))
    num_demonstrations: int = setting(10000, "built-in corpus: demonstrations", unit="rows", low=16)
    num_prompts: int = setting(3840, "built-in corpus: training prompts", unit="rows", low=16)
    num_held_out: int = setting(512, "built-in corpus: held-out prompts", unit="rows", low=8)
