"""How near answers come to demonstrated ones."""

from __future__ import annotations

from collections.abc import Sequence

from rouge_score.rouge_scorer import RougeScorer

from rlhf_ray.types import Mean, Stats

KINDS = ("rouge1", "rouge2", "rougeL")


def rouge_stats(answers: Sequence[str], references: Sequence[str]) -> Stats:
    """F1 of unigrams, bigrams and the longest common subsequence, mean over pairs. (Lin 2004, "ROUGE")"""
    scorer = RougeScorer(list(KINDS), use_stemmer=False)
    scores = [scorer.score(reference, answer) for answer, reference in zip(answers, references, strict=True)]
    return {f"sft/{kind}": Mean(sum(score[kind].fmeasure for score in scores), len(scores)) for kind in KINDS}
