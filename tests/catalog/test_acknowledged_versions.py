"""What a producer takes back is kept for a reader until it has acknowledged a later version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from medusa_core.commits import Cause
from medusa_core.errors import Refused
from medusa_core.names import Participant, StreamName, Version
from medusa_core.recalls import RecallRequest
from medusa_core.revisions import RevisedSegment, RevisionRequest
from medusa_core.trims import TrimResult
from pipelines.catalog.interface import Catalog
from tests.catalog import building as a

BETA = Participant("beta")
WIDTH, BUCKETS = a.WIDTH_US, 4
WHY = "the sensor was upside down"


@pytest.fixture
def read(catalog: Catalog) -> Catalog:
    """Four buckets of `sums`, computed from four of `src`, that beta has."""
    catalog.promise(a.a_lease(a.LANDING), a.SRC, origin_us=0, boundary_us=0, end_us=None)
    rows = dict.fromkeys(range(BUCKETS), 1)
    source = a.a_segment(0, BUCKETS, stream=a.SRC, rows=rows)
    catalog.commit(a.a_commit(source, lease=a.a_lease(a.LANDING)))
    compute(catalog, 0, BUCKETS)
    acknowledge(catalog, 1)
    return catalog


def compute(catalog: Catalog, from_: int, to: int, source: int = 1) -> None:
    segment = a.a_segment(from_, to, rows=dict.fromkeys(range(from_, to), source))
    lineage = (a.a_read(part=a.buckets(from_, to), version=source),)
    commit = a.a_commit(segment, lease=a.a_lease(a.MAIN), lineage=lineage)
    cause = Cause.NORMAL if source == 1 else Cause.CORRECTION
    catalog.commit(replace(commit, cause=cause))


def acknowledge(catalog: Catalog, version: int, to: int = BUCKETS) -> None:
    catalog.acknowledge(a.SUMS, BETA, to * WIDTH, a.HOUR_MS, replica=0, version=Version(version))


def trim(catalog: Catalog) -> TrimResult:
    return catalog.trim(
        a.SUMS, a.ME, BUCKETS * WIDTH, needed={a.TAIL: BUCKETS * WIDTH}, segments_max=99
    )


def revise(owner: Catalog, bucket: int, behind: Mapping[StreamName, int] | None = None) -> int:
    segment = a.a_segment(bucket, bucket + 1, stream=a.SRC, rows={bucket: 5})
    done = owner.revise(
        RevisionRequest(
            stream=a.SRC,
            producer=a.ME,
            generation=1,
            segments=(RevisedSegment(segment=segment, plan=a.PLAN),),
            because=WHY,
            who="ada",
            behind={a.SUMS: bucket * WIDTH} if behind is None else behind,
        )
    )
    return done.version


def recall(owner: Catalog, bucket: int) -> None:
    owner.recall(
        RecallRequest(stream=a.SUMS, producer=a.ME, from_us=bucket * WIDTH, because=WHY, who="ada")
    )


def check_held(read: Catalog, bucket: int, version: int) -> None:
    """What was taken back stays until the version in which it was replaced is acknowledged."""
    trimmed = trim(read)
    assert trimmed.held_by is not None
    assert (trimmed.held_by.holder, trimmed.held_by.purpose) == (BETA, "import")
    assert (trimmed.held_by.from_us, trimmed.trimmed_us) == (bucket * WIDTH, bucket * WIDTH)
    acknowledge(read, version - 1)
    assert trim(read).trimmed_us == bucket * WIDTH
    acknowledge(read, version)
    assert trim(read).trimmed_us == BUCKETS * WIDTH


def test_an_acknowledgement_under_way_lets_nothing_of_a_revision_be_trimmed(
    read: Catalog, owner: Catalog
) -> None:
    compute(read, 2, 3, source=revise(owner, 2))
    acknowledge(read, 1)  # sent before the revision, and arrives after it
    check_held(read, 2, version=2)


def test_what_is_acknowledged_before_a_revision_has_arrived_downstream_is_kept_for_it(
    read: Catalog, owner: Catalog
) -> None:
    """Of what a hold covers, `medusa.held_from` says what its reader has still to read."""
    version = revise(owner, 2)
    acknowledge(read, 1)  # `sums` is as it was: only its source is revised yet
    compute(read, 2, 3, source=version)
    check_held(read, 2, version=2)


def test_an_acknowledgement_under_way_lets_nothing_of_a_recall_be_trimmed(
    read: Catalog, owner: Catalog
) -> None:
    recall(owner, 1)
    compute(read, 1, BUCKETS)
    acknowledge(read, 1)
    acknowledge(read, 2)
    with pytest.raises(Refused, match="has no version 4"):
        acknowledge(read, 4)
    acknowledge(read, 1, to=1)  # an earlier one that arrives late
    assert trim(read).trimmed_us == BUCKETS * WIDTH


def test_of_several_recalls_the_earliest_range_is_kept(read: Catalog, owner: Catalog) -> None:
    """See `medusa.held_from`."""
    for bucket in (3, 1):
        recall(owner, bucket)
        compute(read, bucket, BUCKETS)
    acknowledge(read, 1)
    assert trim(read).trimmed_us == WIDTH


def test_a_revision_of_another_stream_keeps_nothing_of_this_one(
    read: Catalog, owner: Catalog
) -> None:
    """See `medusa.held_from`."""
    revise(owner, 2, behind={})
    acknowledge(read, 1)
    assert trim(read).trimmed_us == BUCKETS * WIDTH


def test_a_reader_that_has_not_followed_a_recall_renews_its_hold(
    read: Catalog, owner: Catalog
) -> None:
    recall(owner, 1)
    acknowledge(read, 1)  # behind the boundary, which is where the recall began
    compute(read, 1, BUCKETS)
    check_held(read, 1, version=2)


def test_a_reader_of_an_unknown_replica_is_refused(read: Catalog) -> None:
    with pytest.raises(Refused, match="replica 3 of stream sums has no version 1"):
        read.acknowledge(a.SUMS, BETA, 0, a.HOUR_MS, replica=3, version=Version(1))
    read.acknowledge(a.SUMS, BETA, BUCKETS * WIDTH, a.HOUR_MS)  # which version is not known
    assert trim(read).trimmed_us == BUCKETS * WIDTH
