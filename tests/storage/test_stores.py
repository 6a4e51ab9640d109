"""One behaviour of storage, on local disk and on an object store.

Every test runs on both. What differs is only where the files are: a folder is the truth itself, of
a bucket it has copies, which may be lost at any time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from medusa_core.errors import Unavailable
from medusa_core.names import StreamName
from medusa_core.segments import SegmentFile
from pipelines.storage.orphans import find_orphans, remove_orphans
from pipelines.storage.segment_files import (
    check_file,
    keep_files,
    new_attempt,
    open_checked,
    read_checked,
    read_rows,
    write_file,
)
from pipelines.storage.store import remove_file, store_of
from tests.storage.object_server import ObjectServer, keys_file, object_server

STREAM = StreamName("sums")
TABLE = pa.table({"number": pa.array(range(1_000), pa.int64())})
HOUR_S = 3_600.0


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with object_server() as found:
        yield found


@dataclass
class Place:
    """A storage root, and how time passes there and files are lost."""

    root: Path
    server: ObjectServer | None
    prefix: str = ""

    def written(self) -> SegmentFile:
        return write_file(self.root, STREAM, new_attempt(), TABLE)

    def kept(self) -> SegmentFile:
        file = self.written()
        keep_files(self.root, [file])
        return file

    def lose_copies(self) -> None:
        """As another machine, or a cache that had to make room, has them."""
        if self.server is not None:
            for path in self.root.rglob("*.parquet"):
                path.unlink()

    def lose(self, file: SegmentFile) -> None:
        assert remove_file(self.root, file.path)

    def make_old(self, file: SegmentFile, seconds: float = 2 * HOUR_S) -> None:
        path = self.root / file.path
        if path.exists():
            at_s = time.time() - seconds
            os.utime(path, (at_s, at_s))
        if self.server is not None and file.path in self.server.objects(self.prefix):
            self.server.make_old(self.prefix, file.path, seconds)

    def orphans(self, known: Collection[SegmentFile] = ()) -> list[str]:
        named = frozenset(file.path for file in known)
        found = find_orphans(self.root, named.intersection, time.time(), HOUR_S)
        return [o.path for o in found]

    def remove_orphans(self, known: Collection[SegmentFile] = ()) -> list[str]:
        named = frozenset(file.path for file in known)
        now_s = time.time()
        found = find_orphans(self.root, named.intersection, now_s, HOUR_S)
        return [o.path for o in remove_orphans(self.root, found, now_s, HOUR_S)]


@pytest.fixture(params=["folder", "bucket"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    root = tmp_path / "root"
    root.mkdir()
    if request.param == "folder":
        return Place(root, None)
    server: ObjectServer = request.getfixturevalue("server")
    server.faults.clear()
    prefix = f"home/{uuid4().hex}"
    server.settings(prefix, credentials=str(keys_file(tmp_path / "keys"))).write(root)
    return Place(root, server, prefix)


def test_what_was_kept_is_read_as_it_was_written(place: Place) -> None:
    file = place.kept()
    place.lose_copies()
    assert read_rows(place.root, file, TABLE.schema).equals(TABLE)
    place.lose_copies()
    with open_checked(place.root, file) as opened:
        assert len(opened.read()) == file.size_bytes
    place.lose_copies()
    assert check_file(place.root, file).stat().st_size == file.size_bytes


def test_a_file_that_is_gone_is_unavailable(place: Place) -> None:
    file = place.kept()
    place.lose(file)
    with pytest.raises(Unavailable, match="cannot be read"):
        read_checked(place.root, file)
    with pytest.raises(Unavailable, match="is gone before it was committed"):
        keep_files(place.root, [file])


def test_a_file_with_other_bytes_is_unavailable(place: Place) -> None:
    file = place.kept()
    other = b"x" * file.size_bytes
    (place.root / file.path).chmod(0o644)
    (place.root / file.path).write_bytes(other)
    if place.server is not None:
        store_of(place.root)._write(file.path, other)  # type: ignore[attr-defined]
    with pytest.raises(Unavailable, match="is damaged"):
        read_checked(place.root, file)


def test_what_no_commit_names_is_removed_once_it_is_old(place: Place) -> None:
    named, old, young, unkept = place.kept(), place.kept(), place.kept(), place.written()
    for file in (named, old, unkept):
        place.make_old(file)
    assert place.orphans([named]) == sorted([old.path, unkept.path])
    assert sorted(place.remove_orphans([named])) == sorted([old.path, unkept.path])
    place.lose_copies()
    assert read_checked(place.root, named)
    assert read_checked(place.root, young)
    with pytest.raises(Unavailable):
        read_checked(place.root, old)


def test_keeping_a_file_again_makes_it_young(place: Place) -> None:
    file = place.kept()
    place.make_old(file)
    keep_files(place.root, [file], adopts=True)
    assert place.orphans() == []
    place.make_old(file)
    keep_files(place.root, [file])
    assert place.orphans() == []


def test_an_orphan_that_somebody_keeps_meanwhile_stays(place: Place) -> None:
    file, now_s = place.kept(), time.time()
    place.make_old(file)
    found = find_orphans(place.root, lambda paths: frozenset(), now_s, HOUR_S)
    keep_files(place.root, [file], adopts=True)
    assert remove_orphans(place.root, found, now_s, HOUR_S) == ()
    place.lose_copies()
    assert read_checked(place.root, file)


@pytest.mark.parametrize("path", ["../outside.parquet", "", "a/../../b.parquet", "/etc/hosts"])
def test_no_path_leads_out_of_the_root(place: Place, path: str) -> None:
    outside = place.root.parent / "outside.parquet"
    outside.write_bytes(b"theirs")
    assert not remove_file(place.root, path)
    assert outside.read_bytes() == b"theirs"
    assert not store_of(place.root).restore(
        SegmentFile(path=path, size_bytes=6, sha256="0" * 64, rows=1)
    )
