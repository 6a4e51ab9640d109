"""The digest of a multiset of rows: row count and two sums of differently seeded 64-bit hashes.

Rows add up, they never cancel, so digests of parts sum to the digest of the whole: producers that
cut a range differently are compared, and a row of the catalog is split, without reading a file.

A row is encoded as 64-bit words, field by field in declared order. A field is a header (type tag,
NULL flag, byte length) and its value: integers and instants in two's complement, decimals as
their unscaled value at the declared scale, doubles as IEEE bits with -0.0 = 0.0 and one NaN, text
and bytes as UTF-8 in little-endian words (beyond LONG_BYTES as their BLAKE2b-128). This file is
the definition, in plain Python; `pipelines/storage/arrow_digests.py` is the same over Arrow
columns, and a property test compares the two.

Limit: it detects faults and honest differences, not forgery; against forgery samples are
recomputed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b

Value = bool | int | float | Decimal | str | bytes | datetime | date | None

MASK = 2**64 - 1
SEEDS = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
MULTIPLIERS = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)
LONG_BYTES = 256

TAG_BOOLEAN, TAG_INTEGER, TAG_DOUBLE, TAG_DECIMAL = 1, 2, 3, 4
TAG_STRING, TAG_BINARY, TAG_DATE, TAG_TIMESTAMP = 5, 6, 7, 8
TAG_LONG_OFFSET = 64
NULL_FLAG = 1 << 40
NAN_BITS = 0x7FF8000000000000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def header(tag: int, length: int = 0) -> int:
    """The header word of a field that is not NULL: its type tag and length in bytes."""
    return (tag << 41) | length


def null_header(tag: int) -> int:
    """The header word of a NULL of the type."""
    return (tag << 41) | NULL_FLAG


def mix(state: int) -> int:
    """Spread every bit of a 64-bit word over all of them (the finaliser of MurmurHash3)."""
    state ^= state >> 33
    state = (state * MULTIPLIERS[0]) & MASK
    state ^= state >> 33
    state = (state * MULTIPLIERS[1]) & MASK
    return state ^ (state >> 33)


def double_bits(value: float) -> int:
    """The IEEE bits of a double, with -0.0 = 0.0 and a single NaN."""
    if value != value:
        return NAN_BITS
    return int(struct.unpack("<Q", struct.pack("<d", value + 0.0))[0])


def _words_of_bytes(data: bytes) -> list[int]:
    padded = data + b"\0" * (-len(data) % 8)
    return [w[0] for w in struct.iter_unpack("<Q", padded)] or [0]


def field_words(tag: int, value: Value, scale: int = 0) -> tuple[int, list[int]]:
    """The header and the value words of one field of type `tag` (decimals at `scale`)."""
    if value is None:
        return null_header(tag), [0]
    match tag:
        case 1 | 2:
            return header(tag), [int(value) & MASK]  # type: ignore[arg-type]
        case 3:
            return header(tag), [double_bits(float(value))]  # type: ignore[arg-type]
        case 4:
            unscaled = int(Decimal(value).scaleb(scale))  # type: ignore[arg-type]
            return header(tag, scale), [unscaled & MASK, (unscaled >> 64) & MASK]
        case 5 | 6:
            data = value.encode() if isinstance(value, str) else value
            assert isinstance(data, bytes)
            if len(data) > LONG_BYTES:
                short = blake2b(data, digest_size=16).digest()
                return header(tag + TAG_LONG_OFFSET, len(data)), _words_of_bytes(short)
            return header(tag, len(data)), _words_of_bytes(data)
        case 7:
            assert isinstance(value, date)
            return header(tag), [(value - date(1970, 1, 1)).days & MASK]
        case 8:
            assert isinstance(value, datetime)
            return header(tag), [((value - _EPOCH) // _MICROSECOND) & MASK]
    raise AssertionError(f"no such type tag: {tag}")


def row_hashes(fields: Iterable[tuple[int, list[int]]]) -> tuple[int, int]:
    """The two hashes of one row, from its fields' headers and words."""
    states = list(SEEDS)
    for head, words in fields:
        for position, word in enumerate(words):
            add = head if position == 0 else 0
            states = [mix(((state + add) & MASK) ^ word) for state in states]
    # The states are mixed once more so that the last word passes through the whole hash twice.
    return mix(states[0]), mix(states[1])


@dataclass(frozen=True, slots=True)
class Digest:
    """Row count and two sums of row hashes (plain integers, never reduced)."""

    rows: int = 0
    sum_a: int = 0
    sum_b: int = 0

    def __add__(self, other: Digest) -> Digest:
        return Digest(self.rows + other.rows, self.sum_a + other.sum_a, self.sum_b + other.sum_b)

    def __sub__(self, other: Digest) -> Digest:
        return Digest(self.rows - other.rows, self.sum_a - other.sum_a, self.sum_b - other.sum_b)

    def __str__(self) -> str:
        return f"{self.rows}:{self.sum_a:x}:{self.sum_b:x}"


EMPTY = Digest()


def sum_of(digests: Iterable[Digest]) -> Digest:
    """The digest of the union of the multisets."""
    rows = sum_a = sum_b = 0
    for digest in digests:
        rows, sum_a, sum_b = rows + digest.rows, sum_a + digest.sum_a, sum_b + digest.sum_b
    return Digest(rows, sum_a, sum_b)


def digest_of(
    rows: Iterable[Sequence[Value]], tags: Sequence[int], scales: Sequence[int] = ()
) -> Digest:
    """The digest of rows whose fields have the given type tags (and decimal scales)."""
    scales = scales or [0] * len(tags)
    total = EMPTY
    for row in rows:
        fields = (field_words(t, v, s) for t, v, s in zip(tags, row, scales, strict=True))
        total = total + Digest(1, *row_hashes(fields))
    return total
