"""What a page is: a document of plain values, made from shared readings, and its rendering."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.pages.dag_runs import DagRun, RunSource, seen_runs
from pipelines.pages.readings import HomePart, Read, Reading, Readings
from pipelines.pages.viewer import Viewer
from pipelines.report.markup import Markup

Document = dict[str, Any]
"""JSON values: what `/medusa/NAME.json` answers. Times are Unix milliseconds (`_ms`) or event times
in microseconds (`_us`)."""


@dataclass(slots=True, kw_only=True)
class Request:
    """The viewer of a page, the homes that they see, the values after `?`, and the readings used.

    `sees_all`: no home of the folder is hidden. `runs` reads the last runs of DAGs. `parts` is what
    was read; `read_s` is the time that reading has taken.
    """

    viewer: Viewer
    homes: list[Participant]
    query: Mapping[str, str]
    readings: Readings
    sees_all: bool
    runs: RunSource | None = None
    used: list[Reading] = field(default_factory=list, init=False)
    parts: list[HomePart] = field(default_factory=list, init=False)
    read_s: float = field(default=0.0, init=False)
    problems: list[Document] = field(default_factory=list, init=False)

    def of_home(self, home: Participant, part: str, read: Read) -> Any:
        """A part of a home; None if it was never read. A home that cannot be read is a problem."""
        return self._of(part, read, [home])[home]

    def of_homes(self, part: str, read: Read) -> dict[Participant, Any]:
        """A part of all homes, read at the same time; those that were never read are left out."""
        found = self._of(part, read, self.homes)
        return {home: value for home, value in found.items() if value is not None}

    def of_folder(self, part: str, read: Callable[[], Any]) -> Any:
        """A part of what is in no home."""
        (reading,) = self._read([HomePart(None, part, read)])
        return reading.value

    def last_runs(self) -> list[DagRun] | None:
        """The last runs of DAGs with a form that the viewer may see; None if they may see none."""
        if self.runs is None or not self.viewer.may_see_runs:
            return None
        runs = self.of_folder("runs", self.runs) or ()
        return seen_runs(runs, self.homes, sees_all=self.sees_all)

    def _of(self, part: str, read: Read, homes: Sequence[Participant]) -> dict[Participant, Any]:
        readings = self._read([HomePart(home, part, read) for home in homes])
        for home, reading in zip(homes, readings, strict=True):
            if reading.error is not None and all(one["home"] != home for one in self.problems):
                self.problems.append(
                    {
                        "home": home,
                        "because": str(reading.error),
                        "since_ms": milliseconds(reading.failed_at_s),
                        "read_at_ms": milliseconds(reading.read_at_s),
                    }
                )
        return {home: reading.value for home, reading in zip(homes, readings, strict=True)}

    def _read(self, parts: list[HomePart]) -> list[Reading]:
        began_s = clock.monotonic_s()
        readings = self.readings.current(parts)
        self.read_s += clock.monotonic_s() - began_s
        self.used += readings
        self.parts += parts
        return readings


def read_at_ms(readings: Iterable[Reading]) -> int | None:
    """When the oldest of some readings was made."""
    times = [one.read_at_s for one in readings if one.read_at_s is not None]
    return milliseconds(min(times)) if times else None


def milliseconds(at_s: float | None) -> int | None:
    """Whole milliseconds of seconds."""
    return None if at_s is None else int(at_s * 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the site: `name` in its address, `title` in the menu.

    `values` are the names after `?` that its document depends on; others are ignored.
    """

    name: str
    title: str
    document: Callable[[Request], Document]
    render: Callable[[Document], Markup]
    values: tuple[str, ...] = ()
