"""python -m rlhf_ray.lineage PATH   prints what the model in PATH, or the result of the run in PATH, was made from.

Exit code: 0, 1 where something is missing or not what its card says, 2 where PATH has no history.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.text import Text
from rich.tree import Tree

from rlhf_ray.errors import RlhfRayError
from rlhf_ray.tracking.console import table_console
from rlhf_ray.tracking.lineage import Node, decision_words, headline, lineage_of, short

COMPLETE, INCOMPLETE, REFUSED = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="python -m rlhf_ray.lineage", description="what a model was made from")
    parser.add_argument("path", type=Path, help="directory of a run, or of a model with its artifact.json")
    parser.add_argument("--no-check", action="store_true", help="do not read all files to compare their digests")
    given = parser.parse_args(arguments)
    try:
        root = lineage_of(given.path, verify=not given.no_check)
    except RlhfRayError as error:
        sys.stderr.write(f"error: {error}\n")
        return REFUSED
    table_console().print(tree_of(root))
    return INCOMPLETE if any(node.problem for node in root.walk()) else COMPLETE


def tree_of(root: Node) -> Tree:
    """A node with its ancestors as branches. What is there twice has its branches where it comes first."""
    shown: set[str] = set()

    def grow(node: Node) -> Tree:
        again = bool(node.parents) and node.digest in shown
        shown.add(node.digest)
        tree = Tree(Text("\n").join(_lines(node, again=again)))
        if not again:
            tree.children.extend(map(grow, node.parents))
        return tree

    return grow(root)


def _lines(node: Node, *, again: bool) -> Iterator[Text]:
    role = f"{node.role}: " if node.role else ""
    yield Text.assemble((role, "dim"), (node.name, "bold"), f"  {short(node.digest)}" + (", as above" if again else ""))
    if node.card is not None and not again:
        origin = node.card.origin
        aliases = f" ({', '.join(node.card.aliases)})" if node.card.aliases else ""
        where = origin.run_id if node.run_dir is None else str(node.run_dir)
        yield Text(f"{origin.stage}, step {node.card.id.version}{aliases}, seed {origin.seed}, run {where}")
        if headline(node.card):
            yield Text("  ".join(headline(node.card)), style="green")
        if node.card.decision is not None and len(node.card.decision.candidates) > 1:
            yield Text(decision_words(node.card.decision))
    if node.url is not None and not again:
        yield Text(node.url)
    for note in () if again else node.notes:
        yield Text(note, style="yellow")
    if node.problem is not None:
        yield Text(f"PROBLEM: {node.problem}", style="bold red")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
