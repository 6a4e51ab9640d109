"""Files of a storage root as objects of a bucket, by `pyarrow.fs`; copies in the root's folder.

An object is put whole, under the path that its file has below the root, before a commit names it.
A copy in the folder that may be written to has not been put; one that may not, has. So every
process sees what is still to be put, and only copies of objects are removed to make room.

Nothing that decides lists the bucket. Orphans are listed, by a list that may be late: an object is
removed only if it is old when it is looked at alone. A put whose answer is lost leaves an object
that no commit names, and that is removed as an orphan.

Limits: the clocks of the bucket and of this machine may differ by SKEW_S. A file has at most 5 GiB,
which is what a server copies at once.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from hashlib import sha256
from math import inf
from pathlib import Path
from threading import Lock
from typing import BinaryIO, TypeVar

from pyarrow.fs import (
    AwsStandardS3RetryStrategy,
    FileInfo,
    FileSelector,
    FileType,
    S3FileSystem,
)

from medusa_core.errors import Refused, Unavailable
from medusa_core.segments import SegmentFile
from pipelines.base import clock
from pipelines.base.failpoints import reached
from pipelines.base.files import FileLock, atomic_file
from pipelines.storage.object_settings import ObjectSettings
from pipelines.storage.presigned import presigned_url
from pipelines.storage.store import (
    EXPIRES_S,
    ORPHAN_SUFFIX,
    SUFFIXES,
    Folder,
    StoredFile,
    gone_before_commit,
    is_inside,
)

Value = TypeVar("Value")

PIECE_BYTES = 8 << 20
"""Of an object, what is requested at a time: what a broken connection costs. A larger object is put
in parts, and of those that arrived the client would make an object if another one fails."""

YOUNG_S = 1_800.0
"""An object that was put so long ago is put again before a commit names it: half of the shortest
time after which it is removed as an orphan, without being told."""

SKEW_S = 900.0
"""By which clocks may differ; S3 refuses requests of clocks that differ by more."""

MARK_S = 600.0
"""How long a mark keeps others from adopting an object; a removal ends within half of that."""

USED_S = 600.0
"""A copy that was used so long ago may be in use, and is not removed to make room."""

REMOVALS_PAUSE_S = 60.0
"""How long nothing is removed after the server has not answered: what is left is an orphan."""

CONNECT_S = 5.0
PAUSES_S = (0.2, 0.5, 1.0, 2.0)
"""Between the attempts of a call; the client makes two requests in each."""

CALL_S = 15.0
"""After which no attempt is begun: a caller with other work tries again later."""

_LOCK = "object-store.lock"
_OWNER, _OWNER_LENGTH_MAX = "medusa-owner", 1_024
_PART = ".part"
_PANES = (".panes", ".panes.part")
"""Names of files that are not put: they are computed again."""

_PUT_MODE, _MAY_WRITE = 0o444, 0o200
_ROOM_PART = 16
"""Room is made once a part of so many of the size of all copies was added."""

_THREADS_MAX = 8
_THREADS = ThreadPoolExecutor(_THREADS_MAX, "medusa-objects")
_REFUSALS = re.compile(r"AWS Error ([A-Z_]+)")
_FINAL = {
    "ACCESS_DENIED", "EXPIRED_TOKEN", "INVALID_ACCESS_KEY_ID", "INVALID_CLIENT_TOKEN_ID",
    "NO_SUCH_BUCKET", "SIGNATURE_DOES_NOT_MATCH",
}  # fmt: skip
"""Answers that are the same when the call is repeated at once."""


class Bucket:
    """`Store` of a root whose files are objects; safe for threads and among processes."""

    def __init__(self, root: Path, settings: ObjectSettings) -> None:
        self._root = root
        self._folder = Folder(root)
        self._settings = settings
        self._client: S3FileSystem | None = None
        self._added_bytes = settings.cache_bytes // _ROOM_PART
        self._restoring = [Lock() for _ in range(_THREADS_MAX)]
        self._removes_from_s = -inf

    def keep(self, files: Collection[SegmentFile], *, adopts: bool) -> None:
        """See `Store.keep`."""
        if adopts and files:
            self._adopt(list(files))
        else:
            list(_THREADS.map(self._put, [file for file in files if self._is_to_put(file)]))
        self._make_room()

    def _adopt(self, files: list[SegmentFile]) -> None:
        found = zip(files, self._infos([file.path for file in files]), strict=True)
        put = [f for f, info in found if info.size != f.size_bytes or _is_old(info)]
        list(_THREADS.map(self._put, put))
        # A removal that looked at an object before has left its mark before (`remove_if_old`).
        since_s = clock.wall_s() - MARK_S - SKEW_S
        for file, mark in zip(files, self._infos([_mark(f.path) for f in files]), strict=True):
            if mark.type != FileType.NotFound and mark.mtime.timestamp() > since_s:
                raise Unavailable(
                    f"{self._settings.address}/{file.path} is being removed as an orphan: "
                    "it is stored again later; nothing was committed"
                )
        for file in files:
            with suppress(OSError):
                (self._root / file.path).chmod(_PUT_MODE)

    def restore(self, file: SegmentFile) -> bool:
        """See `Store.restore`."""
        if not is_inside(file.path):
            return False
        path = self._root / file.path
        before = _identity(path)
        with self._restoring[hash(file.path) % len(self._restoring)]:
            # Whoever had the lock may have restored it.
            if _identity(path) not in (None, before) or self._is_restored(file, path):
                return True
        return False

    def _is_restored(self, file: SegmentFile, path: Path) -> bool:
        digest, size_bytes = sha256(), file.size_bytes
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_file(path, durable=False, mode=_PUT_MODE) as copy:
                for at in range(0, size_bytes, PIECE_BYTES):
                    length = min(PIECE_BYTES, size_bytes - at)
                    piece = self._call(file.path, partial(self._read, file.path, at, length))
                    digest.update(piece)
                    copy.write(piece)
                if digest.hexdigest() != file.sha256:
                    raise _NoObject
            # When the object was put is not known.
            os.utime(path, (clock.wall_s(), 0))
        except _NoObject:
            return False
        except OSError as error:
            raise Unavailable(
                f"file {path} could not be written ({error.strerror}): free space or mend the "
                "folder; it is tried again"
            ) from error
        self._added_bytes += size_bytes
        self._make_room()
        return True

    def object_url(self, path: str, origin: str) -> str | None:
        """See `Store.object_url`."""
        settings = self._settings
        if not settings.redirects or origin != settings.url:
            return None
        url = f"{settings.url}/{self._key(path)}"
        return presigned_url(url, settings.region, settings.keys(), clock.wall_s(), EXPIRES_S)

    def files(self) -> Iterator[tuple[StoredFile, float]]:
        """See `Store.files`. Files of the folder that have not been put are among them."""
        place = self._settings.place
        selector = FileSelector(place, recursive=True, allow_not_found=True)
        for info in self._call("", lambda: self._connected().get_file_info(selector)):
            path = info.path.removeprefix(f"{place}/")
            if info.type == FileType.File and path.endswith(SUFFIXES):
                yield StoredFile(path, info.size), info.mtime.timestamp() + SKEW_S
        for file, at_s in self._folder.files():
            if not self._is_put(file.path):
                yield file, at_s

    def remove(self, path: str) -> bool:
        """See `Store.remove`. What cannot be removed now is an orphan."""
        if not is_inside(path):
            return False
        if path.endswith(_PANES) or not self._is_put(path):
            return self._folder.remove(path)
        self._folder.remove(path)
        if clock.monotonic_s() < self._removes_from_s:
            return False
        try:
            self._delete(path, ())
        except _NoObject:
            return False
        except Unavailable:
            self._removes_from_s = clock.monotonic_s() + REMOVALS_PAUSE_S
            return False
        return True

    def remove_if_old(self, path: str, before_s: float) -> bool:
        """See `Store.remove_if_old`.

        A mark is put before the object is looked at, and who adopts an object puts it before they
        look for the mark. So either it is young here, or they find the mark. The mark is an orphan
        itself, and removed a grace period later.
        """
        if not self._is_put(path):
            return self._folder.remove_if_old(path, before_s)
        # An object is put again from half of that age on (`YOUNG_S`).
        before_s = min(before_s, clock.wall_s() - 2 * YOUNG_S)
        gives_up_s = clock.monotonic_s() + MARK_S / 2
        try:
            if not path.endswith(ORPHAN_SUFFIX):
                self._call(path, lambda: self._write(_mark(path), b""))
                reached("orphans.aside")
            (info,) = self._infos([path])
            if info.type != FileType.File or info.mtime.timestamp() + SKEW_S > before_s:
                return False
            return clock.monotonic_s() < gives_up_s and self.remove(path)
        except Unavailable:
            return False

    def put_back(self, path: str) -> None:
        """See `Store.put_back`."""
        self._folder.put_back(path)
        with suppress(_NoObject, Unavailable):
            self._delete(path)

    def owner(self, own_id: str) -> str:
        """Put an ID as that of the home whose files are here, unless there is one; which one is.

        Raises Unavailable if that cannot be found out now.
        """
        with suppress(_NoObject):
            return self._call(_OWNER, self._read_owner).decode("ascii", "replace")
        self._call(_OWNER, lambda: self._write(_OWNER, own_id.encode()))
        return own_id

    def check(self) -> None:
        """Put, read and remove an object; raises Unavailable if that fails."""
        name = f"check-{os.urandom(8).hex()}.parquet{_PART}"
        self._call(name, lambda: self._write(name, b"medusa"))
        try:
            found = self._call(name, lambda: self._read(name, 0, 6))
            self._delete(name)
        except _NoObject:
            found = b""
        if found != b"medusa":
            raise Unavailable(f"{self._settings.address} returns other bytes than were put there")

    def _is_to_put(self, file: SegmentFile) -> bool:
        path = self._root / file.path
        try:
            found = path.stat()
            return bool(found.st_mode & _MAY_WRITE) or found.st_mtime < clock.wall_s() - YOUNG_S
        except OSError as error:
            # A worker on another machine has put it.
            (info,) = self._infos([file.path])
            if info.size == file.size_bytes and not _is_old(info):
                return False
            if self.restore(file):
                return True
            raise gone_before_commit(path, error) from error

    def _is_put(self, path: str) -> bool:
        """Whether the file in the folder is a copy of an object, or there is none."""
        try:
            return not (self._root / path).stat().st_mode & _MAY_WRITE and not path.endswith(_PART)
        except OSError:
            return True

    def _put(self, file: SegmentFile) -> None:
        path = self._root / file.path
        try:
            with path.open("rb") as opened:
                if os.fstat(opened.fileno()).st_size <= PIECE_BYTES:
                    data = opened.read()
                    _check(file, sha256(data).hexdigest(), len(data))
                    self._call(file.path, lambda: self._write(file.path, data))
                else:
                    self._put_in_parts(file, opened)
        except _Changed:
            raise gone_before_commit(path, OSError(errno.EIO, "it has changed")) from None
        except OSError as error:
            raise gone_before_commit(path, error) from error
        reached("objects.put")
        with suppress(OSError):
            os.utime(path)
            path.chmod(_PUT_MODE)
        self._added_bytes += file.size_bytes

    def _put_in_parts(self, file: SegmentFile, opened: BinaryIO) -> None:
        """Put a large file under another name, and have the server copy it once it is whole."""
        name = f"{file.path.removesuffix('.parquet')}-{os.urandom(8).hex()}.parquet{_PART}"

        def write() -> None:
            digest = sha256()
            opened.seek(0)
            with self._connected().open_output_stream(self._key(name)) as stream:
                while piece := opened.read(PIECE_BYTES):
                    digest.update(piece)
                    stream.write(piece)
            _check(file, digest.hexdigest(), opened.tell())

        self._call(file.path, write)
        (found,) = self._infos([name])
        if found.size != file.size_bytes:
            raise self._refused(file.path, f"{found.size} bytes of {file.size_bytes} arrived")
        self._call(
            file.path,
            lambda: self._connected().copy_file(self._key(name), self._key(file.path)),
        )
        with suppress(_NoObject, Unavailable):
            self._delete(name, ())

    def _write(self, path: str, data: bytes) -> None:
        with self._connected().open_output_stream(self._key(path)) as stream:
            stream.write(data)

    def _read(self, path: str, at: int, length: int) -> bytes:
        with self._connected().open_input_file(self._key(path)) as opened:
            if opened.size() < at + length:
                raise _NoObject
            return bytes(opened.read_at(length, at))

    def _read_owner(self) -> bytes:
        with self._connected().open_input_file(self._key(_OWNER)) as opened:
            return bytes(opened.read(_OWNER_LENGTH_MAX))

    def _delete(self, path: str, pauses_s: Sequence[float] = PAUSES_S) -> None:
        self._call(path, lambda: self._connected().delete_file(self._key(path)), pauses_s)

    def _infos(self, paths: Collection[str]) -> list[FileInfo]:
        keys = [self._key(path) for path in paths]
        return list(self._call("", lambda: self._connected().get_file_info(keys)))

    def _key(self, path: str) -> str:
        return f"{self._settings.place}/{path}"

    def _connected(self) -> S3FileSystem:
        client = self._client
        if client is None:
            keys = self._settings.keys()
            self._settings.check_ca_file()
            scheme, _, host = self._settings.url.partition("://")
            client = self._client = S3FileSystem(
                access_key=keys.access,
                secret_key=keys.secret,
                session_token=keys.token,
                region=self._settings.region,
                scheme=scheme,
                endpoint_override=host,
                tls_ca_file_path=self._settings.ca_file,
                connect_timeout=CONNECT_S,
                retry_strategy=AwsStandardS3RetryStrategy(max_attempts=2),
                # One request for a put; it is made when the stream is closed.
                allow_delayed_open=True,
                background_writes=False,
            )
        return client

    def _call(
        self, path: str, call: Callable[[], Value], pauses_s: Sequence[float] = PAUSES_S
    ) -> Value:
        """A call, repeated with growing pauses.

        Raises _NoObject if the server has none, and Unavailable if there is no answer, or a
        refusal, without the client's own text: that may have keys and signatures in it.
        """
        ends_s = clock.monotonic_s() + CALL_S
        for pause_s in (*pauses_s, None):
            try:
                return call()
            except FileNotFoundError as error:
                raise _NoObject from error
            except Refused as error:
                raise Unavailable(f"{error}; it is tried again") from None
            except OSError as error:
                found = _REFUSALS.search(str(error))
                code = found.group(1) if found else "no answer"
                if code in _FINAL:
                    self._client = None  # the next call reads the keys again
                if code in _FINAL or pause_s is None or clock.monotonic_s() + pause_s >= ends_s:
                    raise self._refused(path, code) from None
            clock.sleep_s(pause_s)
        raise AssertionError("the last attempt raises")

    def _refused(self, path: str, code: str) -> Unavailable:
        hint = "it is tried again"
        if code in _FINAL:
            hint = "check the bucket, the keys and their rights; medusa doctor tries them"
        name = f"{self._settings.address}/{path}".rstrip("/")
        return Unavailable(
            f"the object store {self._settings.url} does not serve {name} ({code}): {hint}"
        )

    def _make_room(self) -> None:
        """Remove the oldest copies of objects once they exceed the size that they may have."""
        limit = self._settings.cache_bytes
        if self._added_bytes < limit // _ROOM_PART:
            return
        self._added_bytes = 0
        with suppress(OSError), FileLock(self._root / _LOCK):
            copies = []
            for folder, _, names in os.walk(self._root):
                for name in names:
                    path = os.path.join(folder, name)
                    # What has not been put yet, or is no copy of an object, stays.
                    if path.endswith(SUFFIXES) and self._is_put(path):
                        with suppress(OSError):
                            found = os.stat(path)
                            used_s = max(found.st_atime, found.st_mtime)
                            copies.append((used_s, path, found.st_size))
            size, until_s = sum(copy[2] for copy in copies), clock.wall_s() - USED_S
            for used_s, path, size_bytes in sorted(copies):
                if size <= limit * 7 // 8 or used_s > until_s:
                    break
                with suppress(OSError):
                    os.unlink(path)
                    size -= size_bytes


class _NoObject(Exception):
    """The server has no such object, or a shorter one, or one with another hash."""


class _Changed(Exception):
    """A file in the folder is not as it was written."""


def _check(file: SegmentFile, digest: str, size_bytes: int) -> None:
    if (digest, size_bytes) != (file.sha256, file.size_bytes):
        raise _Changed


def _identity(path: Path) -> tuple[int, int] | None:
    """What differs between a file and another one in its place; None if there is none."""
    with suppress(OSError):
        found = path.stat()
        return found.st_ino, found.st_ctime_ns
    return None


def _mark(path: str) -> str:
    return f"{path}{ORPHAN_SUFFIX}"


def _is_old(info: FileInfo) -> bool:
    """Whether an object has to be put again, so that it is not removed as an orphan."""
    return bool(info.mtime.timestamp() < clock.wall_s() - YOUNG_S)
