"""The record that every target keeps, and the operations of a target.

The record in the target is the truth about what was delivered: it changes in one piece with the
rows. It names its sink, so that no two sinks write into one target.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Protocol

import pyarrow as pa

from medusa_core.digest import Digest
from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Segment
from medusa_core.sinks import DeliveryRange, DeliveryState

NOTHING_READ = Version(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose a target is: a sink of a stream in one incarnation of a participant's home."""

    home: str
    participant: Participant
    stream: StreamName
    sink: str

    def __str__(self) -> str:
        return f"sink {self.sink} of {self.stream} of {self.participant}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRecord:
    """How far a target has come; `last` is the range delivered last, with the digest of its rows.

    `deliveries` counts how often the record was written.
    """

    owner: Owner
    through_us: int
    version: Version = NOTHING_READ
    rows: int = 0
    lost_us: int = 0
    deliveries: int = 0
    last: tuple[Range, str] | None = None

    @property
    def delivered(self) -> DeliveryState:
        """As the catalog copies it."""
        return DeliveryState(
            through_us=self.through_us,
            version=self.version,
            rows=self.rows,
            lost_us=self.lost_us,
        )

    def after(self, run: DeliveryRange) -> TargetRecord:
        """The record once a run is delivered; what was passed over before it is lost."""
        return replace(
            self,
            through_us=run.range.to_us,
            version=max(self.version, run.version),
            rows=self.rows + run.rows,
            lost_us=self.lost_us + run.lost_us + run.range.from_us - self.through_us,
            deliveries=self.deliveries + 1,
            last=(run.range, str(run.digest)),
        )

    def is_of(self, digest: Digest) -> bool:
        """Whether a digest is that of the range delivered last."""
        return self.last is not None and self.last[1] == str(digest)


def check_owner(where: str, found: Owner, expected: Owner) -> None:
    """Refuse a target of another sink, stream or home."""
    if found == expected:
        return
    other = str(found)
    if other == str(expected):
        other = f"{other} in another home, or in this one before it was made anew"
    raise Refused(
        f"{where} holds what {other} delivers, and not {expected}: give each sink a target of "
        "its own"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlay:
    """The tentative rows behind the final ones, to be shown until they are corrected."""

    segments: tuple[Segment, ...]
    rows: int

    @property
    def named(self) -> list[list[int]]:
        """What identifies its content: ranges and versions."""
        return [[s.range.from_us, s.range.to_us, s.version] for s in self.segments]


Rows = Iterator[pa.RecordBatch]


class Target(Protocol):
    """A target that is open, held by nobody else."""

    @property
    def record(self) -> TargetRecord | None:
        """What it says of itself; None if it is new and empty."""

    @property
    def resumes(self) -> Range | None:
        """The range of a run that was cut short and must be delivered first, if there is one."""

    def begin(self, record: TargetRecord) -> TargetRecord:
        """Prepare a new target: its record before anything is delivered."""

    def deliver(self, run: DeliveryRange, rows: Rows) -> TargetRecord:
        """Write a run and the record, in one piece for whoever comes after a crash."""

    def close(self) -> None:
        """Let go of it."""
