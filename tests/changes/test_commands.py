"""`medusa changes`, `cursor` and `read --as-of`, as people and programs call them."""

from __future__ import annotations

import json

import pytest

from pipelines.base.time_text import iso
from tests.changes.building import BIG, SUMS, TENTATIVE, WIDTH_US, Lines
from tests.sweeps import long_but

MONKEY = pytest.MonkeyPatch
CAPTURED = pytest.CaptureFixture[str]


@pytest.fixture
def corrected(lines: Lines) -> Lines:
    """Version 1: two stable buckets and a tentative one; version 2: that one corrected."""
    lines.commit(
        SUMS,
        lines.segment(SUMS, 0, 2, {0: [("a", 1)], 1: [("a", 2)]}, TENTATIVE),
    )
    lines.write(SUMS, 0, 1, {0: [("a", 1)]})
    lines.write(SUMS, 1, 2, {1: [("a", 3)]})
    return lines


def test_changes_are_one_document_that_names_the_position_to_go_on_behind(
    corrected: Lines, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    answer = corrected.document(monkeypatch, capsys, "changes", "sums", "--since", "1")
    told = [(c["_change_type"], c["_stability"], c["_stream_version"]) for c in answer["changes"]]
    assert told == [
        ("promote", "stable", 2),
        ("update_preimage", "stable", 3),
        ("update_postimage", "stable", 3),
    ]
    assert answer["changes"][0] == {
        "_change_type": "promote", "_stability": "stable", "_stream_version": 2, "_revision": None,
        "_bucket": 0,
    }  # fmt: skip
    assert [c["n"] for c in answer["changes"][1:]] == [2, 3]
    assert answer["changes"][1]["_bucket"] == WIDTH_US
    assert (answer["since"], answer["version"], answer["has_more"]) == (1, 3, False)
    behind = corrected.document(
        monkeypatch, capsys, "changes", "sums", "--since", answer["position"]
    )
    assert behind["changes"] == []
    assert behind["position"] == answer["position"]


def test_changes_for_people_are_a_table_and_a_sentence(
    corrected: Lines, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    assert corrected.command(monkeypatch, "changes", "sums", "--since", "0", "--limit", "1") == 0
    text = capsys.readouterr().out
    assert "insert" in text
    assert "2 changes of sums from version 0 to 1; there is more behind version 1" in text


def test_a_cursor_is_placed_read_moved_listed_and_dropped(
    corrected: Lines, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    first = corrected.document(monkeypatch, capsys, "changes", "sums", "--cursor", "mart")
    again = corrected.document(monkeypatch, capsys, "changes", "sums", "--cursor", "mart")
    assert first == again
    assert [(c["_change_type"], c["n"]) for c in first["changes"]] == [("insert", 1), ("insert", 3)]
    moved = corrected.document(
        monkeypatch, capsys, "cursor", "move", "sums", "mart", "--to", first["position"]
    )
    assert [(c["cursor"], c["version"]) for c in moved["cursors"]] == [("mart", 3)]
    behind = corrected.document(monkeypatch, capsys, "changes", "sums", "--cursor", "mart")
    assert behind["changes"] == []
    assert corrected.command(monkeypatch, "cursor", "list") == 0
    assert "mart" in capsys.readouterr().out
    assert corrected.command(monkeypatch, "cursor", "drop", "sums", "mart") == 0
    assert corrected.catalog.holds(SUMS) == ()


@pytest.mark.parametrize(
    ("words", "code", "told"),
    long_but(
        4,
        [
            (("changes", "sums"), 2, "say since when"),
            (("changes", "sums", "--since", "1", "--cursor", "m"), 2, "say since when"),
            (("changes", "sums", "--since", "x"), 2, "is no version"),
            (("changes", "sums", "--since", "9"), 2, "newest is 3"),
            (("changes", "sum", "--since", "0"), 2, "did you mean 'sums'"),
            (("changes", "sums", "--since", "1:" + "0" * 64), 6, "start again"),
            (("changes", "sums", "--cursor", "m", "--to", "5"), 2, "leave --until and --to out"),
            (("changes", "sums", "--cursor", "No"), 2, "not a name"),
            (("changes", "sums", "--cursor", "m", "--hold", "32d"), 2, "1ms to 31d"),
            (("changes", "sums", "--since", "0", "--from", "9", "--to", "1"), 2, "not before"),
            (("cursor", "move", "sums", "mart"), 2, "--to V"),
            (("cursor", "drop", "sums", "mart"), 2, "no cursor 'mart'"),
            (("cursor", "drop", "sums"), 2, "name the cursor"),
            (("read", "sums", "--as-of", "9"), 2, "newest is 3"),
            (("read", "sums", "--as-of", "1.5"), 2, "neither a version nor"),
            (("read", "sums", "--as-of", "9999-01-01"), 2, "in the future"),
        ],
        quick=True,
    ),
)
def test_what_cannot_be_told_is_refused_in_a_sentence(
    corrected: Lines, monkeypatch: MONKEY, capsys: CAPTURED,
    words: tuple[str, ...], code: int, told: str,
) -> None:  # fmt: skip
    assert corrected.command(monkeypatch, *words) == code
    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.err.count("\n") == 1


def test_a_past_version_is_read_by_its_number_and_by_the_homes_clock(
    lines: Lines, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    lines.write(BIG, 0, 1, {0: [("a", 1)]})
    lines.write(BIG, 1, 2, {1: [("t", 2)]}, TENTATIVE)
    made_us = 1_000 * lines.catalog.read_clock_ms()
    while lines.catalog.read_clock_ms() * 1_000 <= made_us:
        pass  # the next version has a later millisecond
    lines.write(BIG, 1, 2, {1: [("s", 3)]})

    def names(*words: str) -> list[str]:
        answer = lines.document(monkeypatch, capsys, "read", "big", *words)
        return [row["name"] for row in answer["rows"]]

    assert names() == ["a", "s"]
    assert names("--as-of", "0") == []
    assert names("--as-of", "2") == ["a"]
    assert names("--as-of", "2", "--stability", "all") == ["a", "t"]
    assert names("--as-of", iso(made_us), "--stability", "all") == ["a", "t"]
    assert names("--as-of", "1971-01-01") == []
    marked = lines.document(
        monkeypatch, capsys, "read", "big", "--as-of", "2", "--stability", "all"
    )
    marks = [(r["_stability"], r["_missing"]) for r in marked["rows"]]
    assert marks == [("stable", []), ("tentative", ["src"])]
    assert marked["version"] == 2
    assert lines.command(monkeypatch, "read", "big", "--stability", "all") == 0
    assert "_stability" in capsys.readouterr().out


@pytest.mark.long(quick=True)
def test_status_and_streams_show_the_progress_of_corrections(
    corrected: Lines, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    corrected.write(SUMS, 2, 3, {2: [("t", 1)]}, TENTATIVE)
    streams = corrected.document(monkeypatch, capsys, "streams")["streams"]
    (home,) = corrected.document(monkeypatch, capsys, "status")["homes"]
    for found in (streams, home["streams"]):
        (sums,) = [s for s in found if s["stream"] == "sums"]
        told = [sums[f"{name}_through_us"] for name in ("stable", "tentative", "corrected")]
        assert told == [2 * WIDTH_US, 3 * WIDTH_US, 2 * WIDTH_US]
    assert {f["state"] for f in home["fragments"]} == {"STABLE"}
    assert corrected.command(monkeypatch, "status") == 0
    text = capsys.readouterr().out
    assert "corrected through" in text
    assert max(map(len, text.splitlines())) <= 200
    assert json.dumps(home)
