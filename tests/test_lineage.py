"""python -m rlhf_ray.lineage on directories written by hand."""

import json
import shutil

import pytest
from huggingface_hub import ModelCard

from rlhf_ray.files.digest import folder_digest
from rlhf_ray.lineage import main
from rlhf_ray.tracking.artifacts import (
    ArtifactId,
    Candidate,
    Decision,
    Origin,
    Parent,
    read_artifact,
    write_artifact_card,
    write_lineage,
)
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


def make_artifact(run_dir, name, *, stage, parents, seed=1, metrics=None, decision=None, weights="weights"):
    folder = run_dir / "artifacts" / name
    folder.mkdir()
    (folder / "model.safetensors").write_text(f"{weights} of {name} of {run_dir.name}")
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
    assert "candidates: step 10 0.84, step 20 0.91; best: step 20 (highest accuracy)" in lines
    assert [line for line in lines if line.startswith("policy: sft-policy")][1].endswith(", as above")
    assert "sft.learning_rate=0.003: the top-level learning_rate=0.0005 is not used" in lines
    assert "algorithm.kl_coef" not in told, "decides about neither of the two"
    assert "sft.learning_rate=0.003 here, None in the run that used it" in lines
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


def test_an_artifact_that_is_its_own_ancestor_is_told(runs, capsys):
    first, _ = runs
    card = first / "artifacts/reward-model/artifact.json"
    card.write_text(card.read_text().replace('"../sft-policy"', '"."'))
    assert main([str(first / "artifacts/reward-model"), "--no-check"]) == 1
    told = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert "is its own ancestor: one of the cards on the way was changed" in told


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("{", "", "(JSONDecodeError: "),
        ('"digest"', '"digset"', "(KeyError: 'digest')"),
        ('"metrics"', '"metrics": [], "m"', "AttributeError"),
        ('"sft/val_loss": 1.6519', '"sft/val_loss": "low"', "a metric is no number"),
        ('"path": null', '"path": 5', "a name, a path or a digest is no text"),
    ],
    ids=["not JSON", "without digest", "metrics a list", "metric a text", "path a number"],
)
def test_a_damaged_card_on_the_way_is_told_and_the_rest_is_shown(runs, capsys, old, new, words):
    first, second = runs
    card = first / "artifacts/sft-policy/artifact.json"
    card.write_text(card.read_text().replace(old, new, 1))
    assert main([str(second)]) == 1
    told = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert f"PROBLEM: {card} cannot be read as an artifact's card" in told
    assert words in told
    assert "reward_model: reward-model" in told


def test_an_artifact_that_is_not_the_one_of_its_runs_record_is_told(runs):
    first, second = runs
    made = [read_artifact(first / "artifacts" / name, verify=True) for name in ("sft-policy", "reward-model")]
    write_lineage(first, run_id="first", made=made, used=[DATA])
    assert [node.problem for node in lineage_of(second, verify=True).parents] == [None, None, None]
    shutil.rmtree(first / "artifacts/sft-policy")
    make_artifact(first, "sft-policy", stage="sft", parents=[DATA], seed=7)
    problem = lineage_of(first / "artifacts/sft-policy", verify=True).problem
    assert problem is None, "the same files"
    shutil.rmtree(first / "artifacts/sft-policy")
    make_artifact(first, "sft-policy", stage="sft", parents=[DATA], weights="others")
    problem = lineage_of(first / "artifacts/sft-policy", verify=True).problem
    assert problem is not None
    assert f"than {first}/lineage.json has" in problem


def test_a_damaged_lineage_file_is_told_with_the_remedy(runs, capsys):
    first, second = runs
    (first / "lineage.json").write_text('{"made": [{"name": "sft-policy"}]}')
    assert main([str(second)]) == 1
    told = " ".join(capsys.readouterr().out.replace("│", "").split())
    assert f"{first}/lineage.json cannot be read (KeyError: 'digest'); resume={first} writes it anew" in told


def test_a_changed_directory_without_a_card_is_told(tmp_path):
    base = tmp_path / "base-model"
    base.mkdir()
    (base / "model.safetensors").write_text("weights")
    run = make_run(tmp_path, "run", config())
    used = Parent(role="base", name="base-model", digest=folder_digest(base, exclude=()), path=str(base))
    make_artifact(run, "sft-policy", stage="sft", parents=[used, DATA])
    assert [node.problem for node in lineage_of(run, verify=True).parents] == [None, None]
    (base / "model.safetensors").write_text("weightS")
    assert lineage_of(run, verify=True).parents[0].problem == f"the files in {base} are not those that were used"


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
