"""A partner's recall is followed when the operator says so, and not before."""

from __future__ import annotations

import json

import pytest

from pipelines.base.time_text import iso
from tests.catalog import building as a
from tests.changes.building import SUMS, WIDTH_US
from tests.recalls.building import Pair

MONKEY = pytest.MonkeyPatch
CAPTURED = pytest.CaptureFixture[str]
FROM_ONE = ("--from", iso(WIDTH_US))


def test_a_recall_is_made_told_refused_agreed_to_and_followed(
    pair: Pair, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    pair.alpha.write(SUMS, 0, 3, {0: [("a", 1)], 2: [("b", 9)]})
    pair.poll()
    pair.compute_big(0, 3)
    recall = ("recall", "sums", *FROM_ONE, "--participant")
    why = ("--because", "b was never there")

    assert pair.alpha.command(monkeypatch, *recall, "alpha", *why, "--yes") == 0
    assert "taken back: 1 row" in capsys.readouterr().out
    pair.alpha.write(SUMS, 1, 4, {3: [("c", 3)]})

    (told,) = pair.poll()
    assert told.problem is not None
    assert "partner alpha recalled sums from 1970-01-01T00:00:10Z on" in told.problem
    assert "(generation 2: b was never there)" in told.problem
    assert "`medusa recall sums --from 1970-01-01T00:00:10Z --follow alpha`" in told.problem
    assert pair.current("sums") == [(0, 3, 1)], "what was read up to there stays"

    assert pair.alpha.command(monkeypatch, *recall, "beta", *why, "--yes") == 2
    assert "--follow" in capsys.readouterr().err
    follow = (*recall, "beta", "--follow", "alpha")
    assert pair.alpha.command(monkeypatch, *follow) == 2, "nobody is asked, and nothing said yes"
    assert "--yes" in capsys.readouterr().err
    assert pair.alpha.command(monkeypatch, *follow, "--explain", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert [(one["stream"], one["producer"]) for one in plan["lines"]] == [
        ("sums", "alpha/0"),
        ("big", "beta/0"),
    ]
    assert plan["because"] == "alpha: b was never there"
    assert pair.poll()[0].problem is not None, "explaining agrees to nothing"

    late = ("recall", "sums", "--from", iso(2 * WIDTH_US), "--participant", "beta")
    assert pair.alpha.command(monkeypatch, *late, "--follow", "alpha", "--yes") == 2
    assert f"give --from {iso(WIDTH_US)}" in capsys.readouterr().err

    assert pair.alpha.command(monkeypatch, *follow, "--yes") == 0
    (told,) = pair.poll()
    assert told.problem is None
    assert pair.current("sums") == [(0, 1, 1), (1, 4, 3)]
    assert pair.current("big") == [(0, 1, 1)]
    pair.compute_big(1, 4)
    assert pair.current("big") == [(0, 1, 1), (1, 4, 3)]
    assert pair.poll() == []

    assert pair.alpha.command(monkeypatch, *follow, "--yes") == 2
    assert "nothing to follow" in capsys.readouterr().err


@pytest.mark.long(quick=True)
def test_a_reader_that_has_not_followed_does_not_say_that_it_is_done(pair: Pair) -> None:
    pair.alpha.write(SUMS, 0, 3, {0: [("a", 1)]})
    pair.poll()
    before = pair.alpha.catalog.holds(SUMS)
    assert [h.from_us for h in before] == [3 * WIDTH_US]
    with pytest.MonkeyPatch.context() as monkeypatch:
        why = ("--because", "why", "--yes", "--participant", "alpha")
        assert pair.alpha.command(monkeypatch, "recall", "sums", *FROM_ONE, *why) == 0
    pair.alpha.write(SUMS, 1, 3, {2: [("b", 1)]})
    pair.poll()
    holds = [h.from_us for h in pair.alpha.catalog.holds(SUMS) if h.purpose == "import"]
    assert holds == [WIDTH_US], "what it has to read again is kept for it"


@pytest.mark.long(quick=True)
def test_what_is_trimmed_here_does_not_keep_a_recall_from_being_followed(
    pair: Pair, monkeypatch: MONKEY, capsys: CAPTURED
) -> None:
    for bucket in range(4):
        pair.alpha.write(SUMS, bucket, bucket + 1, {bucket: [("a", bucket)]})
    pair.poll()
    pair.compute_big(0, 4)
    trimmed = pair.beta.catalog.trim(
        SUMS, a.ME, 3 * WIDTH_US, needed={a.TAIL: 4 * WIDTH_US}, segments_max=99
    )
    assert trimmed.trimmed_us == 3 * WIDTH_US
    recall = ("recall", "sums", *FROM_ONE, "--yes", "--participant")
    assert pair.alpha.command(monkeypatch, *recall, "alpha", "--because", "why") == 0
    pair.alpha.write(SUMS, 1, 5, {at: [("b", at)] for at in range(1, 5)})
    assert pair.poll()[0].problem is not None
    capsys.readouterr()
    assert pair.alpha.command(monkeypatch, *recall, "beta", "--follow", "alpha") == 0
    assert "rows before these buckets stay" in capsys.readouterr().out
    (told,) = pair.poll()
    assert told.problem is None
    assert pair.current("sums") == [(1, 5, 6)]
    assert pair.poll() == []
