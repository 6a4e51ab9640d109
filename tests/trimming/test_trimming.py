"""`medusa trim` on a home with files: what nobody needs goes from the catalog and from the disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from medusa_core.commits import Hold
from medusa_core.segments import Stability
from pipelines.storage.orphans import find_orphans, remove_orphans
from tests.sweeps import long_but
from tests.trimming.building import BIG, SRC, SUMS, WIDTH_US, Store
from tests.waiting import until

Prints = pytest.CaptureFixture[str]
NEVER = 1e18
"""A time of now at which everything is old."""


def written(store: Store) -> None:
    """Twelve buckets of `src` landed and closed, `sums` computed up to 7, `big` up to 6."""
    for at in range(12):
        store.land(at, at + 1, at)
    store.promise(12)
    for at in range(12):
        store.write(SRC, at, at + 1)
    for at in range(7):
        store.write(SUMS, at, at + 1)
    store.write(BIG, 0, 6)


def of(document: dict[str, object], stream: str) -> dict[str, object]:
    lines = document["lines"]
    assert isinstance(lines, list)
    found: dict[str, object] = next(line for line in lines if line["stream"] == stream)
    return found


@pytest.mark.long(quick=True)
def test_what_fragments_have_yet_to_read_stays_and_the_rest_goes_with_its_files(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Prints
) -> None:
    written(store)
    rows = {stream: store.rows(stream) for stream in (SRC, SUMS, BIG)}
    before = store.paths()
    document = store.document(monkeypatch, capsys, "trim", "--before", "1000000")
    src, sums, big = (of(document, name) for name in (SRC, SUMS, BIG))
    # `sums` comes to bucket 7 next: the window of 20 s that ends there begins with bucket 6.
    assert (src["trimmed_before_us"], src["held_by"]) == (
        6 * WIDTH_US,
        {"holder": "example/main", "purpose": "progress", "from_us": 6 * WIDTH_US,
         "since_ms": src["held_by"]["since_ms"], "limit_ms": None},  # type: ignore[index]
    )  # fmt: skip
    assert (src["segments"], src["files"], src["files_removed"]) == (6, 12, 12), "landed ones too"
    assert (sums["trimmed_before_us"], sums["rows"]) == (6 * WIDTH_US, 18)
    assert (big["trimmed_before_us"], big["rows"]) == (6 * WIDTH_US, 18)
    assert store.rows(SRC) == rows[SRC][6 * 3 :]
    assert store.rows(SUMS) == rows[SUMS][6 * 3 :]
    named = {f.path for s in (SRC, SUMS, BIG) for g in store.segments(s) for f in g.files}
    assert named < store.paths() < before
    assert find_orphans(store.root, store.home.catalog.named_files, NEVER, 0) == ()


def test_what_is_explained_is_what_is_done(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Prints
) -> None:
    written(store)
    before = store.paths()
    asked = store.document(monkeypatch, capsys, "trim", "--keep", "30s", "--explain")
    assert store.paths() == before
    assert store.home.catalog.holds(SRC) == ()
    done = store.document(monkeypatch, capsys, "trim", "--keep", "30s")
    for line in (*asked["lines"], *done["lines"]):
        line.pop("files_removed")
        line["held_by"] = line["held_by"] and {**line["held_by"], "since_ms": None}
    assert asked["lines"] == done["lines"]
    # Of 12, 7 and 6 buckets the last 30 s stay, and of `src` what a window needs.
    assert [of(done, s)["trimmed_before_us"] for s in (SRC, SUMS, BIG)] == [
        6 * WIDTH_US,
        4 * WIDTH_US,
        3 * WIDTH_US,
    ]
    assert of(done, BIG)["segments"] == 0, "a segment that reaches over the place stays whole"


@pytest.mark.long(quick=True)
def test_it_says_who_holds_what_since_when_and_for_how_long(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Prints
) -> None:
    written(store)
    hold = Hold(stream=BIG, holder="beta", purpose="import", from_us=0, limit_ms=24 * 3_600_000)
    store.home.catalog.place_hold(hold)
    assert store.command(monkeypatch, "trim", "big", "--keep", "10s") == 0
    printed = capsys.readouterr().out
    assert "nothing" in printed
    assert "beta (import) since 20" in printed
    assert "for 1 d" in printed
    assert "src" not in printed, "only what was asked for"


def test_what_is_tentative_holds_back_its_inputs_and_itself(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Prints
) -> None:
    for at in range(6):
        store.write(SRC, at, at + 1)
    store.write(SUMS, 0, 3)
    store.write(SUMS, 3, 4, stability=Stability.TENTATIVE)
    store.write(SUMS, 4, 6)
    store.write(BIG, 0, 6)
    document = store.document(monkeypatch, capsys, "trim", "--before", "1000000")
    assert of(document, SRC)["trimmed_before_us"] == 2 * WIDTH_US, "its window begins there"
    assert of(document, SUMS)["held_by"]["purpose"] == "tentative"  # type: ignore[index]


def test_reading_begins_where_the_trim_is(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Prints
) -> None:
    written(store)
    whole = store.document(monkeypatch, capsys, "read", SUMS, "--limit", "1000")
    assert whole["trimmed_before"] is None
    store.document(monkeypatch, capsys, "trim", "sums", "--before", "30")
    rest = store.document(monkeypatch, capsys, "read", SUMS, "--limit", "1000")
    assert rest["rows"] == whole["rows"][3 * 3 :]
    assert (rest["trimmed_before"], rest["stable_through"]) == (
        "1970-01-01T00:00:30Z",
        whole["stable_through"],
    )


@pytest.mark.long(quick=True)
def test_without_a_word_of_what_it_is_the_declared_retentions_that_count(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Prints
) -> None:
    written(store)
    store.home.catalog.declare_retention(SUMS, 30_000)
    store.home.catalog.declare_retention(BIG, 3_600_000)
    asked = store.document(monkeypatch, capsys, "trim", "--explain")
    assert [line["stream"] for line in asked["lines"]] == [BIG, SUMS], "`src` is kept for good"
    done = store.document(monkeypatch, capsys, "trim")
    assert [of(done, s)["trimmed_before_us"] for s in (BIG, SUMS)] == [None, 4 * WIDTH_US]
    assert store.command(monkeypatch, "trim", "src") == 2
    assert "src" not in [line["stream"] for line in done["lines"]]
    assert "say what to trim" in capsys.readouterr().err
    only_files = store.document(monkeypatch, capsys, "trim", "--compact")
    assert "lines" not in only_files, "what is asked for alone is done alone"


@pytest.mark.parametrize(
    ("words", "reason"),
    long_but(
        2,
        [
            ((), "say what to trim"),
            (("sms", "--keep", "7d"), "did you mean 'sums'"),
            (("--keep", "soon"), "duration 'soon' is not one"),
            (("--before", "yesterday"), "--before 'yesterday' is no time"),
            (("--orphans", "--grace", "0s"), "duration '0s' is out of range"),
        ],
        quick=True,
    ),
)
def test_a_wrong_order_is_refused_in_a_sentence(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Prints,
    words: tuple[str, ...],
    reason: str,
) -> None:
    assert store.command(monkeypatch, "trim", *words) == 2
    printed = capsys.readouterr()
    assert reason in printed.err
    assert printed.out == ""


def test_a_crash_between_the_commit_and_the_removal_leaves_only_orphans(
    store: Store, tmp_path: Path
) -> None:
    written(store)
    announced = tmp_path / "announced"
    environment = {
        **os.environ,
        "MEDUSA_DIR": str(store.settings.directory),
        "MEDUSA_CATALOG_URL": str(store.settings.catalog_url),
        "MEDUSA_FAILPOINT": "trim.committed",
        "MEDUSA_FAILPOINT_FILE": str(announced),
    }
    command = [sys.executable, "-m", "pipelines.cli.main", "trim", "src", "--before", "1000000"]
    with subprocess.Popen(command, env=environment, start_new_session=True) as trimming:
        try:
            until(
                lambda: announced.exists() or trimming.poll() is not None,
                "the command has come to its failpoint",
                seconds_max=180,
            )
            assert trimming.poll() is None, "it ended before"
        finally:
            os.killpg(trimming.pid, signal.SIGKILL)
    assert store.status(SRC).trimmed_us == 6 * WIDTH_US
    assert len(store.rows(SRC)) == 6 * 3, "S10: what is named is there"
    orphans = find_orphans(store.root, store.home.catalog.named_files, NEVER, 0)
    assert len(orphans) == 12
    assert remove_orphans(store.root, orphans, NEVER, 0) == orphans
    named = store.home.catalog.named_files(store.paths())
    assert named == store.paths()


@pytest.mark.long(quick=True)
def test_much_goes_in_several_transactions(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: Prints
) -> None:
    written(store)
    monkeypatch.setattr("pipelines.participant.trimming.SEGMENTS_PER_CALL_MAX", 2)
    document = store.document(monkeypatch, capsys, "trim", "src", "--before", "1000000")
    line = of(document, SRC)
    assert (line["segments"], line["rows"], line["files"], line["files_removed"]) == (6, 18, 12, 12)
    assert json.dumps(line)
