"""Failpoints: named points between the steps of the protocol at which a process can be stopped.

For crash tests, and for operators' drills: MEDUSA_FAILPOINT names a point (and, after a colon,
which of its passes: `commit.before:3`), MEDUSA_FAILPOINT_FILE a file. When the process reaches
the point it writes the name into the file and waits until it is ended or continued from outside
(it never continues by itself while the file exists). Without the variables a point costs a
look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count

from pipelines.base import clock
from pipelines.base.settings import FAILPOINT, FAILPOINT_FILE, Failpoint

POINT, FILE = FAILPOINT, FAILPOINT_FILE
LOOK_AGAIN_S = 0.02
POINTS = (
    "land.written",
    "land.logged",
    "close.decided",
    "close.written",
    "close.committed",
    "step.decided",
    "step.computed",
    "step.written",
    "step.synced",
    "step.committed",
    "import.fetched",
    "import.committed",
    "import.acknowledged",
    "trim.committed",
    "compact.written",
    "compact.committed",
    "orphans.aside",
)
"""Every point, in the order in which a record passes them."""

LATE_POINTS = ("late.decided", "late.written", "late.admitted")
"""Those of a revision by late records, in homes with a source that declares it."""

OBJECT_POINTS = ("objects.put",)
"""Those of files that are objects, each time that one is put."""

REVISION_POINTS = ("revise.decided", "revise.written", "revise.made")
"""Those of `medusa revise`, once the operator has agreed."""

DELIVERY_POINTS = (
    "sink.prepared",
    "sink.decided",
    "sink.written",
    "sink.renamed",
    "sink.committed",
    "sink.recorded",
)
"""Those of delivering a run to a sink, in the background; a table has no `sink.renamed`."""

AGREEMENT_POINTS = (
    "agreement.verified",
    "agreement.taken",
    "agreement.signed",
    "agreement.sealed",
    "agreement.sent",
    "agreement.acknowledged",
)
"""Those of a contract synchronisation, in the background."""

ROUND_POINTS = (
    "round.opened",
    "round.taken",
    "round.decided",
    "round.applied",
    "round.sent",
)
"""Those of a tick in the market, in the background."""

SETTLEMENT_POINTS = ("settlement.counted", "settlement.stated", "settlement.answered")
"""Those of a settlement, in the background: of each contract, and of each answer."""

SUPERVISION_POINTS = (
    "supervise.intended",
    "supervise.spawned",
    "job.started",
    "job.begun",
    "job.ended",
)
"""Those of a participant's process: before it is made, before that is recorded, before it takes its
job up, before it runs the participant, and after it has recorded that its job has ended."""

CHOICE_POINTS = ("choice.decided", "choice.committed")
"""Those of choosing among several producers of a stream, in homes where there are some."""

JOINING_POINTS = ("partner.joined", "partner.confirmed")
"""Those of accepting an invitation: after the inviter has stored the partner, and after it has
issued the first token."""

_passes: Iterator[int] = count(1)
_visitors: list[Callable[[str], None]] = []


@contextmanager
def visited_by(visitor: Callable[[str], None]) -> Iterator[None]:
    """Tell somebody of every point that this process reaches: the simulator, for one."""
    _visitors.append(visitor)
    try:
        yield
    finally:
        _visitors.remove(visitor)


def reached(point: str) -> None:
    """Stand still here if the environment says so."""
    for visitor in _visitors:
        visitor(point)
    stops_at = _failpoint()
    if stops_at is None or point != stops_at.point or next(_passes) != stops_at.pass_number:
        return
    stops_at.file.write_text(point)
    while stops_at.file.exists():
        clock.sleep_s(LOOK_AGAIN_S)


@cache
def _failpoint() -> Failpoint | None:
    return Failpoint.from_environment()
