"""What is new in a folder is seen once, and a folder that did not change is not listed again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from medusa_core.errors import Refused, Unavailable
from pipelines.sources.live.arrivals import Arrivals
from pipelines.sources.live.handover import BATCHES_PER_GENERATION, REMEMBER_MS, HandOver
from pipelines.sources.live.reused_names import LOOKED_AT, LOOKED_AT_FIRST, ReusedNames
from pipelines.storage.file_limits import FileLimits

LONG_AGO = 1_000_000


def put(folder: Path, name: str, at_s: int = LONG_AGO, size: int = 1) -> None:
    (folder / name).write_bytes(b"x" * size)
    os.utime(folder / name, (at_s, at_s))


def names(arrivals: Arrivals, files_max: int = 100, bytes_max: int = 1_000) -> list[str]:
    return [a.name for a in arrivals.take(files_max, bytes_max)]


def spark_is_done_with(handover: HandOver) -> None:
    """What Spark leaves in its checkpoint once a batch has landed."""
    for log in ("offsets", "commits"):
        (handover.checkpoint / log).mkdir(parents=True, exist_ok=True)
        (handover.checkpoint / log / str(handover.last - handover.base)).touch()


def test_files_come_in_the_order_of_their_times_then_names(tmp_path: Path) -> None:
    for name, at_s in (("b", 7), ("a", 7), ("c", 5), (".d", 1), ("_e", 1), ("f.tmp", 1)):
        put(tmp_path, name, at_s)
    arrivals = Arrivals(tmp_path)
    arrivals.look({})
    assert names(arrivals) == ["c", "a", "b"]


def test_a_batch_ends_at_either_limit_and_holds_at_least_one_file(tmp_path: Path) -> None:
    for number, size in enumerate((500, 400, 200, 5_000, 1)):
        put(tmp_path, str(number), LONG_AGO + number, size)
    arrivals = Arrivals(tmp_path)
    arrivals.look({})
    assert arrivals.waiting == 5
    assert names(arrivals, files_max=100, bytes_max=1_000) == ["0", "1"]
    assert names(arrivals, files_max=1) == ["2"]
    assert names(arrivals) == ["3"]
    assert names(arrivals) == ["4"]
    assert names(arrivals) == []


@pytest.mark.parametrize("begins", [b"\x1f\x8b", b"PAR1"], ids=["gzip", "Parquet"])
def test_packed_files_count_by_what_they_may_unpack_to(tmp_path: Path, begins: bytes) -> None:
    """A thousand files of 100 KB that unpack to 64 MiB each were one batch, and 64 GB in memory."""
    for number in range(5):
        (tmp_path / str(number)).write_bytes(begins + b"x" * 998)
        os.utime(tmp_path / str(number), (LONG_AGO + number, LONG_AGO + number))
    os.mkfifo(tmp_path / "a pipe")
    os.utime(tmp_path / "a pipe", (LONG_AGO - 1, LONG_AGO - 1))
    arrivals = Arrivals(tmp_path)
    arrivals.look({})
    assert names(arrivals, bytes_max=2_500_000) == ["a pipe", "0", "1"]
    arrivals = Arrivals(tmp_path, FileLimits(unpacked_ratio_max=1))
    arrivals.look({})
    assert names(arrivals, bytes_max=2_500_000) == ["a pipe", "0", "1"], "64 MiB may be more"


def test_a_folder_that_did_not_change_is_not_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Once in so long it is listed anyway: not while this test runs.
    monkeypatch.setattr("pipelines.sources.live.arrivals.LIST_ANYWAY_NS", 10**18)
    put(tmp_path, "a")
    os.utime(tmp_path, (LONG_AGO, LONG_AGO))
    arrivals = Arrivals(tmp_path)
    arrivals.look({})
    with monkeypatch.context() as without_listing:
        without_listing.delattr(os, "listdir")
        arrivals.look({})
    assert names(arrivals) == ["a"]
    put(tmp_path, "b")
    arrivals.look({"a": 0})
    assert names(arrivals) == ["b"]


def test_a_folder_that_changed_just_now_is_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_its_change(milliseconds: int) -> None:
        now_ns = LONG_AGO * 1_000_000_000 + milliseconds * 1_000_000
        monkeypatch.setattr("pipelines.base.clock.wall_ns", lambda: now_ns)

    os.utime(tmp_path, (LONG_AGO, LONG_AGO))
    arrivals = Arrivals(tmp_path)
    after_its_change(1_900)
    arrivals.look({})
    put(tmp_path, "a")
    os.utime(tmp_path, (LONG_AGO, LONG_AGO))  # as within one tick of its clock
    arrivals.look({})
    assert names(arrivals) == ["a"]

    after_its_change(2_100)
    arrivals.look({"a": 0})  # the last look was too early to be relied on
    with monkeypatch.context() as without_listing:
        without_listing.delattr(os, "listdir")
        arrivals.look({"a": 0})


def test_another_folder_in_its_place_is_noticed(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    watched.mkdir()
    arrivals = Arrivals(watched)
    arrivals.look({})
    assert arrivals.is_still_there()
    watched.rename(tmp_path / "away")
    assert not arrivals.is_still_there()
    watched.mkdir()
    assert not arrivals.is_still_there()
    arrivals.forget()
    assert not arrivals.is_still_there()
    assert not Arrivals(watched).is_still_there(), "an empty mount point, to a new process"
    assert not Arrivals(watched).is_still_there(arrivals.identity), "and known to be another"
    told = watched.stat()
    assert Arrivals(watched).is_still_there((told.st_dev, told.st_ino)), "emptied meanwhile"
    watched.rmdir()
    with pytest.raises(Unavailable, match="bring it back"):
        arrivals.look({})


def test_what_was_handed_over_is_known_after_a_restart_whatever_its_name(tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xff\n\xe2\x82\xac.csv")
    watched = tmp_path / "watched"
    watched.mkdir()
    put(watched, odd)
    arrivals, handover = Arrivals(watched), HandOver(tmp_path / "own")
    arrivals.look(handover.known)
    handover.hand_over(arrivals.take(10, 10), now_ms=5)
    again = HandOver(tmp_path / "own")
    assert again.known == {odd: 5}
    assert (again.last, again.begun, again.done) == (0, -1, -1)
    arrivals.look(again.known)
    assert names(arrivals) == []


@pytest.mark.long
def test_a_generation_takes_along_what_is_there_or_was_there_lately(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    watched.mkdir()
    arrivals, handover = Arrivals(watched), HandOver(tmp_path / "own")
    for number in range(BATCHES_PER_GENERATION):
        put(watched, f"{number}")
        arrivals.look(handover.known)
        handover.hand_over(arrivals.take(10, 10), now_ms=number)
        spark_is_done_with(handover)
        if number != 1:
            (watched / f"{number}").unlink()
    now_ms = REMEMBER_MS + BATCHES_PER_GENERATION - 2
    handover.begin_generation_if_due(arrivals.present, now_ms)
    assert handover.base == BATCHES_PER_GENERATION
    for known in (handover.known, HandOver(tmp_path / "own").known):
        assert set(known) == {"1", str(BATCHES_PER_GENERATION - 1)}
    assert len(os.listdir(tmp_path / "own")) == 1


def test_no_generation_begins_while_a_batch_is_on_its_way(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    watched.mkdir()
    arrivals, handover = Arrivals(watched), HandOver(tmp_path / "own")
    for number in range(BATCHES_PER_GENERATION + 1):
        put(watched, f"{number}")
        arrivals.look(handover.known)
        handover.hand_over(arrivals.take(10, 10), now_ms=number)
    handover.begin_generation_if_due(arrivals.present, 0)
    assert handover.base == 0


def test_a_damaged_list_is_named(tmp_path: Path) -> None:
    handover = HandOver(tmp_path)
    handover.hand_over([], now_ms=1)
    (handover.lists / "000000000000").write_text('{"name": 1')
    with pytest.raises(Refused, match="000000000000 is not as it was written"):
        HandOver(tmp_path)


def test_of_very_many_names_each_is_compared_in_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written_ms = {f"f{n:05d}": 1 for n in range(LOOKED_AT_FIRST + LOOKED_AT)}
    put(tmp_path, max(written_ms))
    looked: list[int] = []
    stat = os.stat
    reused = ReusedNames(tmp_path)

    def counting(path: Path) -> os.stat_result:
        looked.append(1)
        return stat(path)

    monkeypatch.setattr("pipelines.sources.live.reused_names.os.stat", counting)
    reused.look(written_ms)
    assert (len(looked), reused.count) == (LOOKED_AT_FIRST, 0)
    looked.clear()
    reused.look(written_ms)
    assert (len(looked), reused.count) == (LOOKED_AT, 1)


def test_a_new_generation_knows_the_times_of_its_files(tmp_path: Path) -> None:
    handover = HandOver(tmp_path / "handover")
    arrivals = Arrivals(tmp_path)
    for number in range(BATCHES_PER_GENERATION):
        put(tmp_path, f"f{number}")
        arrivals.forget()
        arrivals.look(handover.known)
        handover.hand_over(arrivals.take(1, 1_000), 5)
        spark_is_done_with(handover)
    handover.begin_generation_if_due(arrivals.present, 5)
    again = HandOver(tmp_path / "handover")
    assert again.base == BATCHES_PER_GENERATION
    assert again.written_ms["f0"] == LONG_AGO * 1_000
