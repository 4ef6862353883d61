"""Which results are made from the same inputs."""

import dataclasses
from dataclasses import replace

import pytest

from rlhf_ray.config.schema import TrainConfig
from rlhf_ray.pipeline.reuse import code_digest, find_result, inputs_digest
from rlhf_ray.tracking.artifacts import ArtifactId, Origin, Parent, write_artifact_card

GIVEN = (Parent(role="policy", name="p", digest="sha256:p", path="../p"),)


def digest(stage="sft", *, given=GIVEN, code="c", **changes):
    config = TrainConfig()
    for key, value in changes.items():
        section, _, name = key.partition("__")
        if name:
            changed = dataclasses.replace(getattr(config, section), **{name: value})
            config = dataclasses.replace(config, **{section: changed})
        else:
            config = dataclasses.replace(config, **{section: value})
    return inputs_digest(config, stage, given, code=code)


@pytest.mark.parametrize("stage", ["sft", "reward_model", "ppo"])
@pytest.mark.parametrize(
    "change",
    [
        {"seed": 2},
        {"learning_rate": 1e-3},
        {"model__hidden_size": 64},
        {"learner__max_grad_norm": 2.0},
        {"code": "d"},
        {"given": (replace(GIVEN[0], digest="sha256:q"),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_a_result_follows_from_changes_its_inputs(stage, change):
    assert digest(stage, **change) != digest(stage)


@pytest.mark.parametrize(
    "change",
    [
        {"run_dir": "elsewhere"},
        {"model__path": "elsewhere"},
        {"given": (replace(GIVEN[0], path="/elsewhere", name="other"),)},
        {"tracking__backend": "wandb"},
        {"placement__backend": "local"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_where_things_lie_and_what_is_watched_does_not(change):
    assert digest("ppo", **change) == digest("ppo")


def test_a_stage_does_not_depend_on_the_settings_of_later_ones():
    assert digest("sft", reward_model__epochs=9, algorithm__kl_coef=0.1) == digest("sft")
    assert digest("reward_model", algorithm__kl_coef=0.1) == digest("reward_model")
    assert digest("reward_model", algorithm__temperature=0.7) != digest("reward_model"), "its answers are sampled so"
    assert digest("ppo", algorithm__kl_coef=0.1) != digest("ppo")
    assert digest("sft") != digest("reward_model")


def write(folder, *, inputs):
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_text("weights")
    write_artifact_card(
        folder,
        identity=ArtifactId(kind="policy", name="sft-policy", version=1),
        origin=Origin(
            run_id="r",
            stage="sft",
            config_digest="c",
            data_fingerprint="d",
            git_commit=None,
            seed=1,
            inputs=inputs,
        ),
        parents=[],
        metrics={},
        decision=None,
    )
    return folder


def test_the_newest_undamaged_result_of_the_same_inputs_is_found(tmp_path):
    first = write(tmp_path / "1" / "artifacts" / "sft-policy", inputs="a")
    second = write(tmp_path / "2" / "artifacts" / "sft-policy", inputs="a")
    write(tmp_path / "3" / "artifacts" / "sft-policy", inputs="b")
    assert find_result(tmp_path, "sft-policy", inputs="a") == second
    (second / "model.safetensors").write_text("weightS")
    assert find_result(tmp_path, "sft-policy", inputs="a") == first
    assert find_result(tmp_path, "sft-policy", inputs="c") is None
    assert find_result(tmp_path, "reward-model", inputs="a") is None


def test_the_code_has_one_digest():
    assert code_digest() == code_digest()
    assert code_digest().startswith("sha256:")
