"""Four real processes: a producer is killed, the other cut off, the first started again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from medusa_core.digest import Digest
from medusa_core.grid import Range
from medusa_core.names import Participant, StreamName
from medusa_core.segments import IMPORT, Producer, Segment, Stability
from pipelines.changes.line_versions import line_of
from pipelines.participant.home_session import HomeSession, open_session
from pipelines.platform.drills.link_faults import LinkFaults, Lost, write_faults
from pipelines.storage.arrow_schema import STIME
from pipelines.storage.segment_rows import columns_of, read_segments
from tests.federation.building import write_replicated
from tests.federation.processes import Installation, installation, kill
from tests.waiting import until

GIVEN, COUNTED, BUSY = map(StreamName, ("given", "counted", "busy"))
ALPHA, BETA, GAMMA, DELTA = map(Participant, ("alpha", "beta", "gamma", "delta"))
CHOSEN = Producer(DELTA, IMPORT)
SECOND_US = 1_000_000
START_S_MAX = 240


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installation]:
    given = "source: {kind: generate, seed: 1, rate_per_s: 10, sources: 4}\n"
    with installation(write_replicated(tmp_path / "contracts", given=given)) as made:
        yield made


def through_us(installed: Installation) -> int:
    """Up to where the reader has its output as final."""
    with open_session(installed.settings, DELTA) as session:
        return line_of(session.home.catalog, BUSY).stable_through_us or 0


def reads(installed: Installation, of: Participant, after_us: int) -> bool:
    """Whether the reader reads a producer's rows behind a time."""
    with open_session(installed.settings, DELTA) as session:
        catalog = session.home.catalog
        found = catalog.segments(COUNTED, Range(after_us, 2**62), producer=CHOSEN)
        return any(r.producer.participant == of for row in found for r in catalog.lineage(row))


def rows_of(
    home_session: HomeSession, stream: StreamName, segments: tuple[Segment, ...], part: Range
) -> pa.Table:
    record = line_of(home_session.home.catalog, stream).stream
    return pa.concat_tables(
        list(read_segments(home_session.home.storage, segments, columns_of(record), part))
    )


def digests(segments: tuple[Segment, ...]) -> dict[int, Digest]:
    return {at_us: digest for segment in segments for at_us, digest in segment.buckets.items()}


@pytest.mark.long
def test_rows_are_exact_and_none_is_there_twice_whoever_is_killed_or_cut_off(
    installed: Installation,
) -> None:
    ways = LinkFaults(lost=(Lost(GAMMA, DELTA), Lost(DELTA, GAMMA)))
    with ExitStack() as stack:
        running = {name: installed.start(name) for name in (ALPHA, BETA, GAMMA, DELTA)}
        for name in running:
            stack.callback(lambda name=name: kill(running[name]))

        def goes_on(until_us: int, what: str) -> int:
            until(lambda: through_us(installed) >= until_us, what, seconds_max=START_S_MAX)
            return through_us(installed)

        until(lambda: through_us(installed) > 0, "the reader begins", seconds_max=START_S_MAX)
        both_us = goes_on(through_us(installed) + 2 * SECOND_US, "both are read")

        kill(running[BETA])
        until(
            lambda: reads(installed, GAMMA, both_us),
            "gamma is read once beta is dead",
            seconds_max=START_S_MAX,
        )
        alone_us = goes_on(through_us(installed) + 3 * SECOND_US, "gamma is read on")

        write_faults(installed.folder, ways)
        running[BETA] = installed.start(BETA)
        until(
            lambda: reads(installed, BETA, alone_us),
            "beta is read once gamma is cut off",
            seconds_max=START_S_MAX,
        )
        goes_on(through_us(installed) + 3 * SECOND_US, "beta is read on")
        write_faults(installed.folder, LinkFaults())
        goes_on(through_us(installed) + 3 * SECOND_US, "both are read again")

    with open_session(installed.settings, DELTA) as session:
        catalog = session.home.catalog
        chosen = catalog.segments(COUNTED, producer=CHOSEN)
        whole = Range(chosen[0].range.from_us, chosen[-1].range.to_us)
        events = catalog.history(COUNTED, CHOSEN, whole)
        assert {event.stability for event in events} == {Stability.STABLE}
        assert {s.stability for s in catalog.segments(BUSY)} == {Stability.STABLE}
        assert catalog.divergences() == ()
        rows = rows_of(session, COUNTED, chosen, whole)
        mine = digests(chosen)
    computed: dict[int, Digest] = {}
    for replica, name in enumerate((BETA, GAMMA)):
        with open_session(installed.settings, name) as session:
            own = session.home.catalog.segments(COUNTED, producer=Producer(name, replica))
            computed |= digests(own)
    assert mine == {at_us: computed[at_us] for at_us in mine}
    # The windows tile the time that they cover: each record is counted in one of them.
    with open_session(installed.settings, ALPHA) as session:
        given = session.home.catalog.segments(GIVEN)
        records = rows_of(session, GIVEN, given, whole)
    # What a window counts is known at its end.
    counted = pc.sum(pc.less_equal(records[STIME], pc.max(rows[STIME]))).as_py()
    assert pc.sum(rows["n"]).as_py() == counted > 0
