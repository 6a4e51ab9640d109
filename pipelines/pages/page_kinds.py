"""What a page is: a document of plain values, made from shared readings, and its rendering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from medusa_core.names import Participant
from pipelines.pages.readings import Read, Reading, Readings
from pipelines.pages.viewer import Viewer
from pipelines.report.markup import Markup

Document = dict[str, Any]
"""JSON values: what `/medusa/NAME.json` answers. Times are Unix milliseconds (`_ms`) or event times
in microseconds (`_us`)."""


@dataclass(slots=True, kw_only=True)
class Request:
    """Who asks for a page, about which homes, with which values after `?`; and what was read."""

    viewer: Viewer
    homes: list[Participant]
    query: Mapping[str, str]
    readings: Readings
    used: list[Reading] = field(default_factory=list)
    problems: list[Document] = field(default_factory=list)

    def of_home(self, home: Participant, part: str, read: Read) -> Any:
        """A part of a home; None if it was never read. A home that cannot be read is a problem."""
        reading = self.readings.of_home(home, part, read)
        self.used.append(reading)
        if reading.error is not None and all(one["home"] != home for one in self.problems):
            self.problems.append(
                {
                    "home": home,
                    "because": str(reading.error),
                    "since_ms": milliseconds(reading.failed_at_s),
                    "read_at_ms": milliseconds(reading.read_at_s),
                }
            )
        return reading.value

    def of_folder(self, part: str, read: Callable[[], Any]) -> Any:
        """A part of what is in no home."""
        reading = self.readings.of_folder(part, read)
        self.used.append(reading)
        return reading.value

    @property
    def read_at_ms(self) -> int | None:
        """When the oldest of what is shown was read."""
        times = [one.read_at_s for one in self.used if one.read_at_s is not None]
        return milliseconds(min(times)) if times else None


def milliseconds(at_s: float | None) -> int | None:
    """Whole milliseconds of seconds."""
    return None if at_s is None else int(at_s * 1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the site: `name` in its address, `title` in the menu."""

    name: str
    title: str
    document: Callable[[Request], Document]
    render: Callable[[Document], Markup]
