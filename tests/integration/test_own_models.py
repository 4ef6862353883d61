"""Models and files of one's own, from files to a trained policy, in this process."""

import json

import pytest
from architectures import ARCHITECTURES, NUM_IDS, NUM_ROWS, write_architecture
from small_run import LOCAL, read_metrics, small_config

ROWS = 24


def write(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def ask(i):
    return [{"role": "user", "content": f"w{6 + i % 20} w{7 + i % 9}"}]


def answer(*words):
    return [{"role": "assistant", "content": " ".join(words)}]


def chat_files(folder):
    """One file for prompts and preferences, one of whole conversations."""
    pairs = [
        {"prompt": ask(i), "chosen": answer("w9", "stone"), "rejected": answer(f"w{i % 5 + 20}")} for i in range(ROWS)
    ]
    talks = [{"messages": [*ask(i), *answer("w9", f"w{i % 5 + 20}")]} for i in range(ROWS)]
    preferences = write(folder / "pairs.jsonl", pairs)
    return (
        "data=files",
        f"data.prompts={preferences}",
        f"data.preferences={preferences}",
        f"data.demonstrations={write(folder / 'talks.jsonl', talks)}",
        "data.format=chat",
        "data.max_prompt_tokens=16",
        "algorithm.max_new_tokens=8",
        "algorithm.batch_size=8",
        "sft.num_steps=4",
        "sft.warmup_steps=0",
        "sft.batch_size=8",
        "reward_model.batch_size=8",
        "evaluation.num_prompts=2",
        "algorithm.num_iterations=2",
    )


def train(run_dir, *words):
    from rlhf_ray import pipeline

    pipeline.run(small_config(run_dir, *LOCAL, *words), command=())
    return read_metrics(run_dir, "ppo")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_three_stages_on_a_model_of_ones_own_and_chat_files(tmp_path, name, capsys):
    model = write_architecture(tmp_path / "model", name)
    run_dir = tmp_path / "run"
    rows = train(run_dir, f"model.path={model}", *chat_files(tmp_path), "model.save_dtype=bfloat16")
    assert rows[-1]["step"] == 2
    assert rows[1]["rollout/logprob_absdiff_max"] < 1e-4
    from rlhf_ray.models.directory import inspect_model

    saved = inspect_model(run_dir / "artifacts" / "policy")
    assert (saved.vocab_size, saved.num_token_ids, saved.eos_token_ids) == (NUM_ROWS, NUM_IDS, (2, 5))
    assert {tensor.dtype for tensor in saved.tensors.values()} == {"BF16"}
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("ignored do_sample=True, repetition_penalty=1.1, top_k=20, top_p=0.8") == 1
    assert "64 embedding rows, 61 token ids" in said
    assert f"critic: a copy of {run_dir / 'artifacts' / 'reward-model'}, its head as stored" in said


def test_a_reward_model_with_another_tokenizer_reads_the_texts(tmp_path, capsys):
    policy = write_architecture(tmp_path / "policy", "llama")
    reward = write_reward_model_of(tmp_path, "gpt2")
    rows = train(
        tmp_path / "run",
        f"model.path={policy}",
        f"reward.path={reward}",
        *chat_files(tmp_path),
        "stages=[ppo]",
        "data.demonstrations=null",
        "data.preferences=null",
        "algorithm.critic_init=policy",
        "evaluation.num_shown=0",
    )
    assert rows[-1]["step"] == 2
    said = " ".join(capsys.readouterr().out.split())
    assert f"{reward} has another tokenizer than {policy}: it reads texts, not ids" in said
    assert "its head new, all 0" in said


def write_reward_model_of(folder, name):
    """A reward model whose tokenizer has the same words under other ids."""
    import torch

    from rlhf_ray.models.load import HeadStart, load_scalar_model
    from rlhf_ray.models.save import save_scalar_model
    from rlhf_ray.models.vocabulary import tokenizer_digest

    base, reward = write_architecture(folder / "base", name), folder / "reward"
    tokenizer = json.loads((base / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["w9"], vocabulary["w10"] = vocabulary["w10"], vocabulary["w9"]
    (base / "tokenizer.json").write_text(json.dumps(tokenizer))
    model = load_scalar_model(base, start=HeadStart.RANDOM, head="score", seed=3, dtype=torch.float32)
    save_scalar_model(model, reward, tokenizer_source=base, dtype=torch.float32)
    assert tokenizer_digest(reward) != tokenizer_digest(folder / "policy")
    return reward


def test_a_new_model_gets_its_tokenizer_from_ones_own_files(tmp_path):
    demonstrations = [{"prompt": f"Name colour {i}", "response": " Blue or red."} for i in range(40)]
    file = write(tmp_path / "d.jsonl", demonstrations)
    from rlhf_ray import pipeline

    words = ("data=files", f"data.prompts={file}", f"data.demonstrations={file}", "stages=[sft]", "sft.num_steps=3")
    pipeline.run(small_config(tmp_path / "run", *LOCAL, *words, "sft.batch_size=8", "sft.warmup_steps=0"), command=())
    assert (tmp_path / "run" / "artifacts" / "sft-policy" / "model.safetensors").is_file()
