"""A home with real rows whose stream `sums` has buckets of every kind, and all that a page shows of
a stream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from medusa_core.certificates import Certificate, Suite
from medusa_core.commits import Hold
from medusa_core.grid import BEGINNING_US, Range
from medusa_core.names import Version
from medusa_core.revisions import RevisedSegment, RevisionRequest
from medusa_core.segments import Stability
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import open_home
from tests.catalog import building as a
from tests.changes.building import STABLE, SUMS, TENTATIVE, Lines, some_lines
from tests.pages.pages_under_test import ALPHA, Shown

WIDTH_US = a.WIDTH_US
LENGTH = 60
TENTATIVE_AT, CORRECTED_AT = range(40, 50), range(40, 46)
GAP_AT, REVISED_AT = range(52, 54), (20, 21)
HOSTILE = "<script>alert('in')</script>\u202e&\""
BOUND = """
INSERT INTO medusa.stream_promise (stream, bound_ms) VALUES ('sums', 30000)
ON CONFLICT (stream) DO UPDATE SET bound_ms = 30000
"""


@dataclass
class StreamHome:
    """Alpha's home, and the site that shows it."""

    lines: Lines
    shown: Shown

    @property
    def page(self) -> str:
        """The address of `sums`."""
        return "streams?home=alpha&stream=sums"


@contextmanager
def stream_home(server: EmbeddedServer, folder: Path) -> Iterator[StreamHome]:
    """`src` lands and is revised; `sums` is computed from it, without it for a while, and
    corrected in part."""
    with some_lines(server, folder) as lines:
        shown = Shown(lines.settings, server)
        with closing(shown.readings):
            _land(lines)
            _compute(lines)
            _revise(lines)
            _read(lines, shown)
            yield StreamHome(lines, shown)


def _land(lines: Lines) -> None:
    catalog, lease = lines.catalog, a.a_lease(a.LANDING)
    lines.catalog.acquire_lease(a.a_key(a.LANDING), a.FIRST, "me", a.HOUR_MS)
    rows = dict.fromkeys(range(LENGTH), 3)
    bad = replace(a.a_bad_record(), content=HOSTILE, reason=f"no number: {HOSTILE}")
    catalog.land(lease, a.a_batch(0, rows, quarantine=(bad, a.a_bad_record("late"))))
    catalog.promise(lease, a.SRC, origin_us=0, boundary_us=LENGTH * WIDTH_US, end_us=None)
    for begin, end in ((0, 40), (40, LENGTH)):
        part = dict.fromkeys(range(begin, end), 3)
        source = a.a_segment(begin, end, stream=a.SRC, rows=part)
        catalog.commit(a.a_commit(source, lease=lease))


def _compute(lines: Lines) -> None:
    for begin, end in ((0, 20), (20, 30), (30, 40)):
        _write(lines, begin, end, {at: values(at) for at in range(begin, end)}, STABLE)
    for at in TENTATIVE_AT:
        _write(lines, at, at + 1, {at: values(at)}, TENTATIVE)
    _write(lines, 50, 52, {50: values(50)}, STABLE)
    _write(lines, GAP_AT[0], GAP_AT[-1] + 1, {}, Stability.GAP)
    _write(lines, GAP_AT[-1] + 1, LENGTH, {}, STABLE)
    for at in (CORRECTED_AT[0], CORRECTED_AT[-1]):
        _write(lines, at, at + 1, {at: [(HOSTILE, 7), ("b", at)]}, STABLE)
    between = CORRECTED_AT[1:-1]
    _write(lines, between[0], between[-1] + 1, {at: values(at) for at in between}, STABLE)


def values(at: int) -> list[tuple[str, int]]:
    """The rows of a bucket as they were computed first."""
    return [(HOSTILE, at), ("a", 1)]


def _write(
    lines: Lines,
    begin: int,
    end: int,
    contents: Mapping[int, Sequence[tuple[str, int]]],
    stability: Stability,
) -> None:
    """A segment with the lineage of a step: what it read of `src`."""
    segment = lines.segment(SUMS, begin, end, contents, stability)
    source = next(s for s in lines.catalog.segments(a.SRC) if s.range.to_us > begin * WIDTH_US)
    read = a.a_read(part=a.buckets(begin, end), version=int(source.version))
    lineage = () if stability is Stability.GAP else (read,)
    lines.catalog.commit(a.a_commit(segment, lease=lines.leases[SUMS], lineage=lineage))


def _revise(lines: Lines) -> None:
    parts = tuple(
        RevisedSegment(
            segment=a.a_segment(at, at + 1, stream=a.SRC, rows={at: 5}), plan=a.PLAN
        )
        for at in REVISED_AT
    )  # fmt: skip
    request = RevisionRequest(segments=parts, stream=a.SRC, producer=a.ME, generation=1,
                              because="read twice <b>x</b>", who="ada")  # fmt: skip
    with open_home(lines.settings, ALPHA, as_owner=True) as home:
        home.catalog.revise(request)


def _read(lines: Lines, shown: Shown) -> None:
    """Readers, grants, certificates, the bound."""
    catalog = lines.catalog
    catalog.place_hold(Hold(stream=SUMS, holder="beta", purpose="import", from_us=30 * WIDTH_US,
                            limit_ms=86_400_000))  # fmt: skip
    catalog.place_cursor(SUMS, "billing", a.ME, from_us=BEGINNING_US, limit_ms=3_600_000)
    for suite, passed in ((Suite.CONVERGED, True), (Suite.CONVERGED, False)):
        catalog.record_certificate(
            Certificate(stream=SUMS, producer=a.ME, version=Version(60), suite=suite,
                        range=Range(0, 30 * WIDTH_US), passed=passed,
                        figures={"rows": 60, "differing": 0 if passed else 2})
        )  # fmt: skip
    shown.sql(ALPHA, BOUND)
    shown.sql(ALPHA, "INSERT INTO medusa.participant VALUES ('beta') ON CONFLICT DO NOTHING")
    shown.sql(ALPHA, "INSERT INTO medusa.stream_grant (stream, partner, reason, granted_by) "
                     "VALUES ('sums', 'beta', 'owner', 'ada')")  # fmt: skip
    shown.sql(ALPHA, "INSERT INTO medusa.transition (fragment, partition, participant, replica, "
                     "state, because) VALUES ('example/main', 0, 'alpha', 0, 'STABILIZATION', "
                     "'4 buckets are owed')")  # fmt: skip
