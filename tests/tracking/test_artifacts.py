import json
from dataclasses import replace

import pytest

from rlhf_ray.errors import ArtifactError
from rlhf_ray.files.digest import folder_digest
from rlhf_ray.tracking.artifacts import (
    ArtifactId,
    ArtifactRef,
    Candidate,
    Decision,
    Origin,
    Parent,
    artifact_ref,
    read_artifact,
    write_artifact_card,
    write_lineage,
)

ORIGIN = Origin(
    run_id="run-7",
    stage="ppo",
    config_digest="sha256:c",
    data_fingerprint="sha256:d",
    git_commit=None,
    seed=3,
    inputs="sha256:i",
)
PARENT = Parent(role="policy", name="sft-policy", digest="sha256:p", path="../sft-policy")
DECISION = Decision(rule="highest", chosen=20, candidates=(Candidate(step=20, metrics={"eval/gold_score": 0.75}),))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "policy"
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "config.json").write_text("{}")
    return folder


def write_card(folder, decision=None):
    return write_artifact_card(
        folder,
        identity=ArtifactId(kind="policy", name="policy", version=20),
        origin=ORIGIN,
        parents=[PARENT],
        metrics={"eval/gold_score": 0.75},
        decision=decision,
    )


def test_the_card_says_what_it_is_and_where_it_comes_from(folder):
    digest = folder_digest(folder, exclude=())
    card = write_card(folder)
    content = json.loads((folder / "artifact.json").read_text())
    content.pop("files")
    assert content == {
        "kind": "policy",
        "name": "policy",
        "version": 20,
        "digest": digest,
        "run_id": "run-7",
        "stage": "ppo",
        "config_digest": "sha256:c",
        "data_fingerprint": "sha256:d",
        "git_commit": None,
        "seed": 3,
        "inputs": "sha256:i",
        "parents": [{"role": "policy", "name": "sft-policy", "digest": "sha256:p", "path": "../sft-policy"}],
        "metrics": {"eval/gold_score": 0.75},
        "aliases": ["latest"],
        "decision": None,
    }
    assert read_artifact(folder, verify=True) == card


def test_the_digest_does_not_depend_on_the_card(folder):
    assert write_card(folder).digest == write_card(folder).digest


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b"weightS"), "model.safetensors has other content"),
        (lambda folder: (folder / "config.json").unlink(), "config.json is missing"),
        (lambda folder: (folder / "extra.py").touch(), "extra.py was added"),
    ],
)
def test_a_changed_artifact_is_refused_with_the_file_named_and_only_when_asked(folder, change, message):
    write_card(folder)
    change(folder)
    with pytest.raises(ArtifactError, match=message.replace(".", r"\.")):
        read_artifact(folder, verify=True)
    assert read_artifact(folder, verify=False).id.name == "policy"


def test_a_card_with_another_digest_is_refused(folder):
    write_card(folder)
    path = folder / "artifact.json"
    path.write_text(path.read_text().replace('"digest": "sha256:', '"digest": "sha256:0', 1))
    with pytest.raises(ArtifactError, match=r"artifact\.json was changed"):
        read_artifact(folder, verify=True)


@pytest.mark.parametrize("content", ["", "[]", '{"kind": "policy"}'])
def test_a_card_that_is_none_is_refused_with_its_path(folder, content):
    (folder / "artifact.json").write_text(content)
    with pytest.raises(ArtifactError, match=r"policy/artifact\.json cannot be read"):
        read_artifact(folder, verify=False)


def test_a_folder_is_named_by_its_card_or_else_by_its_content(folder):
    without = artifact_ref(folder, allow_changed=False)
    assert without == ArtifactRef(name="policy", digest=folder_digest(folder, exclude=()))
    assert write_card(folder).ref == artifact_ref(folder, allow_changed=False)


def test_a_changed_artifact_is_refused_or_where_allowed_named_by_what_it_is_now(folder):
    card = write_card(folder)
    (folder / "model.safetensors").write_bytes(b"weightS")
    with pytest.raises(ArtifactError, match=r"model\.safetensors has other content"):
        artifact_ref(folder, allow_changed=False)
    ref = artifact_ref(folder, allow_changed=True)
    assert ref.name == "policy"
    assert ref.digest == folder_digest(folder, exclude={"artifact.json"}) != card.digest


def test_the_best_of_its_candidates_is_called_so_and_the_decision_is_kept(folder):
    card = write_card(folder, decision=DECISION)
    assert card.aliases == ("latest", "best")
    assert read_artifact(folder, verify=True) == card
    assert write_card(folder, decision=replace(DECISION, chosen=10)).aliases == ("latest",)


def test_lineage_names_what_was_made_and_what_was_used(tmp_path, folder):
    card = write_card(folder)
    write_lineage(tmp_path, run_id="run-7", made=[card], used=[PARENT])
    assert json.loads((tmp_path / "lineage.json").read_text()) == {
        "run": "run-7",
        "made": [
            {
                "kind": "policy",
                "name": "policy",
                "version": 20,
                "digest": card.digest,
                "stage": "ppo",
                "aliases": ["latest"],
                "parents": [{"role": "policy", "name": "sft-policy", "digest": "sha256:p", "path": "../sft-policy"}],
            }
        ],
        "used": [{"role": "policy", "name": "sft-policy", "digest": "sha256:p", "path": "../sft-policy"}],
    }
