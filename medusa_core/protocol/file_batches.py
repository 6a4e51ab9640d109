"""Small files together: the request that names them, and the answer that holds them.

The answer is a sequence of frames: SHA-256 (32 bytes), length (8 bytes, the most significant
first), and the content of that length. Files of the request that are missing in the answer are not
there for this partner, too large for a batch, or beyond its size: each may be requested by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from medusa_core.errors import Refused
from medusa_core.protocol.document_fields import Document, ListField, RecordField
from medusa_core.protocol.news_documents import HASH, TO_DO

FILES_MAX = 64
FILE_BYTES_MAX = 256 << 10
BATCH_BYTES_MAX = 4 << 20
REQUEST_BYTES_MAX = 16 << 10
_HASH_BYTES, _LENGTH_BYTES = 32, 8
HEAD_BYTES = _HASH_BYTES + _LENGTH_BYTES

FILES = Document(
    "the list of files",
    "send another",
    RecordField({"files": ListField(HASH, FILES_MAX)}, is_closed=True),
    REQUEST_BYTES_MAX,
)


def write_files(hashes: Sequence[str]) -> bytes:
    """The document that requests files by their SHA-256."""
    return FILES.write({"files": list(hashes)})


def read_files(content: bytes) -> tuple[str, ...]:
    """The SHA-256 of each file that a reader requests. Raises Refused if it is not valid."""
    hashes = tuple(FILES.read(content)["files"])
    if len(set(hashes)) != len(hashes):
        raise FILES.refusal("it names a file twice")
    return hashes


def frame_head(sha256: str, length: int) -> bytes:
    """What precedes the content of a file."""
    return bytes.fromhex(sha256) + length.to_bytes(_LENGTH_BYTES, "big")


def batch_bytes(sizes: Iterable[int]) -> int:
    """The length of a batch of files of these sizes."""
    return sum(HEAD_BYTES + size for size in sizes)


class BatchReader:
    """Splits a batch into files as it arrives. `sizes`: SHA-256 -> announced size of each request.

    It holds no more than one file and the piece that arrived last.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self._missing = dict(sizes)
        self._arrived = bytearray()

    def take(self, piece: bytes) -> Iterator[tuple[str, bytes]]:
        """The files that are complete with a piece, each with its SHA-256 as the batch says it.

        Raises Refused for a file that was not requested, is sent twice, or has another length than
        was announced, as soon as its head is here. The content is for the caller to hash.
        """
        self._arrived += piece
        first = 0
        try:
            while len(self._arrived) >= first + HEAD_BYTES:
                digest = self._arrived[first : first + _HASH_BYTES].hex()
                begins = first + HEAD_BYTES
                length = int.from_bytes(self._arrived[first + _HASH_BYTES : begins], "big")
                if self._missing.get(digest) != length:
                    raise Refused(
                        f"a batch has {length} bytes of the file with SHA-256 {digest[:12]}…, and "
                        f"{self._missing.get(digest, 0)} are expected: {TO_DO}"
                    )
                if len(self._arrived) < begins + length:
                    break
                first = begins + length
                del self._missing[digest]
                yield digest, bytes(self._arrived[begins:first])
        finally:
            del self._arrived[:first]
