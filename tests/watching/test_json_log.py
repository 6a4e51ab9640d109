"""The log: one object a line, rotated by size, shared by processes, and never in the way."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines.watching.json_log import JsonLog


def lines_of(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def files_of(path: Path) -> list[Path]:
    return sorted(path.parent.glob(f"{path.name}*"))


def test_a_line_is_an_object_whatever_its_values_hold(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "logs" / "p.jsonl")
    nasty = "two\nlines\r\x1b[31m\u2028\u202e\"'\\"
    assert log.write({"text": nasty, "n": 2**63 - 1})
    raw = log.path.read_bytes()
    assert raw.isascii()
    assert raw.count(b"\n") == 1
    assert b"\x1b" not in raw
    assert lines_of(log.path) == [{"text": nasty, "n": 2**63 - 1}]


def test_a_full_file_becomes_an_old_one_and_the_oldest_goes(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "p.jsonl", size_bytes_max=100, old_files_max=2)
    for at in range(40):
        log.write({"at": at, "pad": "x" * 20})
    assert [f.name for f in files_of(log.path)] == ["p.jsonl", "p.jsonl.1", "p.jsonl.2"]
    assert all(f.stat().st_size <= 100 for f in files_of(log.path))
    kept = [line["at"] for f in reversed(files_of(log.path)) for line in lines_of(f)]
    assert kept == list(range(40 - len(kept), 40))


def test_a_line_longer_than_a_file_is_kept_whole(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "p.jsonl", size_bytes_max=50)
    log.write({"at": 0})
    log.write({"pad": "x" * 200})
    assert lines_of(log.path) == [{"pad": "x" * 200}]


def test_processes_share_a_log_and_lose_no_line_over_its_rotations(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    code = (
        "import sys; from pathlib import Path\n"
        "from pipelines.watching.json_log import JsonLog\n"
        "log = JsonLog(Path(sys.argv[1]), size_bytes_max=2_000, old_files_max=100)\n"
        "for at in range(400):\n"
        "    assert log.write({'of': sys.argv[2], 'at': at})\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), of]) for of in "abc"]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0, 0]
    found = [(line["of"], line["at"]) for f in files_of(path) for line in lines_of(f)]
    assert len(files_of(path)) > 5
    assert sorted(found) == sorted((of, at) for of in "abc" for at in range(400))  # type: ignore[type-var]


def test_a_removed_log_is_created_again(tmp_path: Path) -> None:
    log = JsonLog(tmp_path / "p.jsonl")
    log.write({"at": 0})
    log.path.unlink()
    log.write({"at": 1})
    assert lines_of(log.path) == [{"at": 1}]


def test_a_line_cut_short_by_a_death_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_text('{"at":0}\n{"at":1,"te')
    JsonLog(path).write({"at": 2})
    first, torn, last = path.read_text().splitlines()
    assert (json.loads(first), torn, json.loads(last)) == ({"at": 0}, '{"at":1,"te', {"at": 2})


@contextmanager
def no_file_above(size_bytes: int) -> Iterator[None]:
    """Writing beyond a size fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_loses_lines_and_says_how_many_when_there_is_room(tmp_path: Path) -> None:
    # Python ignores SIGXFSZ, so that a write beyond the limit is an error and no end.
    log = JsonLog(tmp_path / "p.jsonl")
    log.write({"at": 0})
    with no_file_above(log.path.stat().st_size + 3):
        assert [log.write({"at": at}) for at in (1, 2, 3)] == [False, False, False]
    assert log.write({"at": 4})
    whole = [ln for ln in log.path.read_text().splitlines() if ln.endswith("}")]
    assert list(map(json.loads, whole)) == [{"at": 0}, {"at": 4, "lines_lost": 3}]


@pytest.mark.parametrize("blocker", ["file", "folder"])
def test_a_place_that_cannot_be_written_stops_nothing(tmp_path: Path, blocker: str) -> None:
    path = tmp_path / "logs" / "p.jsonl"
    if blocker == "file":
        path.parent.write_text("no folder")
    else:
        path.mkdir(parents=True)
    assert JsonLog(path).write({"at": 0}) is False
