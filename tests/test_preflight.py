"""What a config names in the world, looked at before anything loads."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.preflight import VLLM_CPU_HEAD_SIZES, world_problems
from rlhf_ray.tracking.artifacts import ArtifactId, Origin, write_artifact_card


def write_model(folder: Path, *, architecture: str, tensors: Mapping[str, tuple[int, ...]], context: int = 256) -> str:
    folder.mkdir()
    config = {
        "architectures": [architecture],
        "model_type": "llama",
        "vocab_size": 32,
        "hidden_size": 8,
        "tie_word_embeddings": False,
        "max_position_embeddings": context,
        "eos_token_id": 2,
    }
    (folder / "config.json").write_text(json.dumps(config))
    save_file(
        {name: np.zeros(shape, dtype=np.float32) for name, shape in tensors.items()}, folder / "model.safetensors"
    )
    write_vocabulary(folder, "a")
    return str(folder)


def write_vocabulary(folder: str | Path, *words: str) -> None:
    tokenizer = {"added_tokens": [], "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}}}
    (Path(folder) / "tokenizer.json").write_text(json.dumps(tokenizer))


def write_policy(folder: Path, *, context: int = 256) -> str:
    tensors = {"model.embed_tokens.weight": (32, 8), "lm_head.weight": (32, 8)}
    return write_model(folder, architecture="LlamaForCausalLM", tensors=tensors, context=context)


def write_reward(folder: Path, *, head: str = "score", context: int = 256) -> str:
    tensors = {"model.embed_tokens.weight": (32, 8), f"{head}.weight": (1, 8)}
    return write_model(folder, architecture="LlamaForSequenceClassification", tensors=tensors, context=context)


def write_rows(file: Path, *rows: object) -> str:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(file)


@pytest.fixture
def config(tmp_path):
    """PPO from two good models on a good file into a new directory."""
    config = TrainConfig(stages=["ppo"], run_dir=str(tmp_path / "outputs/run"))
    config.model.path = write_policy(tmp_path / "policy")
    config.reward.path = write_reward(tmp_path / "reward")
    config.data.prompts = write_rows(tmp_path / "prompts.jsonl", {"prompt": "Name a colour."})
    return config


def test_good_models_a_good_file_and_a_new_directory_are_fine(config):
    assert world_problems(config) == []


def test_the_default_config_needs_nothing_but_a_directory(tmp_path):
    assert world_problems(TrainConfig(run_dir=str(tmp_path))) == []


def test_a_policy_in_place_of_the_reward_model_is_refused_by_path(config):
    config.reward.path = config.model.path
    (message,) = world_problems(config)
    assert f"model.path={config.model.path} is reward.path, too" in message
    assert "no score head" in message


def test_a_copy_of_the_policy_in_place_of_the_reward_model_is_refused_by_its_tensors(config, tmp_path):
    config.reward.path = write_policy(tmp_path / "copy")
    (message,) = world_problems(config)
    assert message.startswith("reward.path (reward.head=score): ")
    assert f"{tmp_path / 'copy'} is a language model without a score head" in message


def test_a_head_of_another_name_has_to_be_named(config, tmp_path):
    config.reward.path = write_reward(tmp_path / "other", head="v_head")
    (message,) = world_problems(config)
    assert "other heads in it: v_head" in message
    config.reward.head = "v_head"
    assert world_problems(config) == []


def test_a_reward_model_in_place_of_the_policy_is_refused(config, tmp_path):
    config.model.path = write_reward(tmp_path / "second")
    (message,) = world_problems(config)
    assert message.startswith("model.path: ")
    assert "not a language model" in message


def test_missing_models_and_files_are_told_together(config):
    config.model.path, config.reward.path, config.data.prompts = "/no/policy", "/no/reward", "/no/prompts"
    messages = world_problems(config)
    assert [message.partition(" ")[0] for message in messages] == ["model.path:", "reward.path", "data.prompts:"]
    assert all("/no/" in message for message in messages)


def test_a_context_too_short_for_prompt_and_answer_names_the_three_keys(config, tmp_path):
    config.model.path = write_policy(tmp_path / "short", context=20)
    config.data.max_prompt_tokens, config.algorithm.max_new_tokens = 16, 8
    (message,) = world_problems(config)
    assert "model.path=" in message
    assert "at most 20 tokens" in message
    assert "data.max_prompt_tokens=16" in message
    assert "algorithm.max_new_tokens=8" in message


def test_a_reward_model_may_be_short_as_long_as_an_answer_fits(config, tmp_path):
    config.reward.path = write_reward(tmp_path / "short", context=60)
    (message,) = world_problems(config)
    assert "the critic that starts as its copy would read 80" in message
    config.algorithm.critic_init = "policy"
    assert world_problems(config) == []
    config.algorithm.max_new_tokens = 60
    (message,) = world_problems(config)
    assert "algorithm.max_new_tokens=60" in message
    assert "accepted is at most 59" in message


def change_config(folder, **values):
    file = Path(folder) / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_a_model_without_end_token_is_refused(config):
    change_config(config.model.path, eos_token_id=None)
    (message,) = world_problems(config)
    assert "names no eos_token_id" in message


def test_heads_that_vllm_cannot_compute_on_cpus_are_refused_with_those_it_can(config):
    change_config(config.model.path, num_attention_heads=1, hidden_size=8)
    (message,) = world_problems(config)
    assert "attention heads of width 8; vLLM on CPUs computes 32, 64, 80" in message
    assert "use generator=hf" in message
    config.generator.backend = "hf"
    assert world_problems(config) == []


@pytest.mark.slow  # vLLM's import
def test_the_head_sizes_are_those_of_the_installed_vllm():
    from vllm.v1.attention.backends.cpu_attn import CPUAttentionBackend

    assert tuple(CPUAttentionBackend.get_supported_head_sizes()) == VLLM_CPU_HEAD_SIZES


def test_a_critic_cannot_start_from_a_reward_model_with_another_tokenizer(config):
    write_vocabulary(config.model.path, "a", "b")
    write_vocabulary(config.reward.path, "b", "a")
    (message,) = world_problems(config)
    assert "has another tokenizer than model.path" in message
    assert "algorithm.critic_init=policy" in message
    config.algorithm.critic_init = "policy"
    assert world_problems(config) == []
    config.algorithm.critic_init = "reward_model"
    write_vocabulary(config.reward.path, "a", "b")
    assert world_problems(config) == []


@pytest.mark.parametrize("critic_init", ["reward_model", "policy"])
def test_a_model_without_tokenizer_is_refused_under_its_own_setting_with_the_files_that_are_missing(
    config, critic_init
):
    config.algorithm.critic_init = critic_init
    (Path(config.reward.path) / "tokenizer.json").unlink()
    (message,) = world_problems(config)
    assert message.startswith("reward.path (reward.head=score): ")
    (Path(config.model.path) / "tokenizer.json").unlink()
    message, _ = world_problems(config)
    assert message == (
        f"model.path: {config.model.path} holds no tokenizer: tokenizer.json is not there, nor any of tokenizer.model, "
        "spiece.model, vocab.json, merges.txt; copy tokenizer.json and tokenizer_config.json there from where the "
        "model comes from"
    )


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer_config.json"])
def test_chats_need_a_template_wherever_it_stands(config, tmp_path, name):
    config.data.prompts = write_rows(tmp_path / "c.jsonl", {"prompt": [{"role": "user", "content": "Name a tree."}]})
    config.data.format = "chat"
    (message,) = world_problems(config)
    assert "data.format=chat needs a chat template" in message
    assert "chat_template.jinja" in message
    (Path(config.model.path) / name).write_text('{"chat_template": "{{ messages }}"}')
    assert world_problems(config) == []


def test_a_model_of_a_run_gets_its_template_in_a_copy_without_its_card(config, tmp_path):
    config.data.prompts = write_rows(tmp_path / "c.jsonl", {"prompt": [{"role": "user", "content": "Name a tree."}]})
    config.data.format = "chat"
    policy = Path(config.model.path)
    write_artifact_card(
        policy,
        identity=ArtifactId(kind="policy", name="sft-policy", version=20),
        origin=Origin(
            run_id="r", stage="sft", config_digest="c", data_fingerprint="d", git_commit=None, seed=1, inputs="i"
        ),
        parents=[],
        metrics={},
        decision=None,
    )
    (message,) = world_problems(config)
    assert "of a model that a run wrote: into a copy without its artifact.json" in message
    copy = shutil.copytree(policy, tmp_path / "copy")
    (copy / "chat_template.jinja").write_text("{{ messages }}")
    config.model.path = str(copy)
    (message,) = world_problems(config)
    assert "chat_template.jinja was added" in message
    (copy / "artifact.json").unlink()
    assert world_problems(config) == []


def test_a_tokenizer_larger_than_the_embedding_is_refused(config):
    config.algorithm.critic_init = "policy"
    write_vocabulary(config.model.path, *(str(i) for i in range(33)))
    (message,) = world_problems(config)
    assert "the tokenizer knows 33 ids and the embedding has 32 rows" in message


def test_bad_rows_are_listed_by_line_or_skipped_on_request(config, tmp_path):
    config.data.prompts = write_rows(tmp_path / "mixed.jsonl", {"prompt": "Name a tree."}, {"question": "x"}, [])
    (message,) = world_problems(config)
    assert message.startswith("data.prompts: ")
    assert "line 2: " in message
    assert "line 3: " in message
    config.data.on_bad_row = "skip"
    assert world_problems(config) == []


def test_each_kind_of_file_is_read_as_its_kind(config, tmp_path):
    config.data.demonstrations = write_rows(tmp_path / "d.jsonl", {"prompt": "a", "chosen": "b", "rejected": "c"})
    config.data.preferences = write_rows(tmp_path / "p.jsonl", {"prompt": "a", "response": "b"})
    first, second = world_problems(config)
    assert first.startswith("data.demonstrations: ")
    assert "response" in first
    assert second.startswith("data.preferences: ")
    assert "chosen" in second


def test_a_directory_with_something_in_it_is_refused_unless_it_is_resumed(config, tmp_path):
    folder = tmp_path / "used"
    folder.mkdir()
    (folder / "metrics.jsonl").write_text("")
    config.run_dir = str(folder)
    (message,) = world_problems(config)
    assert f"run_dir={folder} is not empty" in message
    assert f"resume={folder}" in message
    config.resume = str(folder)
    assert world_problems(config) == []


def test_an_empty_directory_is_taken(config, tmp_path):
    (tmp_path / "empty").mkdir()
    config.run_dir = str(tmp_path / "empty")
    assert world_problems(config) == []


@pytest.mark.parametrize("record", ["run.json", "artifact.json"])
def test_a_run_directory_inside_what_is_recorded_is_refused(config, tmp_path, record):
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / record).write_text("{}")
    config.run_dir = str(tmp_path / "earlier" / "deep" / "run")
    (message,) = world_problems(config)
    assert (
        message
        == f"run_dir={config.run_dir} lies inside {tmp_path}/earlier, whose content is recorded; give one outside"
    )


def test_names_that_no_folder_can_have_are_refused(config, tmp_path):
    config.run_dir = str(tmp_path / ("x" * 300))
    (message,) = world_problems(config)
    assert message == f"run_dir={config.run_dir}: File name too long; give another run_dir"
    config.run_dir, config.experiment_name = str(tmp_path / "run"), "../../elsewhere"
    (message,) = world_problems(config)
    assert message == "experiment_name=../../elsewhere: accepted is the name of a folder, without /"


def test_a_file_in_place_of_the_run_directory_is_refused(config, tmp_path):
    config.run_dir = config.data.prompts
    (message,) = world_problems(config)
    assert "is a file" in message


def test_a_run_directory_below_a_file_is_refused(config):
    config.run_dir = f"{config.data.prompts}/run"
    (message,) = world_problems(config)
    assert "cannot be written to" in message


def test_more_checkpoints_than_fit_on_the_disk_are_refused(config):
    config.checkpoint.keep = 10**12
    (message,) = world_problems(config)
    assert "MiB are needed" in message
    assert "checkpoint.keep" in message


def test_more_prompts_than_the_built_in_reviews_have_are_refused(tmp_path):
    config = TrainConfig(run_dir=str(tmp_path))
    config.data.num_prompts = 1_000_000
    (message,) = world_problems(config)
    assert "data.num_prompts=1000000" in message
    assert "the built-in reviews have" in message
