"""python -m rlhf_ray.lineage on directories written by hand."""

import json
import shutil

import pytest
from huggingface_hub import ModelCard

from rlhf_ray.errors import ArtifactError
from rlhf_ray.lineage import main
from rlhf_ray.tracking.artifacts import ArtifactId, Candidate, Decision, Origin, Parent, write_artifact_card
from rlhf_ray.tracking.lineage import lineage_of
from rlhf_ray.tracking.model_card import write_model_card

DATA = Parent(role="data", name="reviews", digest="da7a", path=None)


def config(**changes):
    settings = {
        "seed": 1,
        "learning_rate": 5e-4,
        "run_dir": "anywhere",
        "sft": {"learning_rate": None, "num_steps": 200},
        "algorithm": {"learning_rate": None, "kl_coef": 0.05},
        "tracking": {"backend": "local"},
    }
    for key, value in changes.items():
        section, _, name = key.partition("__")
        if name:
            settings[section] = settings[section] | {name: value}
        else:
            settings[key] = value
    return settings


def make_run(root, name, settings, trackers=None):
    folder = root / name
    (folder / "artifacts").mkdir(parents=True)
    run = {"id": name, "config": settings, "trackers": trackers or {}}
    (folder / "run.json").write_text(json.dumps(run))
    return folder


def make_artifact(run_dir, name, *, stage, parents, seed=1, metrics=None, decision=None):
    folder = run_dir / "artifacts" / name
    folder.mkdir()
    (folder / "model.safetensors").write_text(f"weights of {name} of {run_dir.name}")
    return write_artifact_card(
        folder,
        identity=ArtifactId(kind="reward-model" if stage == "reward_model" else "policy", name=name, version=20),
        origin=Origin(
            run_id=run_dir.name,
            stage=stage,
            config_digest="c",
            data_fingerprint="da7a",
            git_commit=None,
            seed=seed,
            inputs="sha256:i",
        ),
        parents=parents,
        metrics=metrics or {},
        decision=decision,
    )


def parent(role, card, path):
    return Parent(role=role, name=card.id.name, digest=card.digest, path=path)


@pytest.fixture
def runs(tmp_path):
    """SFT and reward model in one run, PPO in another, with another learning rate and another beta."""
    first = make_run(
        tmp_path,
        "first",
        config(sft__learning_rate=3e-3, algorithm__kl_coef=0.1),
        trackers={"sft": {"run_id": "abc", "url": "https://tracker/abc"}},
    )
    sft = make_artifact(first, "sft-policy", stage="sft", parents=[DATA], metrics={"sft/val_loss": 1.6519})
    candidates = (
        Candidate(step=10, metrics={"reward_model/val_accuracy": 0.84}),
        Candidate(step=20, metrics={"reward_model/val_accuracy": 0.91}),
    )
    make_artifact(
        first,
        "reward-model",
        stage="reward_model",
        parents=[parent("policy", sft, "../sft-policy"), DATA],
        decision=Decision(rule="highest accuracy", chosen=20, candidates=candidates),
    )
    second = make_run(tmp_path, "second", config(seed=2, learning_rate=1e-4, tracking={"backend": "wandb"}))
    reward = lineage_of(first / "artifacts" / "reward-model", verify=True).card
    make_artifact(
        second,
        "policy",
        stage="ppo",
        seed=2,
        parents=[
            parent("policy", sft, str(first / "artifacts/sft-policy")),
            parent("reward_model", reward, str(first / "artifacts/reward-model")),
            DATA,
        ],
        metrics={"eval/gold_score": 0.88},
    )
    return first, second


def test_the_whole_ancestry_is_found_across_runs(runs):
    first, second = runs
    root = lineage_of(second, verify=True)
    assert [(node.role, node.name) for node in root.walk()] == [
        ("", "policy"),
        ("policy", "sft-policy"),
        ("data", "reviews"),
        ("reward_model", "reward-model"),
        ("policy", "sft-policy"),
        ("data", "reviews"),
        ("data", "reviews"),
        ("data", "reviews"),
    ]
    assert [node.problem for node in root.walk()] == [None] * 8
    assert {node.run_dir for node in root.walk() if node.card} == {first, second}


def test_the_tree_shows_seeds_metrics_candidates_and_what_was_set_otherwise(runs, capsys):
    first, second = runs
    assert main([str(second)]) == 0
    told = capsys.readouterr().out
    lines = [line.strip("│├└─ ") for line in told.splitlines()]
    assert lines[0].startswith("policy  sha256:")
    assert f"ppo, step 20 (latest), seed 2, run {second}" in lines
    assert f"sft, step 20 (latest), seed 1, run {first}" in lines
    assert "eval/gold_score 0.88" in lines
    assert "sft/val_loss 1.652" in lines
    assert "https://tracker/abc" in lines
    assert "best of 2 candidates: step 20, highest accuracy (step 10 0.84, step 20 0.91)" in lines
    assert "sft.learning_rate=0.003: the top-level learning_rate=0.0005 is not used" in lines
    assert "algorithm.kl_coef=0.1 here, 0.05 in the run that used it" in lines
    assert "learning_rate=0.0005 here, 0.0001 in the run that used it" in lines
    assert "tracking.backend" not in told, "does not change what is learned"


def test_a_changed_byte_is_shown_and_gives_code_1(runs, capsys):
    first, second = runs
    (first / "artifacts/sft-policy/model.safetensors").write_text("other weights")
    assert main([str(second)]) == 1
    assert "PROBLEM" in (told := capsys.readouterr().out)
    assert "model.safetensors has" in told
    assert main([str(second), "--no-check"]) == 0


def test_another_version_than_was_used_is_shown(runs):
    first, second = runs
    shutil.rmtree(first / "artifacts/sft-policy")
    folder = first / "artifacts/sft-policy"
    folder.mkdir()
    (folder / "model.safetensors").write_text("trained once more")
    write_artifact_card(
        folder,
        identity=ArtifactId(kind="policy", name="sft-policy", version=30),
        origin=Origin(
            run_id="first",
            stage="sft",
            config_digest="c",
            data_fingerprint="d",
            git_commit=None,
            seed=1,
            inputs="sha256:i",
        ),
        parents=[],
        metrics={},
        decision=None,
    )
    problem = lineage_of(second, verify=True).parents[0].problem
    assert problem is not None
    assert problem.startswith("another version (sha256:")


def test_what_is_gone_is_named_with_the_place_it_was_at(runs):
    first, second = runs
    shutil.rmtree(first)
    root = lineage_of(second, verify=True)
    assert [node.problem for node in root.parents] == [
        f"not found at {first / 'artifacts/sft-policy'}",
        f"not found at {first / 'artifacts/reward-model'}",
        None,
    ]


def test_a_moved_run_keeps_its_own_ancestry(runs):
    first, _ = runs
    moved = first.rename(first.with_name("moved"))
    root = lineage_of(moved / "artifacts" / "reward-model", verify=True)
    assert root.parents[0].folder == moved / "artifacts" / "sft-policy"
    assert root.parents[0].problem is None


def test_an_artifact_that_is_its_own_ancestor_is_refused(runs):
    first, _ = runs
    card = first / "artifacts/reward-model/artifact.json"
    card.write_text(card.read_text().replace('"../sft-policy"', '"."'))
    with pytest.raises(ArtifactError, match="is its own ancestor"):
        lineage_of(first / "artifacts/reward-model", verify=False)


def test_a_directory_without_history_is_refused_with_code_2(tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "is no artifact (no artifact.json in it) and no run with a result" in capsys.readouterr().err


def test_the_model_card_is_one_of_hugging_faces_and_tells_the_ancestry(runs, tmp_path):
    _, second = runs
    write_model_card(tmp_path, lineage_of(second, verify=False))
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.library_name == "transformers"
    assert card.data.tags == ["rlhf", "ppo"]
    assert "made by the stage `ppo` of run `second` (seed 2, step 20, commit unknown)" in card.text
    assert "- **reward_model**: reward-model, " in card.text
    assert "    - **data**: reviews, `da7a`" in card.text
    assert "AutoModelForCausalLM" in card.text
