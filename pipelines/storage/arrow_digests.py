"""The digest of medusa_core.digest over Arrow columns: the same numbers, a whole column at a time.

Every field adds one header and one or more value words to the hashes of all rows at once; text goes
word by word over those rows that are long enough, and beyond LONG_BYTES row by row. The rows need
no order. Sums are taken in halves of 32 bits, so that they do not overflow below 2**32 rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column
from medusa_core.digest import (
    LONG_BYTES,
    MASK,
    MULTIPLIERS,
    NAN_BITS,
    SEEDS,
    TAG_BINARY,
    TAG_BOOLEAN,
    TAG_DATE,
    TAG_DECIMAL,
    TAG_DOUBLE,
    TAG_INTEGER,
    TAG_LONG_OFFSET,
    TAG_STRING,
    TAG_TIMESTAMP,
    Digest,
    header,
    null_header,
)

Words = npt.NDArray[np.uint64]

_SHIFT = np.uint64(33)
_MULTIPLIERS = (np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1]))
_LOW_HALF = np.uint64(0xFFFFFFFF)
_HALF_BITS = np.uint64(32)


def _mix(state: Words) -> Words:
    """medusa_core.digest.mix over an array, in place."""
    state ^= state >> _SHIFT
    state *= _MULTIPLIERS[0]
    state ^= state >> _SHIFT
    state *= _MULTIPLIERS[1]
    state ^= state >> _SHIFT
    return state


def row_hashes(table: pa.Table, columns: Sequence[Column]) -> tuple[Words, Words]:
    """The two hashes of every row, over the declared columns in their order."""
    states = (
        np.full(table.num_rows, SEEDS[0], np.uint64),
        np.full(table.num_rows, SEEDS[1], np.uint64),
    )
    for column in columns:
        chunked = table.column(column.name)
        array = chunked.chunk(0) if chunked.num_chunks == 1 else chunked.combine_chunks()
        if column.tag in (TAG_STRING, TAG_BINARY):
            _absorb_bytes(states, array, column.tag)
        else:
            _absorb_fixed(states, array, column)
    return _mix(states[0]), _mix(states[1])


def _is_null(array: pa.Array) -> npt.NDArray[np.bool_] | None:
    if not array.null_count:
        return None
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False))


def _absorb_fixed(states: tuple[Words, Words], array: pa.Array, column: Column) -> None:
    """Fields of one or two words: numbers, booleans, dates, instants."""
    nulls = _is_null(array)
    words = _fixed_words(array, column)
    length = column.scale if column.tag == TAG_DECIMAL else 0
    heads: np.uint64 | Words = np.uint64(header(column.tag, length))
    if nulls is not None:
        heads = np.where(nulls, np.uint64(null_header(column.tag)), heads)
        words = [np.where(nulls, np.uint64(0), word) for word in words]
    for state in states:
        state += heads
        state ^= words[0]
        _mix(state)
        for word in words[1:]:
            # A NULL has one word only, whatever its type.
            mixed = _mix(state ^ word)
            state[:] = mixed if nulls is None else np.where(nulls, state, mixed)


def _fixed_words(array: pa.Array, column: Column) -> list[Words]:
    match column.tag:
        case t if t in (TAG_BOOLEAN, TAG_INTEGER):
            return [_int64(array.cast(pa.int64()))]
        case t if t == TAG_DATE:
            return [_int64(array.cast(pa.int32()).cast(pa.int64()))]
        case t if t == TAG_TIMESTAMP:
            return [_int64(array.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()))]
        case t if t == TAG_DOUBLE:
            doubles = np.asarray(
                pc.fill_null(array.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
            )
            bits = (doubles + 0.0).view(np.uint64)
            return [np.where(np.isnan(doubles), np.uint64(NAN_BITS), bits)]
        case t if t == TAG_DECIMAL:
            wide = array.cast(pa.decimal128(38, column.scale))
            buffer = wide.buffers()[1]
            if buffer is None:
                return [np.zeros(len(wide), np.uint64)] * 2
            pairs = np.frombuffer(buffer, np.uint64)
            pairs = pairs[2 * wide.offset : 2 * (wide.offset + len(wide))]
            return [pairs[0::2].copy(), pairs[1::2].copy()]
    raise AssertionError(f"no such fixed type: {column.type}")


def _int64(array: pa.Array) -> Words:
    return np.asarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False)).view(np.uint64)


def _absorb_bytes(states: tuple[Words, Words], array: pa.Array, tag: int) -> None:
    """Text and bytes: a header with the length, then words of eight bytes, zero-padded."""
    rows = len(array)
    nulls = _is_null(array)
    offsets, data = _bytes_of(array)
    starts, lengths = offsets[:-1], np.diff(offsets)
    if nulls is not None:
        lengths = np.where(nulls, 0, lengths)
    long_rows = np.flatnonzero(lengths > LONG_BYTES)
    heads = np.uint64(header(tag)) + lengths.astype(np.uint64)
    if nulls is not None:
        heads[nulls] = np.uint64(null_header(tag))
    heads[long_rows] += np.uint64(header(TAG_LONG_OFFSET))
    word_bytes = lengths.copy()
    if long_rows.size:
        starts, data, word_bytes = _shorten(long_rows, starts.copy(), lengths, data)
    # Eight spare bytes let the last word be loaded whole; what lies beyond is masked away.
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    at_byte: Words = np.ndarray((padded.size - 7,), np.uint64, padded.data, strides=(1,))
    for state in states:
        state += heads
    left, at = word_bytes, starts
    who: npt.NDArray[np.intp] | None = None
    while True:
        words = at_byte[at]
        missing = np.clip(8 - left, 0, 8).astype(np.uint64)
        words = np.where(left > 0, words << (missing * np.uint64(8) % np.uint64(64)), np.uint64(0))
        words >>= missing * np.uint64(8) % np.uint64(64)
        for state in states:
            if who is None:
                state ^= words
                _mix(state)
            else:
                state[who] = _mix(state[who] ^ words)
        more = left > 8
        if not more.any():
            return
        who = (np.arange(rows) if who is None else who)[more]
        left, at = left[more] - 8, at[more] + 8


def _bytes_of(array: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    large = array.cast(pa.large_binary() if pa.types.is_binary(array.type) else pa.large_string())
    _, offsets, data = large.buffers()
    if offsets is None or not len(large):
        return np.zeros(len(large) + 1, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[large.offset : large.offset + len(large) + 1]
    return ends, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def _shorten(
    long_rows: npt.NDArray[np.intp],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    data: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Stand the BLAKE2b-128 of long values in their place, behind the data."""
    view = memoryview(data)  # type: ignore[arg-type]
    shorts = []
    word_bytes = lengths.copy()
    for position, row in enumerate(long_rows):
        start = int(starts[row])
        value = view[start : start + int(lengths[row])]
        shorts.append(blake2b(value, digest_size=16).digest())
        starts[row] = data.size + 16 * position
        word_bytes[row] = 16
    return starts, np.concatenate([data, np.frombuffer(b"".join(shorts), np.uint8)]), word_bytes


def digests_by_bucket(
    table: pa.Table, columns: Sequence[Column], buckets: npt.NDArray[np.int64]
) -> Mapping[int, Digest]:
    """The digest of each bucket, in order; `buckets` gives the bucket start of every row."""
    if not table.num_rows:
        return {}
    hashes = row_hashes(table, columns)
    order = np.argsort(buckets, kind="stable")
    ordered = buckets[order]
    firsts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    rows = np.diff(np.append(firsts, ordered.size))
    sums = []
    for hashed in hashes:
        hashed = hashed[order]
        low = np.add.reduceat(hashed & _LOW_HALF, firsts)
        high = np.add.reduceat(hashed >> _HALF_BITS, firsts)
        sums.append([(int(h) << 32) + int(lo) for h, lo in zip(high, low, strict=True)])
    starts = ordered[firsts].tolist()
    return {
        at: Digest(n, a, b)
        for at, n, a, b in zip(starts, rows.tolist(), sums[0], sums[1], strict=True)
    }


assert np.iinfo(np.uint64).max == MASK
