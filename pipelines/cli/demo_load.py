"""The CPU of the demo's participants over time, as their processes spend it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from medusa_core.names import Participant
from pipelines.base.process_tree import ProcessTree
from pipelines.report.move_figures import LoadSpan

SPAN_MS = 1_000


@dataclass(slots=True)
class LoadSampler:
    """Measures process trees whenever `sample` is called, over a second at least."""

    clock_ms: Callable[[], int]
    spans: dict[Participant, list[LoadSpan]] = field(default_factory=dict)
    _trees: dict[Participant, ProcessTree] = field(default_factory=dict)
    _last: dict[Participant, tuple[int, int]] = field(default_factory=dict)

    def watch(self, participant: Participant, pid: int) -> None:
        """Measure a participant from now on."""
        self._trees[participant] = ProcessTree(pid)
        self._last[participant] = (self.clock_ms(), 0)
        self.spans[participant] = []

    def sample(self) -> None:
        """Measure each participant whose last sample is old enough."""
        for participant, tree in self._trees.items():
            from_ms, before_ns = self._last[participant]
            now_ms = self.clock_ms()
            if now_ms - from_ms < SPAN_MS:
                continue
            spent_ns = tree.spent_ns()
            cores = (spent_ns - before_ns) / (now_ms - from_ms) / 1e6
            self.spans[participant].append(LoadSpan(from_ms, now_ms, cores))
            self._last[participant] = (now_ms, spent_ns)
