"""Every experiment composes into settings that are accepted, those for larger machines included."""

from pathlib import Path

import pytest

from rlhf_ray.config.host import Host
from rlhf_ray.config.load import Start, load

PATHS = ("model.path=m", "data.prompts=p", "data.demonstrations=d")
NEEDED = {
    "own_models": ("model.path=m", "reward.path=r", "data.prompts=p", "stages=[ppo]"),
    "tldr_pythia_1b": (*PATHS, "data.preferences=c"),
    "gsm_qwen_0_5b": (*PATHS, "reward.path=r"),
}
EXPERIMENTS = sorted(file.stem for file in (Path(__file__).parents[2] / "conf" / "experiment").glob("*.yaml"))


def loaded(name, tmp_path):
    start = Start(folder=tmp_path, run_name="run", job=None, host=Host(num_cpus=8, num_gpus=1, has_vllm=True))
    return load([f"experiment={name}", *NEEDED.get(name, ())], start)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_accepted_without_a_warning(name, tmp_path):
    assert loaded(name, tmp_path).warnings == ()


def test_the_tldr_recipe_has_the_published_numbers(tmp_path):
    """Huang et al. 2024, details 9, 10, 20 and the table of hyper-parameters."""
    config = loaded("tldr_pythia_1b", tmp_path).config
    algorithm = config.algorithm
    assert algorithm.num_iterations * algorithm.batch_size == 1_000_000 // 512 * 512
    assert config.sft.num_steps == -(-116_722 // config.sft.batch_size)
    assert (config.learning_rate, config.learner.adam_eps, config.sft.loss_on) == (3e-6, 1e-5, "all")
    assert (config.data.max_prompt_tokens, algorithm.max_new_tokens, algorithm.temperature) == (512, 53, 0.7)
    assert (algorithm.kl_coef, algorithm.lam, algorithm.gamma, algorithm.clip, algorithm.value_clip) == (
        0.05,
        0.95,
        1.0,
        0.2,
        0.2,
    )
    assert (algorithm.score_slot, algorithm.missing_eos, algorithm.missing_eos_value) == ("after_eos", "replace", -1.0)


def test_a_data_set_keeps_its_name_where_files_become_absolute(tmp_path):
    start = Start(folder=tmp_path, run_name="run", job=None, host=Host(num_cpus=8, num_gpus=1, has_vllm=True))
    words = ["model.path=m", "reward.path=r", "stages=[ppo]", "data.prompts=hf:openai/gsm8k:test"]
    config = load(words, start).config
    assert config.data.prompts == "hf:openai/gsm8k:test"
    assert config.model.path == str(tmp_path / "m")
