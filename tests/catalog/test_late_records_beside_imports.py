"""Late records of a source that is combined with a partner's stream, whose copy is trimmed here.

What a late record needs may be trimmed in the copy only. That record is not admitted, and the
other late records of the source are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from medusa_core.errors import Refused
from medusa_core.exchange import import_fragment
from medusa_core.late_records import LateRecord
from medusa_core.line_revisions import RevisedStream
from medusa_core.names import NetworkName, Participant, StreamName, Version
from medusa_core.network import Network, Output, Source, Union
from medusa_core.plans import fingerprint_of, network_document
from medusa_core.revisions import RevisedSegment, RevisionRequest
from medusa_core.segments import Producer, Read
from pipelines.catalog.interface import Catalog
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.memory.store import ManualClock
from pipelines.catalog.records import Assignment, Deployment, LineStatus
from pipelines.participant.late_admission import LateAdmission
from pipelines.participant.revising import reach_of
from tests.catalog import building as a
from tests.catalog.homes_under_test import HomeUnderTest
from tests.catalog.test_late_records import WIDTH, NobodyToHear, late, rows_of, waiting

BETA = Participant("beta")
THEIRS = Producer(BETA)
OTHER, BOTH = StreamName("other"), StreamName("both")
LANDED, IMPORT = f"landing/{OTHER}", import_fragment(OTHER)
BUCKETS, KEPT_FROM = 5, 3
COLUMNS = {"at": "bigint", "key": "string"}
NETWORK = Network(
    name="example",
    sources=(
        Source(name="src", columns=COLUMNS, time="at", late="revise", late_every="1h"),
        Source(name="other", columns=COLUMNS, time="at"),
    ),
    boxes=(Union(name="both", inputs=("src", "other")),),
    outputs=(Output(name="both", input="both"),),
    bucket="10s",
)
DOCUMENT = json.dumps({"network": network_document(NETWORK)})
PLAN = fingerprint_of(DOCUMENT)


def deploy(catalog: Catalog, *assigned: tuple[str, Producer]) -> None:
    catalog.deploy(
        Deployment(
            network=NetworkName(NETWORK.name),
            document=DOCUMENT,
            plan=PLAN,
            plan_document=DOCUMENT,
            streams=(a.a_stream(a.SRC, "source"), a.a_stream(OTHER, "source"), a.a_stream(BOTH)),
            fragments={
                a.LANDING: ((), (a.SRC,)),
                LANDED: ((), (OTHER,)),
                IMPORT: ((), ()),
                a.MAIN: ((a.SRC, OTHER), (BOTH,)),
            },
            assignments=tuple(
                Assignment(fragment=fragment, producer=producer, epoch=a.FIRST, plan=PLAN)
                for fragment, producer in assigned
            ),
        )
    )


def import_other(reader: Catalog) -> None:
    """Beta's `other`: a record in each bucket."""
    partner = MemoryCatalog(BETA, ManualClock(1_000))
    deploy(partner, (LANDED, THEIRS))
    lease = partner.acquire_lease(a.a_key(LANDED, producer=THEIRS), a.FIRST, "them", a.HOUR_MS)
    segment = a.a_segment(0, BUCKETS, stream=OTHER, rows=dict.fromkeys(range(BUCKETS), 1))
    partner.commit(a.a_commit(segment, lease=lease, plan=PLAN))
    news = partner.line_news(OTHER, THEIRS, Version(0), segments_max=99)
    assert reader.import_line(a.a_lease(IMPORT), news, PLAN)


@pytest.fixture
def trimmed(home: HomeUnderTest) -> Catalog:
    """Alpha's `src` has late records in buckets 1, 2 and 4. All of `both` is computed from it and
    from the copy of `other`, which is trimmed before bucket 3."""
    catalog = home.catalog
    deploy(catalog, (LANDED, THEIRS), *((f, a.ME) for f in (a.LANDING, IMPORT, a.MAIN)))
    for fragment in (a.LANDING, IMPORT, a.MAIN):
        catalog.acquire_lease(a.a_key(fragment), a.FIRST, "me", a.HOUR_MS)
    import_other(catalog)
    landing = a.a_lease(a.LANDING)
    rows = dict.fromkeys(range(BUCKETS), 1)
    catalog.land(landing, a.a_batch(0, rows, quarantine=(late(1), late(2), late(4))))
    catalog.promise(landing, a.SRC, origin_us=0, boundary_us=BUCKETS * WIDTH, end_us=None)
    closed = a.a_segment(0, BUCKETS, stream=a.SRC, rows=rows)
    catalog.commit(a.a_commit(closed, lease=landing, plan=PLAN))
    whole = a.buckets(0, BUCKETS)
    reads = tuple(
        Read(output=BOTH, input=stream, producer=producer, range=whole, version=Version(1))
        for stream, producer in ((a.SRC, a.ME), (OTHER, THEIRS))
    )
    computed = a.a_segment(0, BUCKETS, stream=BOTH, rows=dict.fromkeys(range(BUCKETS), 2))
    catalog.commit(a.a_commit(computed, lineage=reads, plan=PLAN))
    needed = {a.MAIN: BUCKETS * WIDTH}
    at_us = KEPT_FROM * WIDTH
    done = catalog.trim(OTHER, THEIRS, at_us, needed=needed, segments_max=9)
    assert done.trimmed_us == at_us
    return catalog


def line_of(catalog: Catalog) -> LineStatus:
    (line,) = catalog.lines(a.SRC)
    return line


class AddedRows:
    """The buckets of late records, each with one record more for each of them."""

    def write(self, line: LineStatus, records: Sequence[LateRecord]) -> tuple[RevisedSegment, ...]:
        """See `late_admission.LateContents.write`."""
        found = [record.stime_us // WIDTH for record in records]
        return tuple(
            RevisedSegment(
                segment=a.a_segment(
                    at, at + 1, stream=line.stream.name, rows={at: 1 + found.count(at)}
                ),
                plan=PLAN,
            )
            for at in sorted(set(found))
        )

    def remove(self, path: str) -> None:
        """See `late_admission.LateContents.remove`."""
        raise AssertionError(f"{path}: the revision was refused")


def test_late_records_are_admitted_without_those_whose_other_input_is_trimmed(
    trimmed: Catalog,
) -> None:
    admission = LateAdmission(trimmed, AddedRows(), {a.SRC: 1}, NobodyToHear())
    assert admission.tick() == 1
    assert rows_of(trimmed) == {0: 1, 1: 1, 2: 1, 3: 1, 4: 2}
    assert waiting(trimmed) == {1: 1, 2: 1}, "for these `other` is trimmed"
    (done,) = trimmed.recalls(a.SRC)
    assert "those before 1970-01-01T00:00:40Z stay, because what they need is trimmed" in (
        done.because
    )
    assert admission.tick() == 0
    assert admission.has_admitted_all()


def test_a_revision_is_planned_only_where_the_copies_of_partners_lines_are_kept(
    trimmed: Catalog,
) -> None:
    reach = reach_of(trimmed, line_of(trimmed), [a.buckets(3, 5)])
    assert reach.streams == (RevisedStream(stream=BOTH, from_us=3 * WIDTH, buckets=2),)
    from_us = 3 * WIDTH
    assert {name: dict(inputs) for name, inputs in reach.needed.items()} == {
        a.MAIN: {a.SRC: from_us, OTHER: from_us, BOTH: from_us}
    }
    with pytest.raises(Refused, match="reads other from 1970-01-01T00:00:20Z on, which is trimmed"):
        reach_of(trimmed, line_of(trimmed), [a.buckets(2, 3), a.buckets(4, 5)])


def test_a_revision_that_needs_what_is_trimmed_of_a_copy_is_refused(trimmed: Catalog) -> None:
    """By medusa.revise, if the copy was trimmed after the revision was planned."""
    segment = a.a_segment(2, 3, stream=a.SRC, rows={2: 2})
    request = RevisionRequest(
        stream=a.SRC,
        producer=a.ME,
        generation=line_of(trimmed).generation,
        segments=(RevisedSegment(segment=segment, plan=PLAN),),
        because="1 late record of 1 bucket",
        who=a.ALPHA,
        needed={a.MAIN: {OTHER: 2 * WIDTH}},
        late=tuple(record.number for record in trimmed.late_records(a.SRC, [2 * WIDTH])),
    )
    with pytest.raises(Refused, match=r"example/main reads other from .* trimmed"):
        trimmed.revise(request)
    assert rows_of(trimmed) == dict.fromkeys(range(BUCKETS), 1)
    assert waiting(trimmed) == {1: 1, 2: 1, 4: 1}
