"""README.md of a model's directory: what it is, what it was made from, how well it did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from huggingface_hub import ModelCard, ModelCardData

from rlhf_ray.tracking.lineage import Node, decision_words, headline, short

_WHAT = {
    "policy": "A language model",
    "reward-model": "A reward model: one score for a prompt with its answer, read at the last token",
}
_HOW = {
    "policy": "AutoModelForCausalLM",
    "reward-model": "AutoModelForSequenceClassification",
}


def write_model_card(folder: Path, node: Node) -> None:
    """Write README.md. `node` is the model's, its parents included."""
    assert node.card is not None, "a model that is written has a card"
    kind = node.card.id.kind
    data = ModelCardData(
        library_name="transformers",
        pipeline_tag="text-generation" if kind == "policy" else "text-classification",
        tags=["rlhf", node.card.origin.stage],
    )
    ModelCard(f"---\n{data.to_yaml()}\n---\n{_text(node)}").save(folder / "README.md")


def _text(node: Node) -> str:
    card = node.card
    assert card is not None
    origin = card.origin
    lines = [
        f"# {node.name}",
        "",
        f"{_WHAT.get(card.id.kind, 'A model')}, made by the stage `{origin.stage}` of run `{origin.run_id}`"
        f" (seed {origin.seed}, step {card.id.version}, commit {origin.git_commit or 'unknown'}).",
        "",
        *(f"- {words}" for words in headline(card)),
        *([] if card.decision is None else [f"- {decision_words(card.decision)}"]),
        *(f"- {note}" for note in node.notes),
        "",
        "## Made from",
        "",
        *_ancestors(node, depth=0),
        "",
        "Digests, all settings and the whole history: `artifact.json` here, and `python -m rlhf_ray.lineage` on this",
        "directory.",
        "",
        "## Use",
        "",
        "```python",
        f"from transformers import AutoTokenizer, {_HOW.get(card.id.kind, 'AutoModel')}",
        "",
        'tokenizer = AutoTokenizer.from_pretrained("DIRECTORY")',
        f'model = {_HOW.get(card.id.kind, "AutoModel")}.from_pretrained("DIRECTORY")',
        "```",
    ]
    return "\n".join(lines) + "\n"


def _ancestors(node: Node, *, depth: int) -> Iterator[str]:
    for parent in node.parents:
        words = [f"**{parent.role}**: {parent.name}", f"`{short(parent.digest)}`"]
        if parent.card is not None:
            words += [f"stage {parent.card.origin.stage}, seed {parent.card.origin.seed}", *headline(parent.card)]
        yield f"{'  ' * depth}- " + ", ".join(words)
        yield from _ancestors(parent, depth=depth + 1)
