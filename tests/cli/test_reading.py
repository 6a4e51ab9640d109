"""What the reading commands print of a kept home."""

from __future__ import annotations

import csv
import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from medusa_core.segments import SegmentFile
from tests.cli.kept import SCRIPT, Kept
from tests.sweeps import long_but

Run = Callable[..., Any]


def exported(kept: Kept, stream: str) -> list[dict[str, str]]:
    with kept.outputs[stream].open(newline="") as file:
        return list(csv.DictReader(file))


def test_streams_lists_every_stream_and_that_it_has_ended(medusa: Run, netmon_kept: Kept) -> None:
    ran = medusa(netmon_kept, "streams", "--json")
    document = json.loads(ran.out)
    names = {"connections", "busy_sources", "scanning_sources", "scanning_prefixes"}
    assert {s["stream"] for s in document["streams"]} == names
    assert all(s["has_ended"] for s in document["streams"])
    of = {s["stream"]: s for s in document["streams"]}
    assert of["connections"]["rows"] == 6_000
    assert of["scanning_sources"]["rows"] == len(exported(netmon_kept, "scanning_sources"))
    table = medusa(netmon_kept, "streams").out
    assert "stable through" in table
    assert "6,000" in table


def test_read_gives_the_exported_rows_in_event_time_order(medusa: Run, netmon_kept: Kept) -> None:
    ran = medusa(netmon_kept, "read", "busy_sources", "--limit", "1_000_000", "--json")
    document = json.loads(ran.out)
    rows = [{k: str(v) for k, v in row.items() if k != "stime"} for row in document["rows"]]
    assert sorted(map(str, rows)) == sorted(map(str, exported(netmon_kept, "busy_sources")))
    times = [row["stime"] for row in document["rows"]]
    assert times == sorted(times)
    assert not document["has_more"]


def test_pages_by_limit_and_from_join_to_the_whole(medusa: Run, netmon_kept: Kept) -> None:
    everything = json.loads(
        medusa(netmon_kept, "read", "connections", "--limit", "100000", "--json").out
    )["rows"]
    assert len(everything) == 6_000
    few = json.loads(medusa(netmon_kept, "read", "connections", "--limit", "7", "--json").out)
    assert few["rows"] == everything[:7]
    assert few["has_more"]
    middle = everything[3_000]["stime"]
    before = json.loads(
        medusa(netmon_kept, "read", "connections", "--to", middle, "--limit", "9999", "--json").out
    )["rows"]
    after = json.loads(
        medusa(netmon_kept, "read", "connections", "--from", middle, "--limit", "9999",
               "--json").out
    )["rows"]  # fmt: skip
    assert before + after == everything


@pytest.mark.long
def test_read_opens_only_files_that_overlap(
    medusa: Run, netmon_kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.storage import segment_files

    opened: list[SegmentFile] = []
    read = segment_files.read_checked
    monkeypatch.setattr(segment_files, "read_checked", lambda root, file: (
        opened.append(file), read(root, file))[1])  # fmt: skip
    segments = netmon_kept.home.catalog.segments("connections")  # type: ignore[arg-type]
    assert len(segments) > 2
    last = segments[-1]
    start = last.range.from_us
    assert medusa(netmon_kept, "read", "connections", "--from", f"{start // 1_000_000}").code == 0
    assert set(opened) == set(last.files)
    opened.clear()
    assert medusa(netmon_kept, "read", "connections", "--limit", "1").code == 0
    assert set(opened) == set(segments[0].files)


@pytest.mark.long
def test_unix_seconds_and_iso_8601_are_the_same_time(medusa: Run, netmon_kept: Kept) -> None:
    given = ["2023-11-14T22:15:00Z", "2023-11-14T23:15:00+01:00", "2023-11-14T22:15", "1700000100"]
    outs = [medusa(netmon_kept, "read", "connections", "--from", at, "--json").out for at in given]
    assert len(set(outs)) == 1
    assert json.loads(outs[0])["rows"]


@pytest.mark.parametrize(
    "at", long_but(2, ["yesterday", "", "nan", "1e400", "2024-13-01", "infinity"])
)
def test_what_is_no_time_is_refused(medusa: Run, netmon_kept: Kept, at: str) -> None:
    ran = medusa(netmon_kept, "read", "connections", "--from", at)
    assert ran.code == 2
    assert "is no time" in ran.err


def test_an_empty_span_of_time_is_refused(medusa: Run, netmon_kept: Kept) -> None:
    ran = medusa(netmon_kept, "read", "connections", "--from", "5", "--to", "5")
    assert (ran.code, "not before" in ran.err) == (2, True)


def test_a_span_without_rows_is_an_empty_answer(medusa: Run, netmon_kept: Kept) -> None:
    ran = medusa(netmon_kept, "read", "connections", "--to", "1000000000", "--json")
    assert (ran.code, json.loads(ran.out)["rows"]) == (0, [])


def test_an_unknown_stream_is_refused_with_the_nearest_name(medusa: Run, netmon_kept: Kept) -> None:
    ran = medusa(netmon_kept, "read", "scaning_source")
    assert ran.code == 2
    assert "did you mean 'scanning_sources'?" in ran.err
    assert "it has " in medusa(netmon_kept, "read", "x").err


def test_an_unknown_participant_is_refused(medusa: Run, netmon_kept: Kept) -> None:
    ran = medusa(netmon_kept, "streams", "--participant", "nobody_here")
    assert (ran.code, "nobody_here" in ran.err) == (2, True)


def test_a_damaged_file_is_unavailable_and_named(medusa: Run, nasty_kept: Kept) -> None:
    (file,) = nasty_kept.home.catalog.segments("others")[0].files  # type: ignore[arg-type]
    path = nasty_kept.home.storage / file.path
    good = path.read_bytes()
    try:
        path.write_bytes(good[:-1])
        ran = medusa(nasty_kept, "read", "others")
    finally:
        path.write_bytes(good)
    assert ran.code == 4
    assert file.path in ran.err


def test_the_terminal_never_gets_a_control_character(medusa: Run, nasty_kept: Kept) -> None:
    for arguments in (["read", "others"], ["read", "--quarantine"], ["read", "events"]):
        ran = medusa(nasty_kept, *arguments)
        assert ran.code == 0
        assert "red" in ran.out
        strange = {c for c in ran.out if unicodedata.category(c).startswith("C")}
        assert strange == {"\n"}


def test_json_carries_every_character_as_it_is(medusa: Run, nasty_kept: Kept) -> None:
    rows = json.loads(medusa(nasty_kept, "read", "events", "--json").out)["rows"]
    assert SCRIPT in [row["who"] for row in rows]


@pytest.mark.long
def test_null_and_empty_text_are_distinguished(medusa: Run, nasty_kept: Kept) -> None:
    rows = json.loads(medusa(nasty_kept, "read", "events", "--json").out)["rows"]
    assert None in [row["who"] for row in rows]
    assert "NULL" in medusa(nasty_kept, "read", "events").out


def test_quarantine_says_where_and_why(medusa: Run, nasty_kept: Kept) -> None:
    document = json.loads(medusa(nasty_kept, "read", "--quarantine", "--json").out)
    assert document["count"] == 1
    (record,) = document["records"]
    assert record["position"] == 4
    assert record["origin"].endswith("nasty.csv")
    assert record["reason"]


def test_read_wants_a_stream_or_quarantine(medusa: Run, netmon_kept: Kept) -> None:
    ran = medusa(netmon_kept, "read")
    assert (ran.code, "--quarantine" in ran.err) == (2, True)


def test_status_tells_what_was_done_and_what_comes_next(medusa: Run, netmon_kept: Kept) -> None:
    (document,) = json.loads(medusa(netmon_kept, "status", "--json").out)["homes"]
    steps = netmon_kept.home.catalog.steps()
    assert document["steps"] == len(steps)
    assert document["networks"] == [{"network": "netmon", "plan": netmon_kept.result.plan}]
    assert document["last_step"]["phases_ms"].keys() == steps[-1].metrics.phases_ms.keys()
    assert document["storage_bytes"] > 0
    assert not any(lease["is_held"] for lease in document["leases"])
    assert any("netmon/main" in line and "ended" in line for line in document["next"])
    assert all(s["has_ended"] and s["behind_ms"] is None for s in document["streams"])
    told = medusa(netmon_kept, "status").out
    assert "it would do next" in told
    assert "ended" in told


@pytest.mark.long
def test_status_needs_no_file_of_the_network(medusa: Run, nasty_kept: Kept) -> None:
    (document,) = json.loads(medusa(nasty_kept, "status", "--json").out)["homes"]
    assert any("nasty/main" in line for line in document["next"])
