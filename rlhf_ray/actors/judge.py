"""Held-out answers now against those of the policy that PPO starts from."""

from __future__ import annotations

from rlhf_ray.tracking.evaluation import Judged, evaluation_stats
from rlhf_ray.tracking.samples import sample_sheet
from rlhf_ray.tracking.sink import Sheet
from rlhf_ray.tracking.summary import ShownAnswer
from rlhf_ray.types import Stats


class Judge:
    """Remembers the baseline and what was judged last."""

    def __init__(self) -> None:
        self._baseline: Judged | None = None
        self._newest: Judged | None = None

    def judge(self, judged: Judged, *, is_baseline: bool) -> Stats:
        """Stats of these answers against the baseline, which has to be judged first."""
        if is_baseline:
            self._baseline = judged
        assert self._baseline is not None, "the baseline is judged first"
        self._newest = judged
        return evaluation_stats(judged, self._baseline)

    def shown(self, count: int) -> list[ShownAnswer]:
        """The first held-out prompts with the answers before and now; none where nothing was evaluated."""
        if self._baseline is None or self._newest is None:
            return []
        return [
            ShownAnswer(
                prompt=self._newest.completions.prompts.texts[row],
                before=self._baseline.completions.texts[row],
                after=self._newest.completions.texts[row],
            )
            for row in range(0, count * self._newest.num_samples, self._newest.num_samples)
        ]

    def samples(self, count: int) -> Sheet:
        """The same with their scores, for a table."""
        assert self._baseline is not None
        assert self._newest is not None
        return sample_sheet(self._baseline, self._newest, count=count)
