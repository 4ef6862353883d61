"""Command lines: what they become, and what is said about wrong ones."""

from dataclasses import asdict, replace

import pytest
from omegaconf import OmegaConf

from rlhf_ray.config.composition import group_choices
from rlhf_ray.config.load import load, typed
from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.errors import ConfigError

# words -> what the message must hold: key and value, and what would be accepted
MISTAKES = [
    (["algorithm.batch_size=10", "algorithm.minibatches=4"], ["algorithm.minibatches=4", "use 1, 2, 5"]),
    (["algorithm.kl_coef=0.1", "algorithm.reference=false"], ["algorithm.kl_coef=0.1", "set algorithm.kl_coef=0"]),
    (["algorithm.temperature=0"], ["algorithm.temperature=0", "a number, above 0"]),
    (["algo.kl_coeff=0.1"], ["algo.kl_coeff=0.1", "did you mean algorithm.kl_coef?"]),
    (["algorithm.kl_coeff=0.1"], ["algorithm.kl_coeff=0.1", "did you mean algorithm.kl_coef?"]),
    (["hydra.rnu.dir=x"], ["hydra.rnu.dir=x", "did you mean hydra.run.dir"]),
    (["hydra.job.chdirr=true"], ["hydra.job.chdirr=true", "did you mean hydra.job.chdir?"]),
    (["hydra/lancher=basic"], ["hydra/lancher=basic", "did you mean hydra/launcher"]),
    (["hydra.verbose=true"], ["hydra.verbose=true", "has no effect here"]),
    (["hydra/launcher=basic"], ["hydra/launcher=basic", "has no effect here", "-m"]),
    (["max_new=0"], ["max_new=0", "did you mean algorithm.max_new_tokens?"]),
    (["algorithm.max_new_tokens=0"], ["algorithm.max_new_tokens=0", "a whole number, at least 1"]),
    (["algorithm.clip=-0.2"], ["algorithm.clip=-0.2", "above 0, at most 0.99"]),
    (["algorithm.clip=inf"], ["algorithm.clip=inf", "above 0"]),
    (["device=cuda"], ["device=cuda", "did you mean learner.device?"]),
    (["placement=ray_gpu"], ["learner.device=cuda", "accepted here is learner.device=cpu"]),
    (["generator=vlm"], ["generator=vlm", "one of hf, vllm", "did you mean vllm?"]),
    (["generatr=hf"], ["generatr=hf", "did you mean generator"]),
    (["generator={backend: hf}", "generator.backed=hf"], ["generator.backed=hf", "did you mean generator.backend"]),
    (["seed=x"], ["seed=x", "a whole number, at least 0"]),
    (["seed=1.5"], ["seed=1.5", "a whole number, at least 0"]),
    (["seed=true"], ["seed=true", "a whole number"]),
    (["seed=null"], ["seed=null", "a whole number"]),
    (["algorithm.reference=3"], ["algorithm.reference=3", "true or false"]),
    (["algorithm.schedule=step"], ["algorithm.schedule=step", "linear, cosine, constant"]),
    (["stages=ppo"], ["stages=ppo", "a list of sft, reward_model, ppo"]),
    (["stages=[sft,pro]"], ["stages=[sft,pro]", "a list of sft, reward_model, ppo"]),
    (["placement.policy={num_cpus: 1, thread: 2}"], ["placement.policy.thread=2", "placement.policy.threads"]),
    (["placement.policy=3"], ["placement.policy=3", "placement.policy.num_cpus"]),
    (["+algorithm.kl_coeff=0.1"], ["+algorithm.kl_coeff=0.1", "did you mean algorithm.kl_coef?"]),
    (["~algorithm.clip"], ["~algorithm.clip", "write KEY=VALUE"]),
    (["seed=1,2"], ["seed=1,2", "add -m"]),
    (["seed"], ["seed", "KEY=VALUE"]),
    (["model.path=~/model"], ["model.path=~/model", "\"model.path='~/model'\""]),
    (["sft.learning_rate=${nothing}"], ["sft.learning_rate", "nothing"]),
    (["model=directory"], ["model=directory", "model.path"]),
    (["data=files"], ["data=files", "data.prompts"]),
]


@pytest.mark.parametrize(("words", "told"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_told_with_key_value_and_remedy(refusal, words, told):
    message = refusal(*words)
    assert [part for part in told if part not in message] == []


def test_mistakes_of_all_kinds_are_told_together(refusal):
    message = refusal("sed=1", "algorithm.clip=x", "generator=vlm", "hydra.rnu.dir=x")
    assert message.splitlines()[0] == "4 problems"
    assert all(part in message for part in ("sed=1", "algorithm.clip=x", "generator=vlm", "hydra.rnu.dir=x"))


def test_values_out_of_range_and_impossible_combinations_are_told_together(refusal):
    message = refusal("algorithm.clip=-1", "algorithm.reference=false", "model.context_length=40")
    assert [line[:30] for line in message.splitlines()] == [
        "3 problems",
        "  - algorithm.clip=-1.0: accep",
        "  - algorithm.kl_coef=0.05 wit",
        "  - model.context_length=40: a",
    ]


def test_without_words_the_default_job_is_loaded(loaded, tmp_path):
    result = loaded()
    config = result.config
    assert (config.experiment_name, config.stages) == ("review_sentiment", ["sft", "reward_model", "ppo"])
    assert (config.learning_rate, config.sft.learning_rate, config.reward_model.learning_rate) == (5e-4, 3e-3, 2e-3)
    assert (config.generator.backend, config.placement.backend) == ("vllm", "ray")
    assert config.run_dir == str(tmp_path / "outputs/review_sentiment/NAME")
    assert result.warnings == ()


def test_the_default_placement_fits_on_two_cores(loaded):
    placement = loaded().config.placement
    roles = (
        placement.policy,
        placement.critic,
        placement.generator,
        placement.reference,
        placement.reward,
        placement.data,
    )
    assert sum(role.num_cpus for role in roles) <= 2


def test_a_pretrained_model_gets_careful_rates_unless_an_experiment_is_named(loaded):
    words = ("stages=[ppo]", "model.path=m", "reward.path=r", "data.prompts=p.jsonl")
    assert loaded(*words).config.learning_rate == 3e-6
    assert loaded(*words, "experiment=review_sentiment").config.learning_rate == 5e-4


def test_relative_paths_begin_where_the_program_was_started(loaded, tmp_path):
    words = ("stages=[ppo]", "model.path=m", "reward.path=../r", "data.prompts=/abs/p.jsonl", "run_dir=here")
    config = loaded(*words).config
    assert config.model.path == str(tmp_path / "m")
    assert config.reward.path == str(tmp_path.parent / "r")
    assert config.data.prompts == "/abs/p.jsonl"
    assert config.run_dir == str(tmp_path / "here")


def test_hydras_run_and_sweep_directories_are_used(start):
    words = ["hydra.run.dir=single", "hydra.sweep.dir=sweep", "hydra.sweep.subdir=${hydra.job.num}"]
    assert load(words, start).config.run_dir == str(start.folder / "single")
    assert load(words, replace(start, job=4)).config.run_dir == str(start.folder / "sweep/4")


def test_two_jobs_of_one_second_get_different_directories(start):
    names = {load([], replace(start, run_name=name, job=0)).config.run_dir for name in ("10-a", "10-b")}
    assert len(names) == 2


def test_kl_weight_zero_without_reference_is_legal(loaded):
    config = loaded("algorithm.kl_coef=0", "algorithm.reference=false", "algorithm.num_iterations=1").config
    assert not config.algorithm.reference


def test_a_section_as_mapping_and_as_hydra_node_are_the_same(loaded, start):
    as_words = loaded("placement.policy.num_cpus=0.5", "placement.policy.threads=2").config
    as_mapping = loaded("placement.policy={num_cpus: 0.5, threads: 2}").config
    assert as_words == as_mapping
    assert typed(asdict(as_words), folder=start.folder) == as_words
    assert typed(OmegaConf.create(asdict(as_words)), folder=start.folder) == as_words
    assert typed(OmegaConf.structured(as_words), folder=start.folder) == as_words


def test_an_unknown_key_in_a_mapping_is_refused_however_deep(start):
    with pytest.raises(ConfigError, match=r"placement\.policy\.thread=2.*placement\.policy\.threads"):
        typed({"placement": {"policy": {"thread": 2}}}, folder=start.folder)


def test_interpolations_are_resolved(loaded):
    assert loaded("sft.learning_rate=${learning_rate}").config.sft.learning_rate == 5e-4


CHOICES = [(group, choice) for group, choices in group_choices([]).items() for choice in choices]
WITH = {  # what a choice needs besides
    ("model", "directory"): ["model.path=m"],
    ("reward", "directory"): ["reward.path=r"],
    ("data", "files"): ["data.prompts=p", "data.demonstrations=d", "data.preferences=q"],
    ("experiment", "tldr_pythia_1b"): ["model.path=m", "data.prompts=p", "data.demonstrations=d", "data.preferences=q"],
    ("experiment", "gsm_qwen_0_5b"): ["model.path=m", "reward.path=r", "data.prompts=p", "data.demonstrations=d"],
}


@pytest.mark.parametrize(("group", "choice"), CHOICES, ids=lambda value: value)
def test_every_file_in_conf_composes_to_a_config_that_may_run(start, group, choice):
    gpus = replace(start, host=replace(start.host, num_cpus=8, num_gpus=1))
    config = load([f"{group}={choice}", *WITH.get((group, choice), [])], gpus).config
    assert isinstance(config, TrainConfig)


def write(folder, text):
    file = folder / "experiment" / "mine.yaml"
    file.parent.mkdir()
    file.write_text(f"# @package _global_\n{text}")
    return [f"hydra.searchpath=[file://{folder}]", "experiment=mine"]


def test_a_folder_of_ones_own_adds_choices(loaded, tmp_path):
    words = write(tmp_path, "seed: 7\nalgorithm:\n  epochs: 20\n")
    result = loaded(*words)
    assert (result.config.seed, result.config.algorithm.epochs) == (7, 20)
    assert result.warnings == (), "what an experiment sets is its own business"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("algorithm:\n  kl_coeff: 1\n", ["experiment/mine", "algorithm.kl_coeff", "did you mean algorithm.kl_coef?"]),
        ("algorithm:\n  clip: wide\n", ["experiment/mine", "algorithm.clip", "wide"]),
        ("algorithm:\n  clip: -1\n", ["algorithm.clip=-1", "above 0"]),
        ("algorithm:\n  clip: [\n", ["mine.yaml", "line 4"]),
        ("defaults:\n  - override /generator: vlm\n", ["generator=vlm", "hf, vllm", "did you mean vllm?"]),
    ],
)
def test_a_mistake_in_a_file_is_told_with_the_file_or_key(refusal, tmp_path, text, told):
    message = refusal(*write(tmp_path, text))
    assert [part for part in told if part not in message] == []


def test_a_job_runner_chosen_in_a_file_is_refused(refusal, tmp_path):
    words = write(tmp_path, "defaults:\n  - override /hydra/launcher: other\n")
    runner = tmp_path / "hydra/launcher/other.yaml"
    runner.parent.mkdir(parents=True)
    runner.write_text("_target_: hydra._internal.core_plugins.basic_launcher.BasicLauncher\n")
    assert "hydra/launcher=other in a file has no effect" in refusal(*words)


def test_a_value_outside_its_usual_range_warns_once_with_the_effect(loaded):
    (warning,) = loaded("algorithm.epochs=20").warnings
    assert warning == "algorithm.epochs=20 is outside the usual range 1..10: many passes overfit old answers"


def test_sixteen_bit_generators_warn_about_the_strict_check(loaded):
    (warning,) = loaded("generator.dtype=bfloat16").warnings
    assert "check=bfloat16" in warning
    assert loaded("generator.dtype=bfloat16", "check=bfloat16").warnings == ()


def test_an_empty_resume_is_no_resume(start):
    with pytest.raises(ConfigError, match=r"^resume= is empty; accepted is the directory of an earlier run"):
        load(["resume="], start)
