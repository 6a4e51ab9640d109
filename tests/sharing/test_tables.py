"""Snapshots and change feeds over HTTP are what the home itself reads at these versions."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from pipelines.base.settings import Settings
from pipelines.operations.stream_reading import ReadRequest, read_stream
from tests.changes.building import (
    BIG,
    EVERYTHING,
    GAP,
    STABLE,
    SUMS,
    TENTATIVE,
    next_write,
)
from tests.sharing.building import (
    Row,
    Sharing,
    apply,
    lines_of,
    newest,
    path_of,
    recall,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read(settings: Settings, stream: str, version: int, *, is_all: bool = False) -> Counter[Row]:
    """The rows of `medusa read STREAM --as-of VERSION`."""
    result = read_stream(
        settings,
        ReadRequest(
            stream=stream, part=EVERYTHING, as_of=str(version), with_tentative=is_all, limit=100_000
        ),
    ).rows
    return Counter(
        (
            EPOCH + timedelta(microseconds=at),
            *values,
            *((marks[0].value, ",".join(marks[1])) if is_all else ()),
        )
        for at, values, marks in zip(
            result.rows.stimes_us, result.rows.values, result.marks, strict=True
        )
    )


@pytest.mark.parametrize("stream", [BIG, pytest.param(SUMS, marks=pytest.mark.long)])
def test_a_snapshot_is_what_read_gives_and_the_feed_leads_from_each_version_to_each_later_one(
    sharing: Sharing, stream: str
) -> None:
    lines, chance = sharing.lines, random.Random(stream)
    name = SUMS if stream == SUMS else BIG
    while next_write(lines, chance, name, 9):
        pass
    client = sharing.client(sharing.token("acme", stream))
    last = newest(lines, name)
    assert last > 5
    for table, is_all in ((stream, False), (f"{stream}__all", True)):
        snapshots = {v: client.snapshot(table, v) for v in range(last + 1)}
        for version, rows in snapshots.items():
            assert rows == read(lines.settings, stream, version, is_all=is_all), version
        assert client.snapshot(table) == snapshots[last]
        feed = client.changes(table, 1, last)
        for version in range(last + 1):
            assert apply(Counter(), [c for c in feed if c[0] <= version]) == snapshots[version]
        for first in (2, last // 2, last):
            feed = client.changes(table, first, last)
            assert apply(snapshots[first - 1], feed) == snapshots[last]
    assert Counter() != snapshots[last]


@pytest.mark.long
def test_a_recall_takes_rows_from_the_stable_table(sharing: Sharing) -> None:
    lines = sharing.lines
    lines.write(BIG, 0, 3, {at: [("a", at)] for at in range(3)})
    lines.write(BIG, 3, 4, {3: [("b", 3)]})
    client = sharing.client(sharing.token())
    before = client.snapshot("big")
    recall(lines, BIG, 1)
    version = newest(lines, BIG)
    assert client.snapshot("big") == read(lines.settings, BIG, version)
    assert client.snapshot("big", version - 1) == before
    feed = client.changes("big", version, version)
    assert {type_ for _, type_, _ in feed} == {"delete"}
    assert apply(before, feed) == client.snapshot("big")
    lines.write(BIG, 1, 4, {2: [("c", 9)]})
    feed = client.changes("big", version, version + 1)
    assert apply(before, feed) == client.snapshot("big") == read(lines.settings, BIG, version + 1)


@pytest.mark.long
def test_trimmed_rows_are_gone_and_versions_and_feeds_over_them_are_refused(
    sharing: Sharing,
) -> None:
    lines = sharing.lines
    for at in range(6):
        lines.write(BIG, at, at + 1, {at: [("a", at)]})
    client = sharing.client(sharing.token())
    assert len(client.snapshot("big", 5)) == 5
    assert lines.trim(BIG, 3)
    for version in (4, 5, 6):
        assert client.snapshot("big", version) == read(lines.settings, BIG, version)
    assert client.snapshot("big") == client.snapshot("big", 6)
    assert len(client.snapshot("big")) == 3
    for version in (1, 2, 3):
        answer = client.query("big", {"version": version})
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "RESOURCE_EXPIRED")
    answer = client.get(f"{path_of('big')}/changes", params={"startingVersion": 2})
    assert (answer.status_code, answer.json()["errorCode"]) == (400, "RESOURCE_EXPIRED")
    assert "trimmed" in answer.json()["message"]
    assert apply(client.snapshot("big", 4), client.changes("big", 5, 6)) == client.snapshot("big")


@pytest.mark.long
def test_a_gap_has_no_rows_and_ends_no_snapshot(sharing: Sharing) -> None:
    lines = sharing.lines
    lines.write(BIG, 0, 1, {0: [("a", 1)]})
    lines.write(BIG, 1, 2, {}, GAP)
    lines.write(BIG, 2, 3, {2: [("b", 2)]})
    client = sharing.client(sharing.token())
    assert [row[1:] for row in sorted(client.snapshot("big"))] == [("a", 1), ("b", 2)]


@pytest.mark.long
def test_tentative_rows_are_in_a_table_of_their_own_until_they_are_final(sharing: Sharing) -> None:
    lines = sharing.lines
    lines.write(BIG, 0, 1, {0: [("a", 1)]})
    lines.write(BIG, 1, 2, {1: [("b", 2)]}, TENTATIVE)
    client = sharing.client(sharing.token())
    assert [row[1:] for row in client.snapshot("big")] == [("a", 1)]
    assert sorted(row[1:] for row in client.snapshot("big__all")) == [
        ("a", 1, "stable", ""),
        ("b", 2, "tentative", "src"),
    ]
    lines.write(BIG, 1, 2, {1: [("b", 2)]}, STABLE)
    feed = client.changes("big__all", 3, 3)
    assert sorted((type_, row[3:]) for _, type_, row in feed) == [
        ("delete", ("tentative", "src")),
        ("insert", ("stable", "")),
    ]
    assert client.changes("big", 3, 3)[0][1:] == ("insert", client.changes("big", 3, 3)[0][2])


def test_versions_are_found_by_time_and_others_are_refused(sharing: Sharing) -> None:
    lines = sharing.lines
    lines.write(BIG, 0, 1, {0: [("a", 1)]})
    client = sharing.client(sharing.token())
    assert client.get(f"{path_of('big')}/version").headers["Delta-Table-Version"] == "1"
    path = f"{path_of('big')}/version"
    for given in ("2020-01-01T00:00:00Z", "2020-01-01 00:00:00", "2020-01-01T00:00:00.5+02:00"):
        found = client.get(path, params={"startingTimestamp": given})
        assert found.headers["Delta-Table-Version"] == "1", given
    for parameters in ({"startingTimestamp": "2999-01-01T00:00:00Z"}, {"startingTimestamp": "x"}):
        assert client.get(path, params=parameters).status_code == 400
    for body in (
        {"version": 2},
        {"version": -1},
        {"version": True},
        {"version": 1.5},
        {"version": 10**30},
        {"version": 1, "timestamp": "2020-01-01T00:00:00Z"},
        {"timestamp": "2020-01-01T00:00:00Z"},
        {"timestamp": 7},
        {"limitHint": -1},
        {"startingVersion": 0},
        [],
    ):
        answer = client.query("big", body)
        assert (answer.status_code, answer.json()["errorCode"]) == (
            400,
            "INVALID_PARAMETER_VALUE",
        ), body
    changes = f"{path_of('big')}/changes"
    for query in (
        "", "startingVersion=2", "startingVersion=1&endingVersion=0", "startingVersion=x",
        "startingVersion=1&startingVersion=1", "startingVersion=1&startingTimestamp=2020-01-01",
        "startingVersion=9999999999999999999", "startingVersion=%00",
        "startingVersion=1&endingVersion=2",
    ):  # fmt: skip
        assert client.get(f"{changes}?{query}").status_code == 400, query


@pytest.mark.long
def test_a_limit_names_only_as_many_files_as_have_the_rows(sharing: Sharing) -> None:
    lines = sharing.lines
    for at in range(40):
        lines.write(BIG, at, at + 1, {at: [("a", at), ("b", at)]})
    client = sharing.client(sharing.token())
    assert len(lines_of(client.query("big"))) > 3
    assert len(lines_of(client.query("big", {"limitHint": 1}))) == 3
    assert len(lines_of(client.query("big", {"limitHint": 0}))) == 2


@pytest.mark.long
def test_a_table_that_grows_keeps_the_files_that_it_had(sharing: Sharing) -> None:
    lines, chance = sharing.lines, random.Random(5)
    client = sharing.client(sharing.token())
    seen: set[str] = set()
    written = 0
    for at in range(40):
        lines.write(BIG, at, at + 1, {at: [("a", chance.randrange(9))]})
        files = {one["file"]["id"] for one in lines_of(client.query("big"))[2:]}
        written += len(files - seen)
        seen |= files
    assert written <= 50, "each version writes one file, and closes a run now and then"
    assert len(files) <= 18
