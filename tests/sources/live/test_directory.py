"""A watched directory: files read once, as in a replay, landed with their micro-batch."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.grid import floor_us
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.sources.live.arrivals import Arrivals
from pipelines.sources.live.directory import DirectorySource
from pipelines.sources.live.handover import Handed, HandOver
from pipelines.sources.live.source_factory import DIRECTORY
from tests.home_pool import lent_homes
from tests.sources.live.building import (
    NOW_MS,
    STREAM,
    WIDTH_US,
    Landing,
    S,
    write_csv,
    write_parquet,
)
from tests.sweeps import long_but

ZEEK = Settings.from_environment(os.environ).test_data / "netmon-zeek-server"
needs_data = pytest.mark.skipif(not ZEEK.is_dir(), reason=f"test data is not in {ZEEK}")
NOW_US = NOW_MS * 1_000
IN_2099 = 4_070_908_800 * S


def batches(landing: Landing) -> dict[int, int]:
    return dict(landing.catalog.landed_batches(STREAM, DIRECTORY))


def begun_again(landing: Landing) -> None:
    """As if killed between landing and checkpoint: the last batch was begun, but not ended."""
    (generation,) = (landing.folder / "checkpoints" / STREAM / DIRECTORY).iterdir()
    commits = generation / "spark" / "commits"
    last = max(int(name) for name in os.listdir(commits) if name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def test_files_land_once_with_the_batch_in_which_they_came(watching: Landing) -> None:
    source = watching.watch()
    assert source.poll(NOW_MS).batches == 0
    write_csv(watching.inbox / "a.csv", [100 * S, 101 * S])
    write_parquet(watching.inbox / "b.parquet", [102 * S])
    first = source.poll(NOW_MS)
    assert (first.landed, first.batches, first.boundary_us) == (3, 1, 100 * S)
    assert source.poll(NOW_MS).batches == 0
    write_csv(watching.inbox / "c.csv", [120 * S])
    assert source.poll(NOW_MS).boundary_us == 120 * S
    assert batches(watching) == {0: 3, 1: 1}
    assert (watching.status.origin_us, watching.status.promised_us) == (100 * S, 120 * S)


def test_files_that_reuse_names_are_reported_until_they_are_removed(watching: Landing) -> None:
    for name in ("a.csv", "b.csv"):
        write_csv(watching.inbox / name, [100 * S])
    source = watching.watch()
    source.poll(NOW_MS)
    assert source.poll(NOW_MS).left_out == ""
    # A second feed: one file is replaced, one is written over, one is new.
    write_csv(watching.inbox / ".new", [130 * S])
    os.utime(watching.inbox / ".new", (5_000, 5_000))
    (watching.inbox / ".new").rename(watching.inbox / "a.csv")
    write_csv(watching.inbox / "b.csv", [130 * S])
    os.utime(watching.inbox / "b.csv", (6_000, 6_000))
    source.poll(NOW_MS)
    polled = source.poll(NOW_MS)
    assert polled.landed == 0
    words = "2 files in {} were changed or replaced after having been read, for example a.csv: "
    assert polled.left_out.startswith(words.format(watching.inbox))
    source.close()
    source = watching.watch()
    assert source.poll(NOW_MS).left_out == polled.left_out, "a restarted process knows them too"
    (watching.inbox / "a.csv").rename(watching.inbox / "c.csv")
    (watching.inbox / "b.csv").unlink()
    assert source.poll(NOW_MS).landed == 1
    assert source.poll(NOW_MS).left_out == ""


@pytest.mark.long
def test_after_a_restart_only_what_is_new_lands(watching: Landing) -> None:
    write_csv(watching.inbox / "a.csv", [100 * S])
    source = watching.watch()
    source.poll(NOW_MS)
    source.close()
    write_csv(watching.inbox / "b.csv", [90 * S, 110 * S])
    polled = watching.watch(disorder="0s").poll(NOW_MS)
    assert (polled.landed, polled.late) == (1, 1)
    assert batches(watching) == {0: 1, 1: 1}


def test_killed_between_landing_and_checkpoint_a_batch_lands_once(watching: Landing) -> None:
    write_csv(watching.inbox / "a.csv", ["bad", 100 * S])
    watching.watch().poll(NOW_MS)
    begun_again(watching)
    write_csv(watching.inbox / "b.csv", [105 * S])
    polled = watching.watch().poll(NOW_MS)
    assert (polled.landed, polled.batches) == (1, 1)
    assert batches(watching) == {0: 1, 1: 1}
    assert watching.catalog.quarantine_count() == 1


@pytest.mark.long
def test_a_batch_that_landed_may_lose_its_files_before_the_checkpoint(watching: Landing) -> None:
    write_csv(watching.inbox / "a.csv", [100 * S]).rename(watching.inbox / "gone.csv")
    watching.watch().poll(NOW_MS)
    begun_again(watching)
    (watching.inbox / "gone.csv").unlink()
    write_csv(watching.inbox / "b.csv", [105 * S])
    assert watching.watch().poll(NOW_MS).landed == 1
    assert watching.records == 2


def test_files_handed_over_that_are_taken_away_before_they_landed_hold_nothing_up(
    watching: Landing,
) -> None:
    """The process ended before it read them, and the next one finds their folder empty."""
    file = write_csv(watching.inbox / "a.csv", [100 * S])
    arrivals = Arrivals(watching.inbox)
    arrivals.look({})
    handover = HandOver(watching.folder / "checkpoints" / STREAM / DIRECTORY)
    handover.hand_over(arrivals.take(10, 10**6), NOW_MS, arrivals.identity)
    file.unlink()
    source = watching.watch()
    assert source.poll(NOW_MS).landed == 0
    write_csv(watching.inbox / "b.csv", [105 * S])
    assert source.poll(NOW_MS).landed == 1


@pytest.mark.long
def test_files_handed_over_are_waited_for_if_another_folder_is_in_the_place_of_theirs(
    watching: Landing,
) -> None:
    """As when a mount is gone, and its empty mount point is there."""
    write_csv(watching.inbox / "a.csv", [100 * S])
    arrivals = Arrivals(watching.inbox)
    arrivals.look({})
    handover = HandOver(watching.folder / "checkpoints" / STREAM / DIRECTORY)
    handover.hand_over(arrivals.take(10, 10**6), NOW_MS, arrivals.identity)
    away = watching.folder / "away"
    watching.inbox.rename(away)
    watching.inbox.mkdir()
    source = watching.watch()
    with pytest.raises(Unavailable, match="is not the one that was listed"):
        source.poll(NOW_MS)
    watching.inbox.rmdir()
    away.rename(watching.inbox)
    assert source.poll(NOW_MS).landed == 1


def test_the_same_micro_batch_handed_over_twice_lands_once(watching: Landing) -> None:
    file = write_csv(watching.inbox / "a.csv", [100 * S])
    source = watching.watch()
    assert isinstance(source, DirectorySource)
    at_ms = file.stat().st_mtime_ns // 10**6
    listed = [Handed(name=file.name, at_ms=at_ms, handed_ms=NOW_MS)]
    source.poll(NOW_MS)
    source.land_files(0, listed)
    assert watching.records == 1
    with pytest.raises(Refused, match="nobody knows which files are new"):
        source.land_files(0, [*listed, Handed(name="b.csv", at_ms=1, handed_ms=NOW_MS)])


@pytest.mark.long
def test_files_that_come_one_by_one_leave_no_thread_and_no_socket_behind(watching: Landing) -> None:
    source = watching.watch()

    def landed_one_more(at: int) -> tuple[int, int]:
        write_csv(watching.inbox / f"{at}.csv", [(100 + at) * S])
        assert source.poll(NOW_MS).landed == 1
        return threading.active_count(), len(os.listdir("/proc/self/fd"))

    held = [landed_one_more(at) for at in range(8)]
    threads, sockets = (max(h[of] for h in held[6:]) - held[3][of] for of in (0, 1))
    assert threads <= 2
    assert sockets <= 2


def test_a_file_under_a_temporary_name_is_not_read(watching: Landing) -> None:
    source = watching.watch()
    for name in (".a.csv", "_a.csv", "a.csv.tmp", "_x=1.csv"):
        (watching.inbox / name).write_text("ts_us,orig_h,resp_p\n1000")
    assert source.poll(NOW_MS).batches == 0
    write_csv(watching.inbox / "b.csv", [100 * S])
    source.poll(NOW_MS)
    (watching.inbox / "a.csv.tmp").write_text(f"ts_us,orig_h,resp_p\n{101 * S},x,1\n")
    (watching.inbox / "a.csv.tmp").rename(watching.inbox / "a.csv")
    source.poll(NOW_MS)
    assert batches(watching) == {0: 1, 1: 1}
    assert watching.catalog.quarantine_count() == 0


@pytest.mark.parametrize(
    "name", long_but(2, ["[x] {y} *?.csv", "ü€.csv", "a b%20c.csv", "k=v.csv", "no_end"])
)
def test_files_of_any_name_are_read(watching: Landing, name: str) -> None:
    watching.inbox = watching.inbox / "a [folder] {like} this*?"
    watching.inbox.mkdir()
    write_csv(watching.inbox / name, [100 * S])
    assert watching.watch().poll(NOW_MS).landed == 1


def test_bad_lines_are_in_quarantine_with_file_line_and_reason(watching: Landing) -> None:
    file = write_csv(watching.inbox / "a.csv", [100 * S, "x", 101 * S, "", 50 * S])
    polled = watching.watch(disorder="10s").poll(NOW_MS)
    assert (polled.landed, polled.quarantined, polled.late) == (2, 3, 1)
    assert [(bad.origin, bad.position, bad.field) for bad in watching.catalog.quarantined()] == [
        (str(file), 3, "ts_us"),
        (str(file), 5, "ts_us"),
        (str(file), 6, "ts_us"),
    ]


def test_a_file_that_cannot_be_used_is_in_quarantine_whole_and_the_rest_goes_on(
    watching: Landing,
) -> None:
    (watching.inbox / "no_header.csv").write_text("1,2,3\n")
    (watching.inbox / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    write_csv(watching.inbox / "z.csv", [100 * S])
    assert watching.watch().poll(NOW_MS).landed == 1
    found = {Path(bad.origin).name: bad for bad in watching.catalog.quarantined()}
    assert set(found) == {"no_header.csv", "torn.parquet"}
    assert all(bad.position is None for bad in found.values())
    assert "damaged" in found["torn.parquet"].reason


@pytest.mark.long
def test_entries_that_are_not_files_are_reported_once_and_never_opened(watching: Landing) -> None:
    inbox = watching.inbox
    os.mkfifo(inbox / "pipe.csv")
    (inbox / "folder.csv").mkdir()
    write_csv(inbox / "folder.csv" / "inside.csv", [1])
    (inbox / "nowhere.csv").symlink_to(inbox / "not there.csv")
    (inbox / "loop.csv").symlink_to(inbox / "loop.csv")
    (inbox / "device.csv").symlink_to("/dev/zero")
    (inbox / "empty.csv").touch()
    write_csv(watching.folder / "real.csv", [101 * S])
    (inbox / "link.csv").symlink_to(watching.folder / "real.csv")
    with socket.socket(socket.AF_UNIX) as listening:
        here = os.open(inbox, os.O_RDONLY)
        listening.bind(f"/proc/self/fd/{here}/socket.csv")
        os.close(here)
        write_csv(inbox / "z.csv", [100 * S])
        source = watching.watch(disorder="1h")
        first = source.poll(NOW_MS)
        write_csv(inbox / "later.csv", [102 * S])
        second = source.poll(NOW_MS)
    assert (first.landed, first.quarantined) == (2, 6)
    assert (second.landed, second.quarantined) == (1, 0)
    told = {Path(bad.origin).name: bad.reason for bad in watching.catalog.quarantined()}
    for name, words in {
        "pipe.csv": "a named pipe",
        "folder.csv": "a folder",
        "nowhere.csv": "a link to what is not there",
        "loop.csv": "a link that cannot be followed",
        "device.csv": "a device",
        "socket.csv": "a socket",
    }.items():
        assert words in told.pop(name)
    assert told == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_may_not_be_read_is_in_quarantine_and_the_rest_goes_on(
    watching: Landing,
) -> None:
    write_csv(watching.inbox / "a.csv", [100 * S]).chmod(0)
    write_csv(watching.inbox / "b.csv", [101 * S])
    assert watching.watch().poll(NOW_MS).landed == 1
    (bad,) = watching.catalog.quarantined()
    assert "give the permission" in bad.reason


@pytest.mark.long
def test_a_backlog_lands_in_parts_with_the_same_records_late_whatever_the_parts(
    watching: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.sources.live.directory.FILES_PER_BATCH_MAX", 3)
    for number in range(7):
        file = write_csv(watching.inbox / f"{number}.csv", [(100 + 20 * number) * S, 105 * S])
        os.utime(file, (1_000 + number, 1_000 + number))
    source = watching.watch(disorder="60s", idle_after="1s")
    polls = [source.poll(NOW_MS + 30_000 * at) for at in range(4)]
    assert [(p.landed + p.late, p.has_more) for p in polls] == [
        (6, True), (6, True), (2, False), (0, False),
    ]  # fmt: skip
    assert sum(p.late for p in polls) == 3
    # Time alone promises nothing before all of the backlog has landed.
    assert [p.boundary_us for p in polls] == [80 * S, 140 * S, 160 * S, 180 * S]


@pytest.mark.long
def test_batches_go_on_in_a_new_generation_and_no_file_is_read_again(
    watching: Landing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.sources.live.handover.BATCHES_PER_GENERATION", 2)
    source = watching.watch()
    for number in range(5):
        write_csv(watching.inbox / f"{number}.csv", [(100 + number) * S])
        source.poll(NOW_MS)
    assert [p.name for p in (watching.folder / "checkpoints" / STREAM / DIRECTORY).iterdir()] == [
        "000000000004"
    ]
    begun_again(watching)
    again = watching.watch()
    again.poll(NOW_MS)
    write_csv(watching.inbox / "5.csv", [105 * S])
    again.poll(NOW_MS)
    assert batches(watching) == dict.fromkeys(range(6), 1)


@pytest.mark.long
def test_a_declared_format_refuses_files_of_another(watching: Landing) -> None:
    write_csv(watching.inbox / "a.csv", [100 * S])
    write_parquet(watching.inbox / "b", [101 * S])
    assert watching.watch(format="parquet").poll(NOW_MS).landed == 1
    (bad,) = watching.catalog.quarantined()
    assert "declared as parquet" in bad.reason


@pytest.mark.long
def test_files_are_in_the_order_of_their_times_whatever_their_names(watching: Landing) -> None:
    newer = write_csv(watching.inbox / "a.csv", [200 * S])
    older = write_csv(watching.inbox / "b.csv", [100 * S])
    os.utime(newer, (2_000, 2_000))
    os.utime(older, (1_000, 1_000))
    assert watching.watch().poll(NOW_MS).late == 0


def test_one_record_of_2099_does_not_poison_the_stream(watching: Landing) -> None:
    source = watching.watch(disorder="10s")
    write_csv(watching.inbox / "a.csv", [IN_2099, NOW_US - 20 * S, IN_2099])
    first = source.poll(NOW_MS)
    assert (first.landed, first.unconfirmed) == (1, 1)
    source.close()
    write_csv(watching.inbox / "b.csv", [NOW_US])
    second = watching.watch(disorder="10s").poll(NOW_MS)
    assert (second.landed, second.unconfirmed, second.late) == (1, 1, 0)
    assert second.boundary_us == floor_us(NOW_US - 10 * S, WIDTH_US)
    assert [(Path(b.origin).name, b.position) for b in watching.catalog.quarantined()] == [
        ("a.csv", 2), ("a.csv", 4),
    ]  # fmt: skip


@pytest.mark.long
def test_a_jump_that_the_next_file_confirms_lands_with_it(watching: Landing) -> None:
    source = watching.watch(max_jump="1h")
    write_csv(watching.inbox / "a.csv", [100 * S, 9_000 * S])
    assert source.poll(NOW_MS).landed == 1
    write_csv(watching.inbox / "b.csv", [9_001 * S])
    assert watching.watch(max_jump="1h").poll(NOW_MS).landed == 2
    assert watching.catalog.quarantine_count() == 0


@pytest.mark.long
def test_two_records_of_2099_promise_nothing_beyond_the_clock(watching: Landing) -> None:
    source = watching.watch()
    write_csv(watching.inbox / "a.csv", [100 * S, IN_2099, IN_2099])
    polled = source.poll(NOW_MS)
    assert polled.boundary_us is None
    assert "beyond the clock" in polled.because


@pytest.mark.long
def test_the_boundary_of_an_idle_source_advances_and_never_moves_back(watching: Landing) -> None:
    write_csv(watching.inbox / "a.csv", [100 * S])
    source = watching.watch(disorder="10s", idle_after="30s")
    polls = [source.poll(NOW_MS + ms).boundary_us for ms in (0, 30_000, 50_000, 40_000)]
    assert polls == [90 * S, 90 * S, 110 * S, 110 * S]
    source.close()
    again = watching.watch(disorder="10s", idle_after="30s")
    assert again.poll(NOW_MS + 60_000).boundary_us == 120 * S
    write_csv(watching.inbox / "b.csv", [119 * S, 121 * S])
    back = again.poll(NOW_MS + 61_000)
    assert (back.landed, back.late) == (1, 1)
    assert "had promised" in next(iter(watching.reasons()))


def test_in_wall_time_an_empty_folder_promises_by_the_clock(watching: Landing) -> None:
    source = watching.watch(disorder="60s", wall_time=True)
    assert source.poll(NOW_MS).boundary_us == NOW_US - 60 * S
    assert source.poll(NOW_MS - 5_000).boundary_us == NOW_US - 60 * S
    assert source.poll(NOW_MS + 20_000).boundary_us == NOW_US - 40 * S


@pytest.mark.long
def test_what_came_while_the_source_was_away_is_read_before_time_promises_anything(
    watching: Landing,
) -> None:
    watching.watch(disorder="60s", wall_time=True).poll(NOW_MS)
    write_csv(watching.inbox / "a.csv", [NOW_US + 10 * S, NOW_US + 3_000 * S])
    back = watching.watch(disorder="1h", wall_time=True).poll(NOW_MS + 3_600_000)
    assert (back.landed, back.late) == (2, 0)


@pytest.mark.long
def test_a_lost_checkpoint_is_noticed_before_anything_lands_twice(watching: Landing) -> None:
    write_csv(watching.inbox / "a.csv", [100 * S])
    watching.watch().poll(NOW_MS)
    shutil.rmtree(watching.folder / "checkpoints")
    with pytest.raises(Refused, match="restore both catalog and checkpoint"):
        watching.watch().poll(NOW_MS)
    assert batches(watching) == {0: 1}


@pytest.mark.long
def test_a_catalog_that_knows_less_than_the_checkpoint_is_noticed(
    watching: Landing, tmp_path: Path
) -> None:
    write_csv(watching.inbox / "a.csv", [100 * S])
    watching.watch().poll(NOW_MS)
    other = Landing(tmp_path / "other", session=watching.session)
    shutil.copytree(watching.folder / "checkpoints", other.folder / "checkpoints")
    with pytest.raises(Refused, match="restore both catalog and checkpoint"):
        other.watch().poll(NOW_MS)


@pytest.mark.long
def test_an_error_while_landing_reaches_the_poll_and_the_next_one_goes_on(
    watching: Landing, caplog: pytest.LogCaptureFixture
) -> None:
    write_csv(watching.inbox / "a.csv", [100 * S])
    source = watching.watch()
    good, watching.lease = watching.lease, replace(watching.lease, holder="somebody else")
    with pytest.raises(Conflict):
        source.poll(NOW_MS)
    assert "Traceback" not in caplog.text
    watching.lease = good
    assert source.poll(NOW_MS).landed == 1
    assert batches(watching) == {0: 1}


def test_a_folder_that_goes_away_is_named(watching: Landing) -> None:
    source = watching.watch()
    source.poll(NOW_MS)
    watching.inbox.rmdir()
    with pytest.raises(Unavailable, match="inbox cannot be listed now"):
        source.poll(NOW_MS)


@needs_data
@pytest.mark.parametrize(
    ("disorder", "late", "cuts"),
    long_but(
        1,
        [
            ("60s", 4_753, (1, 10_000, 10_001, 40_000, 70_000, 70_459)),
            ("60s", 4_753, (70_459,)),
            ("3901s", 0, (33_333, 70_459)),
        ],
    ),
)
def test_the_zeek_server_has_the_same_late_records_however_it_is_cut_into_files(
    watching: Landing, disorder: str, late: int, cuts: tuple[int, ...]
) -> None:
    table = pq.read_table(ZEEK / "connections.parquet", columns=["ts_us", "orig_h", "resp_p"])
    source = watching.watch(disorder=disorder)
    start, found, promised = 0, 0, []
    for number, end in enumerate(cuts):
        path = watching.inbox / f"{number}.parquet"
        pq.write_table(table.slice(start, end - start), path)
        os.utime(path, (1_000 + number, 1_000 + number))
        start = end
        if number % 2 == len(cuts) % 2:
            continue  # this file comes in one batch with the next
        polled = source.poll(NOW_MS)
        found += polled.late
        promised.append(polled.boundary_us or 0)
        source.close()
        source = watching.watch(disorder=disorder)
    found += source.poll(NOW_MS).late
    assert found == late == sum(watching.reasons().values())
    assert watching.records == 70_459 - late
    assert promised == sorted(promised)


@pytest.mark.long
def test_it_lands_in_postgres_as_it_does_in_memory(
    postgres_server: EmbeddedServer, watching: Landing, tmp_path: Path
) -> None:
    alpha = Participant("alpha")
    with (
        lent_homes(postgres_server, alpha) as homes,
        closing(PostgresCatalog(homes[alpha].job, alpha)) as catalog,
    ):
        home = Landing(tmp_path / "postgres", catalog=catalog, session=watching.session)
        for landing in (home, watching):
            write_csv(landing.inbox / "a.csv", [100 * S, "x", 9_000 * S])
            landing.watch(max_jump="1h", idle_after="10s").poll(NOW_MS)
            begun_again(landing)
            write_csv(landing.inbox / "b.csv", [101 * S, 130 * S, 101 * S])
            landing.watch(max_jump="1h", idle_after="10s").poll(NOW_MS)
            landing.watch(max_jump="1h", idle_after="10s").poll(NOW_MS + 30_000)
        assert batches(home) == batches(watching) == {0: 1, 1: 2}
        assert home.reasons() == watching.reasons()
        assert home.status.promised_us == watching.status.promised_us == 150 * S
        assert home.status.origin_us == watching.status.origin_us == 100 * S
