"""What a config names in the world: models, data files and the run directory. Looked at before torch or Ray loads."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Literal

from rlhf_ray.config.derived import is_tiny, longest_answer, longest_sequence, stages_to_run
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.data.layout import CHATS, layout_of
from rlhf_ray.data.read import RowStream, read_demonstrations, read_preferences, read_prompts
from rlhf_ray.data.render import SUPPLY_TEMPLATE
from rlhf_ray.data.reviews import all_openings
from rlhf_ray.data.rows import DemonstrationRow, PreferenceRow, PromptRow
from rlhf_ray.data.sentences import all_topics
from rlhf_ray.doctor.rules import load_rules
from rlhf_ray.errors import ArtifactError, ConfigError, DataError, ModelError
from rlhf_ray.models.directory import ModelDirectory, inspect_model, require_language_model, require_reward_model
from rlhf_ray.models.smollm2 import SMOLLM2_WEIGHTS, gguf_file
from rlhf_ray.models.vocabulary import has_chat_template, require_tokenizer, tokenizer_digest
from rlhf_ray.tracking.artifacts import CARD, read_artifact

# vllm 0.32, v1/attention/backends/cpu_attn.py, get_supported_head_sizes
VLLM_CPU_HEAD_SIZES = (32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)
_SMALL_RUN_BYTES = 256 << 20  # records and checkpoints of the default job
_BYTES_PER_WEIGHT = 12  # float32 weight and two moments


def world_problems(config: TrainConfig) -> list[str]:
    """Everything named by the config that is missing, damaged or not what it is taken for."""
    return [
        *_models(config),
        *_artifacts(config),
        *_data_files(config),
        *_built_in(config),
        *_rules(config),
        *_run_dir(config),
    ]


def _rules(config: TrainConfig) -> Iterator[str]:
    """The doctor's thresholds."""
    if config.doctor.rules is None:
        return
    try:
        load_rules(Path(config.doctor.rules))
    except (ConfigError, DataError) as error:
        yield f"doctor.rules: {error}; accepted: a YAML file as in docs/doctor.md"


def _models(config: TrainConfig) -> Iterator[str]:
    policy, reward = config.model.path, config.reward.path
    if policy is None and config.model.new == "smollm2":
        yield from _smollm2()
    if policy is not None and policy == reward:
        yield f"model.path={policy} is reward.path, too: a policy has no score head; give a reward model's directory"
        return
    found: dict[str, ModelDirectory] = {}
    try:
        if policy is not None:
            found["policy"] = inspect_model(Path(policy))
            require_tokenizer(Path(policy))
            yield from _policy(config, found["policy"])
    except ModelError as error:
        yield f"model.path: {error}"
    try:
        if reward is not None:
            found["reward"] = inspect_model(Path(reward))
            require_tokenizer(Path(reward))
            yield from _reward(config, found["reward"])
    except ModelError as error:
        yield f"reward.path (reward.head={config.reward.head}): {error}"
    if len(found) == 2:
        yield from _reward_for(config, found["policy"], found["reward"])


def _reward_for(config: TrainConfig, policy: ModelDirectory, reward: ModelDirectory) -> Iterator[str]:
    """A critic reads what the policy reads, so a reward model that cannot must not be its start."""
    if config.algorithm.critic_init != "reward_model":
        return
    own, other = tokenizer_digest(policy.path), tokenizer_digest(reward.path)
    if own is not None and other is not None and own != other:
        yield (
            f"reward.path={reward.path} has another tokenizer than model.path={policy.path}, so the critic "
            "cannot start as its copy; accepted is algorithm.critic_init=policy"
        )
    (key, answer), longest, limit = longest_answer(config), longest_sequence(config), reward.context_length
    if limit is not None and longest > limit:
        yield (
            f"reward.path={reward.path} reads at most {limit} tokens, and the critic that starts as its copy would "
            f"read {longest} (data.max_prompt_tokens={config.data.max_prompt_tokens} + {key}={answer}); lower them, "
            "or use algorithm.critic_init=policy"
        )


def _smollm2() -> Iterator[str]:
    try:
        gguf_file()
    except ModelError as error:
        yield f"model.new=smollm2: {error}"


def _artifacts(config: TrainConfig) -> Iterator[str]:
    """Directories that say what they are, and are not."""
    for key, path in (("model.path", config.model.path), ("reward.path", config.reward.path)):
        if path is None or not (Path(path) / CARD).is_file() or config.tracking.allow_changed:
            continue
        try:
            read_artifact(Path(path), verify=True)
        except ArtifactError as error:
            yield f"{key}: {error}; accepted with tracking.allow_changed=true"


def _policy(config: TrainConfig, directory: ModelDirectory) -> Iterator[str]:
    require_language_model(directory)
    if not directory.eos_token_ids:
        yield (
            f"model.path={directory.path} names no eos_token_id: no answer could end; add it to generation_config.json"
        )
    on_cpu = config.generator.backend == "vllm" and config.learner.device == "cpu"
    if on_cpu and directory.head_size is not None and directory.head_size not in VLLM_CPU_HEAD_SIZES:
        yield (
            f"model.path={directory.path} has attention heads of width {directory.head_size}; vLLM on CPUs computes "
            f"{', '.join(map(str, VLLM_CPU_HEAD_SIZES))}; use generator=hf"
        )
    if config.data.prompts is not None and config.data.format in CHATS and not has_chat_template(directory.path):
        yield (
            f"data.format={config.data.format} needs a chat template, and model.path={directory.path} has none; "
            f"{SUPPLY_TEMPLATE}"
        )
    (key, answer), longest, limit = longest_answer(config), longest_sequence(config), directory.context_length
    if limit is not None and longest > limit:
        yield (
            f"model.path={directory.path} reads at most {limit} tokens: accepted is a sum up to that of "
            f"data.max_prompt_tokens={config.data.max_prompt_tokens} and "
            f"{key}={answer}"
        )


def _reward(config: TrainConfig, directory: ModelDirectory) -> Iterator[str]:
    """A prompt may be cut from its left for the reward model, an answer never."""
    require_reward_model(directory, head=config.reward.head)
    answer, limit = config.algorithm.max_new_tokens, directory.context_length
    if limit is not None and answer >= limit:
        yield (
            f"reward.path={directory.path} reads at most {limit} tokens: algorithm.max_new_tokens={answer} leaves the "
            f"prompt no room; accepted is at most {limit - 1}"
        )


def _data_files(config: TrainConfig) -> Iterator[str]:
    data, layout = config.data, layout_of(config.data)
    on_bad_row: Literal["error", "skip"] = "skip" if data.on_bad_row == "skip" else "error"
    streams: list[tuple[str, RowStream[PromptRow] | RowStream[DemonstrationRow] | RowStream[PreferenceRow]]] = []
    if data.prompts is not None:
        streams.append(("prompts", read_prompts(Path(data.prompts), layout=layout, on_bad_row=on_bad_row)))
    if data.demonstrations is not None:
        demonstrations = read_demonstrations(Path(data.demonstrations), layout=layout, on_bad_row=on_bad_row)
        streams.append(("demonstrations", demonstrations))
    if data.preferences is not None:
        preferences = read_preferences(Path(data.preferences), layout=layout, on_bad_row=on_bad_row)
        streams.append(("preferences", preferences))
    for name, rows in streams:
        try:
            rows.count()
        except DataError as error:
            yield f"data.{name}: {error}"


def _built_in(config: TrainConfig) -> Iterator[str]:
    if config.data.prompts is not None:
        return
    topics = {"reviews": all_openings, "sentences": all_topics}[config.data.built_in]()
    wanted, available = config.data.num_prompts + config.data.num_held_out, len(topics)
    if wanted > available:
        yield (
            f"data.num_prompts={config.data.num_prompts} and data.num_held_out={config.data.num_held_out} ask for "
            f"{wanted} prompts; the built-in {config.data.built_in} have {available}"
        )


def _run_dir(config: TrainConfig) -> Iterator[str]:
    folder = Path(config.run_dir)
    if Path(config.experiment_name).name != config.experiment_name:
        yield f"experiment_name={config.experiment_name}: accepted is the name of a folder, without /"
    try:
        folder.exists()
    except OSError as error:
        yield f"run_dir={folder}: {error.strerror}; give another run_dir"
        return
    holds = [place for place in folder.parents if any((place / name).is_file() for name in ("run.json", CARD))]
    if holds:
        yield f"run_dir={folder} lies inside {holds[0]}, whose content is recorded; give one outside"
        return
    if folder.exists() and not folder.is_dir():
        yield f"run_dir={folder} is a file; accepted is a new or empty directory"
        return
    if config.resume is None and folder.is_dir() and any(folder.iterdir()):
        yield (
            f"run_dir={folder} is not empty; accepted is a new or empty directory, or resume={folder} to continue "
            "the run in it"
        )
    parent = next(place for place in (folder, *folder.parents) if place.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        yield f"run_dir={folder}: {parent} cannot be written to; give another run_dir"
        return
    needed, free = _bytes_needed(config), shutil.disk_usage(parent).free
    if free < needed:
        yield (
            f"run_dir={folder}: about {needed / 2**20:.0f} MiB are needed for checkpoints and models, and "
            f"{free / 2**20:.0f} MiB are free there; give another run_dir, or lower checkpoint.keep"
        )


def _bytes_needed(config: TrainConfig) -> int:
    """Checkpoints of policy and critic, one more than are kept while one is written, and the models of the stages."""
    if is_tiny(config):
        return _SMALL_RUN_BYTES
    weights = SMOLLM2_WEIGHTS
    if config.model.path is not None:
        try:
            tensors = inspect_model(Path(config.model.path)).tensors.values()
        except ModelError:
            return _SMALL_RUN_BYTES  # told elsewhere
        weights = sum(prod(tensor.shape) for tensor in tensors)
    trained = 2 if "ppo" in stages_to_run(config) else 1
    checkpoints = trained * _BYTES_PER_WEIGHT * weights * (config.checkpoint.keep + 1)
    return _SMALL_RUN_BYTES + checkpoints + 4 * weights * len(config.stages)
