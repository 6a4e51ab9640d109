"""`medusa recall` and `medusa explain diverged`, as people and programs call them."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace

import pytest

from medusa_core.names import Participant
from medusa_core.segments import Producer
from pipelines.base.time_text import iso
from tests.catalog import building as a
from tests.changes.building import SUMS, TENTATIVE, WIDTH_US, Lines, apply, held
from tests.sweeps import long_but

MONKEY = pytest.MonkeyPatch
CAPTURED = pytest.CaptureFixture[str]
BETA = Producer(Participant("beta"))


@pytest.fixture
def written(lines: Lines) -> Lines:
    """Four stable buckets of `sums` and a tentative one."""
    lines.write(SUMS, 0, 2, {0: [("a", 1)], 1: [("b", 1)]})
    lines.write(SUMS, 2, 4, {2: [("a", 2)], 3: [("c", 7), ("c", 7)]})
    lines.write(SUMS, 4, 5, {4: [("d", 1)]}, TENTATIVE)
    return lines


def begins(bucket: int) -> tuple[str, str]:
    return ("--from", iso(bucket * WIDTH_US))


def test_a_recall_is_shown_before_it_is_made_and_then_made(
    written: Lines, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    asked = ("recall", "sums", *begins(3), "--because", "the sensor stood still")
    plan = written.document(monkeypatch, capsys, *asked, "--explain")
    assert plan["explained"]
    assert [(one["from_us"], one["segments"], one["rows"]) for one in plan["lines"]] == [
        (3 * WIDTH_US, 2, 3)
    ]
    assert written.catalog.recalls() == ()
    assert written.command(monkeypatch, *asked, "--yes") == 0
    assert "taken back: 3 rows" in capsys.readouterr().out
    (done,) = written.catalog.recalls()
    assert (done.because, done.generation) == ("the sensor stood still", 2)
    assert written.document(monkeypatch, capsys, "read", "sums")["rows"][-1]["n"] == 2
    past = written.document(monkeypatch, capsys, "read", "sums", "--as-of", "3")
    assert [row["n"] for row in past["rows"]] == [1, 1, 2, 7, 7]


class Terminal(io.StringIO):
    """What a person types."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_is_asked_and_nothing_else_goes_on_without_yes(
    written: Lines, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    asked = ("recall", "sums", *begins(3), "--because", "why")
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    assert written.command(monkeypatch, *asked) == 2
    assert "--yes" in capsys.readouterr().err
    for typed in ("no\n", "\n", ""):
        monkeypatch.setattr(sys, "stdin", Terminal(typed))
        assert written.command(monkeypatch, *asked) == 0
        assert "nothing was changed" in capsys.readouterr().out
    assert written.catalog.recalls() == ()
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))
    assert written.command(monkeypatch, *asked) == 0
    assert len(written.catalog.recalls()) == 1


@pytest.mark.parametrize(
    ("words", "says"),
    long_but(
        4,
        [
            (("summs", *begins(1), "--because", "x"), "sums"),
            (("sums", "--from", "12", "--because", "x"), "no bucket"),
            (("sums", "--from=-10", "--because", "x"), "begins at"),
            (("sums", *begins(5), "--because", "x"), "reaches to"),
            (("sums", "--from", "99999999990", "--because", "x"), "reaches to"),
            (("sums", "--from", "9e12", "--because", "x"), "reaches to|no bucket"),
            (("sums", "--from", "yesterday", "--because", "x"), "no time"),
            (("sums", *begins(1)), "--because"),
            (("sums", *begins(1), "--because", ""), "empty|--because"),
            (("sums", *begins(1), "--because", "x" * 10_000_000), "characters"),
            (("sums", *begins(1), "--because", "a\x1b[31mb"), "control character"),
            (("sums", *begins(1), "--because", "a\nb"), "line break"),
            (("sums", *begins(1), "--follow", "nobody"), "no partner"),
            (("sums", *begins(1), "--follow", "../x"), "not a name"),
            (("src", *begins(1), "--because", "x"), "not begun"),
        ],
        quick=True,
    ),
    ids=lambda given: given[:24] if isinstance(given, str) else " ".join(given)[:40],
)
def test_what_makes_no_recall_is_refused_in_a_sentence(
    words: tuple[str, ...],
    says: str,
    written: Lines,
    monkeypatch: MONKEY,
    capsys: CAPTURED,
) -> None:
    assert written.command(monkeypatch, "recall", *words, "--yes") == 2
    output = capsys.readouterr().err
    assert any(word in output for word in says.split("|")), output
    assert "\x1b" not in output
    assert len(output) < 2_000
    assert written.catalog.recalls() == ()


@pytest.mark.long(quick=True)
def test_a_consumer_of_changes_ends_with_what_a_reader_sees(written: Lines) -> None:
    target = held([])
    apply(target, written.changes(SUMS, 0, until=2))
    owner_recalls(written, 1)
    apply(target, written.changes(SUMS, 2))
    assert sorted(at // WIDTH_US for at, _, _ in target) == [0]
    written.write(SUMS, 1, 3, {1: [("b", 5)], 2: [("a", 2)]})
    apply(target, written.changes(SUMS, written.catalog.lines(SUMS)[0].version - 1))
    assert target == written.held_at(SUMS, written.catalog.lines(SUMS)[0].version)
    # Over the recall and what came after it in one answer, too.
    target = held([])
    apply(target, written.changes(SUMS, 0, until=2))
    apply(target, written.changes(SUMS, 2))
    assert target == written.held_at(SUMS, written.catalog.lines(SUMS)[0].version)


def owner_recalls(lines: Lines, bucket: int) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        words = ("recall", "sums", *begins(bucket), "--because", "why", "--yes")
        assert lines.command(monkeypatch, *words) == 0


# ------------------------------------------------------------ divergences


@pytest.mark.long(quick=True)
def test_nothing_has_diverged_where_all_producers_agree(
    written: Lines, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    assert written.command(monkeypatch, "explain", "diverged") == 0
    assert capsys.readouterr().out == "nothing has diverged\n"
    assert written.document(monkeypatch, capsys, "explain", "diverged", "sums")["diverged"] == []
    assert written.command(monkeypatch, "explain", "diverged", "summs") == 2


def test_a_divergence_is_shown_row_by_row_and_over_once_one_side_took_it_back(
    written: Lines, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    other = replace(a.an_assignment(a.MAIN, a.SECOND), producer=Producer(a.ALPHA, 1))
    deployment = a.a_deployment(assignments=(a.an_assignment(a.MAIN), other))
    streams = tuple(dict.fromkeys(line.stream for line in written.catalog.lines()))
    written.catalog.deploy(a.replace_streams(deployment, streams))
    key = a.a_key(a.MAIN, producer=other.producer)
    lease = written.catalog.acquire_lease(key, a.SECOND, "me", a.HOUR_MS)
    rows = {0: [("a", 1)], 1: [("b", 1)], 2: [("a", 2)], 3: [("c", 7), ("\x1b[31m", 8)]}
    segment = written.segment(SUMS, 0, 4, rows, a.Stability.STABLE)
    written.catalog.commit(a.a_commit(segment, lease=lease))
    note_divergence(written, 3)

    assert written.command(monkeypatch, "explain", "diverged") == 6
    text = capsys.readouterr().out
    assert "alpha/0" in text
    assert "alpha/1" in text
    assert "\x1b" not in text
    assert "medusa recall sums --from 1970-01-01T00:00:30Z" in text
    capsys.readouterr()
    assert written.command(monkeypatch, "explain", "diverged", "sums", "--json") == 6
    (told,) = json.loads(capsys.readouterr().out)["diverged"]
    assert [(r["only_in"], r["column:name"], r["column:n"]) for r in told["differing_rows"]] == [
        ("alpha/0", "c", "7"),
        ("alpha/1", "\x1b[31m", "8"),
    ]

    # One that has rotted is no reason to keep the way out to oneself.
    (written.home.storage / segment.files[0].path).write_bytes(b"rots")
    assert written.command(monkeypatch, "explain", "diverged") == 6
    text = capsys.readouterr().out
    assert "the rows cannot be shown" in text
    assert "is damaged" in text
    assert "medusa recall sums --from 1970-01-01T00:00:30Z" in text

    owner_recalls(written, 3)
    assert written.command(monkeypatch, "explain", "diverged") == 0


def note_divergence(lines: Lines, bucket: int) -> None:
    """What the choice among both producers would have noted."""
    from sqlalchemy import create_engine, text

    from pipelines.catalog.postgres.home_database import catalog_url
    from pipelines.homes.home import role_url

    at_us = bucket * WIDTH_US
    sides = [
        next(s for s in lines.catalog.segments(SUMS, producer=Producer(a.ALPHA, replica))
             if at_us in s.buckets)
        for replica in (0, 1)
    ]  # fmt: skip
    values = {"at": at_us, "plan": a.PLAN}
    for name, side in zip(("one", "two"), sides, strict=True):
        digest = side.buckets[at_us]
        values |= {f"{name}_v": side.version, f"{name}_n": digest.rows}
        values |= {f"{name}_a": digest.sum_a, f"{name}_b": digest.sum_b}
    settings = lines.settings
    url = role_url(settings.directory, str(settings.catalog_url), a.ALPHA, "owner")
    engine = create_engine(catalog_url(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(
            text(
                "INSERT INTO medusa.divergence (stream, bucket_us, plan, participant, replica, "
                "version, rows, sum_a, sum_b, other_participant, other_replica, other_version, "
                "other_rows, other_sum_a, other_sum_b) VALUES ('sums', :at, :plan, 'alpha', "
                "0, :one_v, :one_n, :one_a, :one_b, 'alpha', 1, :two_v, :two_n, :two_a, :two_b)"
            ),
            values,
        )
    engine.dispose()
