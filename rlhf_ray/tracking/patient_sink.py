"""A tracker that may hang, break or be away, and costs the training nothing but a message.

Calls are queued and done by one thread of their own, in order. Where one of them takes longer than the patience, or
raises, the tracker is left out from then on. Only `close` waits, at most as long as the patience.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping

from rlhf_ray.tracking.sink import Alert, End, MadeArtifact, Sheet, Sink, Tracked
from rlhf_ray.types import Histogram

Clock = Callable[[], float]  # monotonic seconds

# what client libraries raise for servers, networks, disks and values they do not take
TRACKER_ERRORS = (OSError, RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError)


class PatientSink:
    """Implements Sink for one that `open_sink` makes, which may take its time, too."""

    def __init__(
        self,
        open_sink: Callable[[], Sink],
        *,
        errors: tuple[type[Exception], ...],
        patience_s: float,
        tell: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._open_sink = open_sink
        self._errors: tuple[type[Exception], ...] = (*TRACKER_ERRORS, *errors)
        self._patience_s = patience_s
        self._tell = tell
        self._clock = clock
        self._calls: queue.SimpleQueue[Callable[[Sink], None] | None] = queue.SimpleQueue()
        self._begun: float | None = None  # when the call that is being done began
        self._tracked: Tracked | None = None
        self._broken: str | None = None
        self._left_out = False
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        self._thread.start()

    def metrics(self, step: int, values: Mapping[str, float | str]) -> None:
        """See Sink."""
        self._do(lambda sink: sink.metrics(step, values))

    def show(self, step: int, item: Sheet | Histogram, *, name: str) -> None:
        """See Sink."""
        self._do(lambda sink: sink.show(step, item, name=name))

    def alert(self, alert: Alert) -> None:
        """See Sink."""
        self._do(lambda sink: sink.alert(alert))

    def made(self, made: MadeArtifact) -> None:
        """See Sink."""
        self._do(lambda sink: sink.made(made))

    def close(self, end: End) -> None:
        """See Sink. Waits for what is queued, up to the patience."""
        self._do(lambda sink: sink.close(end))
        self._calls.put(None)
        if not self._left_out:
            self._thread.join(self._patience_s)
        if self._thread.is_alive() and not self._broken:
            self._broken = f"it was not done {self._patience_s:g} s after the end of the stage"
        self._check()

    def tracked(self) -> Tracked | None:
        """See Sink."""
        return self._tracked

    def _do(self, call: Callable[[Sink], None]) -> None:
        self._check()
        if not self._left_out:
            self._calls.put(call)

    def _check(self) -> None:
        """Leave the tracker out, and say so once, where it broke or hangs."""
        begun = self._begun
        if begun is not None and self._clock() - begun > self._patience_s:
            self._broken = self._broken or f"it has not answered for {self._patience_s:g} s"
        if self._broken and not self._left_out:
            self._left_out = True
            self._tell(f"tracker left out: {self._broken}; training goes on, local records are complete")

    def _work(self) -> None:
        done = False
        try:
            self._serve()
            done = True
        except self._errors as error:
            self._broken = f"{type(error).__name__}: {error}"
        finally:
            self._begun = None
            if not done:  # an error of a kind that no tracker was known to raise is printed by the thread itself
                self._broken = self._broken or "its thread has ended"

    def _serve(self) -> None:
        self._begun = self._clock()
        sink = self._open_sink()
        while True:
            self._tracked, self._begun = sink.tracked(), None
            call = self._calls.get()
            if call is None or self._left_out:
                return
            self._begun = self._clock()
            call(sink)
