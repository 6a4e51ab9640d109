"""Certificates: the findings of a check of a closed window of a stream, law by law.

A certificate is recorded whether the check passed or not. It names the engine that recomputed
each box and the number of records of the window in quarantine; final and tentative results are
counted separately.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from medusa_core.errors import Refused
from medusa_core.frozen import freeze
from medusa_core.grid import Range
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer, Stability


class Suite(Enum):
    """The checks; the values are their names in the catalog."""

    CONVERGED = "converged"
    COMPLETE = "complete"
    BOUNDARIES = "boundaries"
    AVAILABILITY = "availability"

    @property
    def law(self) -> str:
        """The law that the check is about (docs/architecture.md)."""
        return {
            Suite.CONVERGED: "L2",
            Suite.COMPLETE: "L1",
            Suite.BOUNDARIES: "S1",
            Suite.AVAILABILITY: "S6",
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What one check found of one window of a line, as it stood at a version.

    `figures` are plain JSON values by name. `engines` maps a box to the engine that computed it
    again. `number` and `certified_at_ms` are the catalog's, once it is written down.
    """

    stream: StreamName
    producer: Producer
    version: Version
    suite: Suite
    range: Range
    passed: bool
    figures: Mapping[str, object]
    engines: Mapping[str, str] = field(default_factory=dict)
    quarantined: int = 0
    number: int | None = None
    certified_at_ms: int | None = None

    def __post_init__(self) -> None:
        freeze(self, "figures", "engines")
        if self.quarantined < 0:
            raise Refused(f"certificate of {self.stream} counts {self.quarantined} records")

    @property
    def law(self) -> str:
        """The law that it is about."""
        return self.suite.law


@dataclass(frozen=True, slots=True, kw_only=True)
class LineEvent:
    """A row that a line has or had: live from one version until another (None: still).

    `inputs_at_ms` is when the first of the inputs it was computed from had arrived as far as it
    reaches, of those that it does not lack; None where nothing is known of them, as for a source.
    """

    range: Range
    stability: Stability
    begin_version: Version
    end_version: Version | None
    committed_at_ms: int
    inputs_at_ms: int | None = None
    age_ms: int = 0
    missing: tuple[StreamName, ...] = ()
    rows: int = 0
