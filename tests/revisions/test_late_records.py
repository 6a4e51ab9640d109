"""Late records of a source that revises: what is computed is what the records in order give.

A participant lands a recording in which some records are late, in a loop and in Spark. It is ended
at gaps of the admission and begun again; `make test-long` kills it as a process, at every gap.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medusa_core.columns import Column
from medusa_core.commits import Hold
from medusa_core.errors import Conflict, MedusaError, Unavailable
from medusa_core.names import Epoch, Participant
from medusa_core.segments import Producer
from pipelines.base.failpoints import LATE_POINTS, visited_by
from pipelines.catalog.records import Deployment
from pipelines.homes.home import open_home
from pipelines.language.load import load_network
from pipelines.participant import late_admission, revising
from pipelines.storage.csv_export import export_stream
from pipelines.storage.late_rows import late_records_of
from pipelines.storage.orphans import find_orphans
from tests.federation.building import EndedHereError, ends_at, rounds_until, seated
from tests.federation.processes import installation
from tests.replaying import SECOND_US, Digests, Replayer, digests
from tests.revisions.late_home import (
    BUCKET_S,
    CALLS,
    COUNTED,
    COUNTS,
    HERE,
    JOINED,
    SIZE_S,
    Call,
    applied,
    calls,
    cents_of,
    ending_of,
    is_done,
    late_of,
    run_to_the_end,
    windows_of,
    write_calls,
    write_contracts,
)
from tests.sweeps import each_of_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from medusa_core.recalls import RecallResult
    from medusa_core.revisions import RevisionRequest
    from pipelines.base.settings import Settings
    from pipelines.catalog.processing_roles import Recalls
    from pipelines.catalog.server.embedded_server import EmbeddedServer
    from pipelines.homes.home import Home

pytestmark = pytest.mark.usefixtures("interpreted")

Row = tuple[int, str, int, int, int]
POINTS = ("land.written", "land.logged", *LATE_POINTS, "step.committed:2")
"""The gaps of keeping late records, of admitting them, and of what is computed again."""


def expected_counts(arrived: Sequence[Call]) -> Counter[Row]:
    """Rows of each window: its start, the line, how many calls, what they paid, the last one."""
    windows: dict[tuple[int, str], list[int]] = {}
    for at_s, line in arrived:
        first = at_s - at_s % BUCKET_S
        for start in range(first - SIZE_S + BUCKET_S, first + 1, BUCKET_S):
            windows.setdefault((start, line), []).append(at_s)
    return Counter(
        (start, line, len(times), sum(map(cents_of, times)), max(times))
        for (start, line), times in windows.items()
    )


def counts_of(settings: Settings, path: Path) -> Counter[Row]:
    """The rows of the output, exported."""
    with open_home(settings, HERE) as home:
        export_stream(home.catalog, home.storage, COUNTS, path)
    with path.open() as file:
        return Counter(
            (
                int(datetime.fromisoformat(row["window_start"]).timestamp()), row["line"],
                int(row["n"]), int(row["paid"].replace(".", "")), int(row["last"]),
            )
            for row in csv.DictReader(file)
        )  # fmt: skip


def admission(late: Sequence[int]) -> tuple[str, str, int]:
    """Who admits them, why, and how many buckets change."""
    buckets = len({at_s // BUCKET_S for at_s in late})
    return HERE, f"{len(late)} late records of {buckets} buckets: the source has ended", buckets


def test_ended_at_each_gap_late_records_are_admitted_once_and_their_windows_computed_again(
    spark: SparkSession, postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    arrived = calls(seed=7, seconds=100)
    late = late_of(arrived)
    assert len(late) > 1
    with applied(postgres_server, tmp_path, arrived, COUNTED) as settings:
        for point in LATE_POINTS:
            with (
                visited_by(ends_at(point)),
                pytest.raises(EndedHereError),
                seated(settings, HERE, lambda: spark) as running,
            ):
                rounds_until([running], lambda: is_done(running))
        run_to_the_end(settings, spark)
        found = ending_of(settings, tmp_path / "contracts/late.py")
        assert counts_of(settings, tmp_path / "counts.csv") == expected_counts(arrived)
    assert found.admissions == [admission(late)]
    assert (found.results, found.waiting) == (["by revision"] * len(late), 0)
    # Exactly the windows that a late record is in were computed again, each once.
    assert len(found.corrected[COUNTS]) == len(windows_of(late))
    assert set(found.corrected[COUNTS]) == windows_of(late)


def in_order(replayer: Replayer, folder: Path, arrived: Sequence[Call], network: Path) -> Digests:
    """What a replay of the sorted calls computes."""
    checked = load_network(network)
    file = write_calls(folder / "sorted.csv", sorted(arrived))
    with replayer.home("in-order") as home:
        replayer.run(home, checked, {"calls": [file]}, width_s=BUCKET_S)
        return digests(home, checked)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5))
def test_drawn_late_records_end_where_a_replay_in_order_ends(
    seed: int,
    replayer: Replayer,
    spark: SparkSession,
    postgres_server: EmbeddedServer,
    tmp_path: Path,
) -> None:
    arrived = calls(seed, seconds=300)
    late = late_of(arrived)
    with applied(postgres_server, tmp_path, arrived, JOINED) as settings:
        run_to_the_end(settings, spark)
        found = ending_of(settings, tmp_path / "contracts/late.py")
    assert found.digests == in_order(replayer, tmp_path, arrived, tmp_path / "contracts/late.py")
    assert found.admissions == [admission(late)]
    assert (found.results, found.waiting) == (["by revision"] * len(late), 0)
    assert sorted(found.corrected[COUNTS]) == sorted(windows_of(late))


@pytest.mark.long
@pytest.mark.parametrize("error", [Unavailable, Conflict])
def test_late_records_are_admitted_once_what_was_away_is_back(
    error: type[MedusaError],
    spark: SparkSession,
    postgres_server: EmbeddedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arrived = calls(seed=7, seconds=100)
    late = late_of(arrived)
    failures = [error("the database is away"), error("it is still away")]

    def revise(
        catalog: Recalls, request: RevisionRequest, remove: Callable[[str], object]
    ) -> RecallResult:
        if failures:
            raise failures.pop()
        return revising.make_revision(catalog, request, remove)

    monkeypatch.setattr(late_admission, "make_revision", revise)
    with applied(postgres_server, tmp_path, arrived, COUNTED) as settings:
        with seated(settings, HERE, lambda: spark) as running:
            rounds_until([running], lambda: is_done(running))
            # A conflict is nobody's to mend; an alarm ends with its reason.
            told = [because for _, because in running.heard.alarms]
            assert told[-1:] == ([None] if error is Unavailable else [])
        found = ending_of(settings, tmp_path / "contracts/late.py")
    assert failures == []
    assert found.admissions == [admission(late)]
    assert (found.results, found.waiting) == (["by revision"] * len(late), 0)


def test_kept_bytes_that_are_no_row_are_refused_in_a_sentence() -> None:
    columns = (Column("at_s", "bigint"), Column("line", "string"))
    for row in (b"", b"no row", b"\xff" * 64):
        with pytest.raises(Unavailable, match="a late record of calls cannot be read"):
            late_records_of(CALLS, [row], columns)


def add_producer(home: Home, fragment: str) -> None:
    """Another participant computes a fragment, too."""
    (plan,) = home.catalog.plans()
    assigned = next(one for one in home.catalog.assignments() if one.fragment == fragment)
    second = replace(
        assigned, producer=Producer(Participant("beta"), 1), epoch=Epoch(assigned.epoch + 1)
    )
    home.catalog.deploy(
        Deployment(
            network=plan.network,
            document=plan.document,
            plan=plan.id,
            plan_document=plan.document,
            streams=(),
            fragments={},
            assignments=(second,),
        )
    )


@pytest.mark.long
def test_late_records_wait_where_a_revision_is_refused(
    spark: SparkSession, postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    arrived = calls(seed=7, seconds=100)
    with applied(postgres_server, tmp_path, arrived, COUNTED) as settings:
        with open_home(settings, HERE) as home:
            add_producer(home, "late/main")
        with seated(settings, HERE, lambda: spark) as running:
            rounds_until([running], lambda: is_done(running))
            assert [of for of, _ in running.heard.alarms] == ["late records of calls"]
            assert "counts has several producers" in str(running.heard.alarms[0][1])
        waits = ending_of(settings, tmp_path / "contracts/late.py")
        assert (waits.admissions, waits.waiting) == ([], len(late_of(arrived)))
        with open_home(settings, HERE) as home:
            # The rows of a revision that is refused are removed again.
            assert find_orphans(home.storage, home.catalog.named_files, 2.0**62, 0) == ()


@pytest.mark.long
def test_late_records_stay_where_their_windows_are_trimmed_and_a_partner_reads_the_others_again(
    spark: SparkSession, postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    arrived = calls(seed=0, seconds=300)
    late = late_of(arrived)
    trimmed_s = sorted(late)[3] // BUCKET_S * BUCKET_S
    with applied(postgres_server, tmp_path, arrived, COUNTED) as settings:
        with (
            seated(settings, HERE, lambda: spark) as running,
            visited_by(ends_at("late.decided")),
            pytest.raises(EndedHereError),
        ):
            rounds_until([running], lambda: is_done(running))
        with open_home(settings, HERE) as home:
            home.catalog.place_hold(
                Hold(stream=COUNTS, holder="beta", purpose="import", from_us=300 * SECOND_US)
            )
            at_us = trimmed_s * SECOND_US
            (line,) = home.catalog.lines(CALLS)
            done = home.catalog.trim(
                CALLS, line.producer, at_us, needed={"late/main": at_us}, segments_max=99
            )
            assert done.trimmed_us == at_us
        run_to_the_end(settings, spark)
        found = ending_of(settings, tmp_path / "contracts/late.py")
        with open_home(settings, HERE) as home:
            (hold,) = (h for h in home.catalog.holds(COUNTS) if h.purpose == "import")
    # The window that ends with the first bucket that is kept needs the one before it.
    admitted = [at_s for at_s in late if at_s >= trimmed_s + BUCKET_S]
    assert found.waiting == sum(trimmed_s <= at_s < trimmed_s + BUCKET_S for at_s in late)
    assert found.results.count("") == len(late) - len(admitted) > found.waiting
    ((_, because, _),) = found.admissions
    assert "because what they need is trimmed" in because
    assert sorted(found.corrected[COUNTS]) == sorted(windows_of(admitted))
    assert hold.from_us == min(windows_of(admitted)) * SECOND_US


@pytest.mark.long
def test_killed_at_every_gap_late_records_are_admitted_once(
    replayer: Replayer, tmp_path: Path
) -> None:
    arrived = calls(seed=0, seconds=300)
    late = late_of(arrived)
    file = write_calls(tmp_path / "calls.csv", arrived)
    contracts = write_contracts(tmp_path / "contracts", JOINED, CALLS, file)
    with installation(contracts) as installed:
        hit = {point: installed.kill_at(HERE, point) for point in each_of_part(POINTS)}
        installed.run_to_the_end(HERE)
        found = ending_of(installed.settings, contracts / "late.py")
    assert all(hit.values()), hit
    assert found.digests == in_order(replayer, tmp_path, arrived, contracts / "late.py")
    assert found.admissions == [admission(late)]
    assert (found.results, found.waiting) == (["by revision"] * len(late), 0)
    assert sorted(found.corrected[COUNTS]) == sorted(windows_of(late))
