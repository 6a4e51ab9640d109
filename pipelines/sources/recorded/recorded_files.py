"""Opening of recorded files: their first bytes show their type, never their names.

Text is passed on in pieces of a few MiB, unpacked on the way if it is gzip (also several members
one after the other), so that a file of any size needs no more memory than a piece; `file_limits`
holds the other limits. A truncated gzip file is detected only at its end: the pieces before it
have been passed on by then, and the `Refused` that follows reports that they are incomplete.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from pipelines.storage.file_limits import LINE_BYTES_MAX, LINES_PER_PIECE_MAX, FileLimits

PIECE_BYTES = 8 << 20
_PACKED_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
PARQUET = b"PAR1"
_FOREIGN = {
    b"PK\x03\x04": "a zip file: unpack it",
    b"\x28\xb5\x2f\xfd": "a zstd file: unpack it, or pack it with gzip",
    b"BZh": "a bzip2 file: unpack it, or pack it with gzip",
    b"\xfd7zXZ": "an xz file: unpack it, or pack it with gzip",
    b"\xff\xfe": "UTF-16 text: write it as UTF-8",
    b"\xfe\xff": "UTF-16 text: write it as UTF-8",
    b"ORC": "an ORC file: write it as Parquet or CSV",
    b"Obj\x01": "an Avro file: write it as Parquet or CSV",
    b"ARROW1": "an Arrow file: write it as Parquet or CSV",
}


@contextmanager
def open_recorded(file: Path) -> Iterator[tuple[BufferedReader, bytes]]:
    """The file, open at its beginning, and its first bytes.

    Raises Refused if it is not there, a folder, not permitted, empty, or of a kind that is not
    read; Unavailable if the machine fails to read it.
    """
    try:
        with file.open("rb") as stream:
            first = stream.peek(8)[:8]
            if not first:
                raise Refused(f"{file} is empty, 0 bytes: give a CSV with a header, or a Parquet")
            for magic, kind in _FOREIGN.items():
                if first.startswith(magic):
                    raise Refused(f"{file} is {kind}")
            yield stream, first
    except (FileNotFoundError, NotADirectoryError):
        raise Refused(f"{file} is not there: check the path") from None
    except IsADirectoryError:
        raise Refused(f"{file} is a folder: name the files in it") from None
    except PermissionError:
        raise Refused(f"{file} may not be read by this user: give the permission") from None
    except OSError as error:
        raise Unavailable(f"{file} cannot be read now: {error.strerror or error}") from error


def text_pieces(
    file: Path, stream: BufferedReader, first: bytes, limits: FileLimits
) -> Iterator[bytes]:
    """The text of a file in pieces, unpacked if it is gzip.

    Raises Refused, naming the file, if the gzip file is damaged or breaks off, unpacks to more than
    `limits` allow, or has a line that is longer than any.
    """
    texts = _unpacked(file, stream, limits) if first.startswith(_GZIP) else _read(stream)
    return _with_bounded_lines(file, texts)


def _read(stream: BufferedReader) -> Iterator[bytes]:
    while piece := stream.read(PIECE_BYTES):
        yield piece


def _with_bounded_lines(file: Path, texts: Iterator[bytes]) -> Iterator[bytes]:
    """The text in pieces that hold no more lines than are looked at at once."""
    lines = length = 0  # whole lines so far, and how much of the next one has come
    for text in texts:
        count = text.count(b"\n")
        # A line within a piece is no longer than that.
        length += text.find(b"\n") if count else len(text)
        if length > LINE_BYTES_MAX:
            raise Refused(
                f"{file} has a line of more than {LINE_BYTES_MAX >> 20} MiB, line {lines + 1}: "
                "give text with a record a line, or Parquet"
            )
        if count:
            lines, length = lines + count, len(text) - 1 - text.rfind(b"\n")
        if count <= LINES_PER_PIECE_MAX:
            yield text
            continue
        step = max(len(text) * LINES_PER_PIECE_MAX // count, 1)
        yield from (text[at : at + step] for at in range(0, len(text), step))


def _unpacked(file: Path, stream: BufferedReader, limits: FileLimits) -> Iterator[bytes]:
    """Members one after the other; zero bytes behind the last are padding, as gzip takes them."""
    member, packed, count, size = zlib.decompressobj(wbits=31), b"", 0, 0
    try:
        while True:
            if not packed:
                packed = stream.read(_PACKED_BYTES)
                size += len(packed)
            if not packed:
                break
            if member.eof:
                packed = packed.lstrip(b"\0") if not packed[0] else packed
                if not packed:
                    continue
                member = zlib.decompressobj(wbits=31)
            piece = member.decompress(packed, PIECE_BYTES)
            packed = member.unused_data if member.eof else member.unconsumed_tail
            count += len(piece)
            limits.check_unpacked(file, size - len(packed), count)
            if piece:
                yield piece
        while not member.eof and (piece := member.decompress(b"", PIECE_BYTES)):
            count += len(piece)
            limits.check_unpacked(file, size, count)
            yield piece
    except zlib.error as error:
        raise Refused(
            f"{file} is damaged after {count} bytes of text ({error}): take it from its source "
            "again; what was read before is not the whole"
        ) from None
    if not member.eof:
        raise Refused(
            f"{file} breaks off after {count} bytes of text: a truncated gzip file; take it from "
            "its source again; what was read before is not the whole"
        )
    if not count:
        raise Refused(f"{file} holds an empty text: give a CSV with a header, or a Parquet")
