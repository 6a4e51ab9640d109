"""Paced replay and the live generator: by the clock, and after a restart from what has landed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from medusa_core.errors import Conflict, Refused
from medusa_core.grid import FOREVER_US, Range
from medusa_core.network import Source
from pipelines.base.settings import Settings
from pipelines.sources.live.feeds import check_generated
from pipelines.sources.live.live_source import LiveSource
from tests.sources.live.building import (
    NOW_MS,
    STREAM,
    WIDTH_US,
    Landing,
    S,
    poll_until_idle,
    write_csv,
)
from tests.sweeps import long_but

ZEEK = Settings.from_environment(os.environ).test_data / "netmon-zeek-server"
needs_data = pytest.mark.skipif(not ZEEK.is_dir(), reason=f"test data is not in {ZEEK}")
DAY_US = 86_400 * S


def play(landing: Landing, *files: Path, **declared: object) -> LiveSource:
    return landing.open(kind="replay", paths=[str(f) for f in files], **declared)


def landed_times(landing: Landing) -> list[int]:
    """The event times of all landed records, batch by batch."""
    files = landing.catalog.landed_files(STREAM, Range(0, FOREVER_US))
    paths = [landing.folder / "storage" / file.path for file in files]
    return [time for path in paths for time in pq.read_table(path)["_stime"].to_pylist()]


def test_a_replay_keeps_the_distances_of_event_time_divided_by_its_speed(landing: Landing) -> None:
    file = write_csv(landing.folder / "a.csv", [100 * S, 101 * S, 140 * S, 200 * S])
    source = play(landing, file, speed=10)
    assert source.poll(NOW_MS).landed == 1
    assert source.poll(NOW_MS + 99).landed == 0
    assert source.poll(NOW_MS + 100).landed == 1
    assert source.poll(NOW_MS + 3_999).landed == 0
    assert source.poll(NOW_MS + 4_000).landed == 1
    ended = source.poll(NOW_MS + 10_000)
    assert (ended.landed, ended.has_ended, ended.boundary_us) == (1, True, FOREVER_US)
    assert (landing.status.origin_us, landing.status.end_us) == (100 * S, 210 * S)


def test_records_out_of_order_come_right_behind_the_one_they_follow(landing: Landing) -> None:
    file = write_csv(landing.folder / "a.csv", [100 * S, 110 * S, 95 * S, 104 * S, 120 * S])
    source = play(landing, file, disorder="10s")
    assert source.poll(NOW_MS).landed == 1
    second = source.poll(NOW_MS + 10_000)
    assert (second.landed, second.late, second.quarantined) == (2, 1, 1)
    (late,) = landing.catalog.quarantined()
    assert (late.origin, late.position, late.field) == (str(file), 4, "ts_us")
    assert (
        late.reason == "is late: more than 10 s, the declared disorder, behind a record before it"
    )
    assert '"ts_us": 95000000' in late.content


def test_the_boundary_advances_with_the_pace_while_the_recording_pauses(landing: Landing) -> None:
    file = write_csv(landing.folder / "a.csv", [100 * S, 1_000 * S])
    source = play(landing, file, disorder="20s", speed=10)
    assert source.poll(NOW_MS).boundary_us == 80 * S
    assert source.poll(NOW_MS + 9_000).boundary_us == 170 * S
    assert source.poll(NOW_MS + 8_000).boundary_us == 170 * S
    assert landing.status.promised_us == 170 * S


def test_after_a_restart_a_replay_goes_on_with_the_next_record(landing: Landing) -> None:
    times = [100 * S + i * S for i in range(20)]
    files = [write_csv(landing.folder / f"{i}.csv", times[i : i + 10]) for i in (0, 10)]
    for start in range(4):
        source = play(landing, *files)
        now_ms = NOW_MS + start * 3_600_000
        assert source.poll(now_ms).landed == (1 if start == 0 else 0)
        assert source.poll(now_ms + 5_000).landed == (4 if start == 3 else 5)
        source.close()
    assert landing.status.end_us is not None
    assert landed_times(landing) == times


def test_a_replay_that_has_ended_has_ended_after_a_restart_too(landing: Landing) -> None:
    file = write_csv(landing.folder / "a.csv", [100 * S])
    assert poll_until_idle(play(landing, file)).has_ended
    again = play(landing, file).poll(NOW_MS)
    assert (again.has_ended, again.batches) == (True, 0)


def test_an_empty_recording_ends_at_once(landing: Landing) -> None:
    file = write_csv(landing.folder / "a.csv", [])
    assert play(landing, file).poll(NOW_MS).has_ended
    assert landing.status.end_us is not None


def test_what_is_malformed_lands_in_quarantine_once_however_often_it_restarts(
    landing: Landing,
) -> None:
    file = write_csv(
        landing.folder / "a.csv", ["bad", 100 * S, "bad", 101 * S, "bad", 102 * S, "bad"]
    )
    for second in range(5):
        play(landing, file).poll(NOW_MS + second)
        source = play(landing, file)
        source.poll(NOW_MS)
        source.poll(NOW_MS + 1_000)
    assert [bad.position for bad in landing.catalog.quarantined()] == [2, 4, 6, 8]
    assert landing.records == 3
    assert landing.status.end_us is not None


def test_a_record_of_2099_neither_poisons_nor_stops_a_replay_with_a_max_jump(
    landing: Landing,
) -> None:
    far = 4_070_908_800 * S
    file = write_csv(landing.folder / "a.csv", [100 * S, far, 101 * S, 102 * S, far])
    source = play(landing, file, max_jump="1h")
    source.poll(NOW_MS)
    done = poll_until_idle(source, NOW_MS + 2_000)
    assert done.has_ended
    assert landing.records == 3
    assert [bad.position for bad in landing.catalog.quarantined()] == [3, 6]


def test_a_changed_recording_is_refused_after_a_restart(landing: Landing) -> None:
    file = write_csv(landing.folder / "a.csv", [100 * S, 200 * S])
    play(landing, file).poll(NOW_MS)
    write_csv(file, [100 * S, 200 * S, 300 * S])
    with pytest.raises(Refused, match="played something else"):
        play(landing, file).poll(NOW_MS)


def test_a_poll_that_failed_is_taken_up_by_the_next(landing: Landing) -> None:
    file = write_csv(landing.folder / "a.csv", [100 * S, 101 * S, 102 * S])
    source = play(landing, file)
    source.poll(NOW_MS)
    good, landing.lease = landing.lease, replace(landing.lease, holder="somebody else")
    with pytest.raises(Conflict):
        source.poll(NOW_MS + 1_000)
    landing.lease = good
    assert source.poll(NOW_MS + 2_000).landed == 0  # its pace begins anew, where it was
    assert source.poll(NOW_MS + 4_000).landed == 2
    assert landed_times(landing) == [100 * S, 101 * S, 102 * S]


@pytest.mark.long
@needs_data
@pytest.mark.parametrize(("disorder", "late"), [("60s", 4_753), ("3901s", 0)])
@pytest.mark.parametrize(
    ("cuts", "poll_s"), long_but(1, [((1, 30_000, 30_001), 3_600), ((), 7_200)])
)
def test_the_zeek_server_has_the_same_late_records_however_it_is_polled_and_restarted(
    landing: Landing, cuts: tuple[int, ...], poll_s: int, disorder: str, late: int
) -> None:
    table = pq.read_table(ZEEK / "connections.parquet", columns=["ts_us", "orig_h", "resp_p"])
    edges = [0, *cuts, table.num_rows]
    files = []
    for number, start in enumerate(edges[:-1]):
        files.append(landing.folder / f"{number}.parquet")
        pq.write_table(table.slice(start, edges[number + 1] - start), files[-1])
    source = play(landing, *files, disorder=disorder, speed=1_000)
    now_ms, found, promised = NOW_MS, 0, []
    for poll in range(200):
        polled = source.poll(now_ms)
        found += polled.late
        promised.append(polled.boundary_us or 0)
        if polled.has_ended:
            break
        now_ms += poll_s
        if poll % 20 == 7:
            source.close()
            source = play(landing, *files, disorder=disorder, speed=1_000)
    assert landing.status.end_us is not None
    assert promised == sorted(promised)
    assert found == late == sum(landing.reasons().values())
    assert landing.records == 70_459 - late


# the generator


def test_the_generator_makes_its_rate_in_the_time_of_the_clock(landing: Landing) -> None:
    source = landing.open(kind="generate", seed=3, rate_per_s=100, disorder="5s")
    landed = sum(source.poll(NOW_MS + second * 1_000).landed for second in range(61))
    assert 4_500 < landed < 7_500
    times = np.array(landed_times(landing))
    assert times.min() >= (NOW_MS - 5_000) * 1_000
    assert times.max() <= (NOW_MS + 60_000) * 1_000
    assert landing.status.promised_us == (NOW_MS * 1_000 + 55 * S) // WIDTH_US * WIDTH_US
    assert landing.catalog.quarantine_count() == 0


@pytest.mark.long
def test_the_generator_catches_up_what_passed_while_it_was_away(landing: Landing) -> None:
    landing.open(kind="generate", seed=3, rate_per_s=100, disorder="5s").poll(NOW_MS)
    back = landing.open(kind="generate", seed=3, rate_per_s=100, disorder="5s")
    poll_until_idle(back, NOW_MS + 3_600_000)
    undisturbed = Landing(landing.folder / "other")
    source = undisturbed.open(kind="generate", seed=3, rate_per_s=100, disorder="5s")
    source.poll(NOW_MS)
    for minute in range(1, 61):
        poll_until_idle(source, NOW_MS + minute * 60_000)
    assert len(landed_times(landing)) > 300_000
    assert sorted(landed_times(landing)) == sorted(landed_times(undisturbed))
    assert landing.catalog.quarantine_count() == undisturbed.catalog.quarantine_count() == 0


def test_a_generator_whose_rate_changes_continues_with_the_new_one_and_makes_no_late_record(
    landing: Landing,
) -> None:
    counts = []
    for start_s, rate in ((0, 100), (30, 1_000), (60, 1_000), (90, 50)):
        source = landing.open(kind="generate", seed=3, rate_per_s=rate, disorder="5s")
        polls = (source.poll(NOW_MS + second * 1_000) for second in range(start_s, start_s + 31))
        counts.append(sum(polled.landed for polled in polls))
        source.close()
    assert counts[0] < 4_500
    assert min(counts[1:3]) > 20_000
    assert counts[3] < 3_000
    assert landing.catalog.quarantine_count() == 0
    assert len(landed_times(landing)) == sum(counts)
    assert landing.status.promised_us == (NOW_MS * 1_000 + 115 * S) // WIDTH_US * WIDTH_US


def test_a_generator_with_a_number_of_records_ends(landing: Landing) -> None:
    source = landing.open(kind="generate", records=500, rate_per_s=100)
    source.poll(NOW_MS)
    assert poll_until_idle(source, NOW_MS + 3_600_000).has_ended
    assert landing.records == 500


@pytest.mark.parametrize(
    ("columns", "time", "words"),
    [
        ({"at": "bigint"}, "at", "ts_us"),
        ({"ts_us": "bigint", "colour": "string"}, "ts_us", "'colour'"),
        ({"ts_us": "bigint", "resp_p": "string"}, "ts_us", "'resp_p' as string"),
    ],
)
def test_what_the_generator_does_not_make_is_refused(
    columns: dict[str, str], time: str, words: str
) -> None:
    with pytest.raises(Refused, match=words):
        check_generated(Source(name="other", columns=columns, time=time))
