"""The digest of medusa_core.digest over Arrow columns: the same numbers, a whole column at a time.

Every field adds one header and one or more value words to the hashes of a whole block of rows,
which stays in the cache of a core meanwhile. Text is read word by word over those rows that are
long enough, and beyond LONG_BYTES row by row. The rows need no order. Sums are taken of the upper
halves of 32 bits too, so that they are exact below 2**32 rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TypeAlias

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

Words: TypeAlias = npt.NDArray[np.uint64]
Int64s: TypeAlias = npt.NDArray[np.int64]
Truths: TypeAlias = npt.NDArray[np.bool_]

BLOCK_ROWS = 16_384
"""Both states and as much room take 512 KiB, which the L2 cache of a core holds. A call of numpy
costs as much as some thousand rows, so that smaller blocks take longer."""

_SHIFT = np.uint64(33)
_MULTIPLIERS = (np.uint64(MULTIPLIERS[0]), np.uint64(MULTIPLIERS[1]))
_HALF_BITS = np.uint64(32)
_MASKS: Words = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
"""Of a word of which only the first bytes are a value's."""


def row_hashes(table: pa.Table, columns: Sequence[Column]) -> tuple[Words, Words]:
    """The two hashes of every row, over the declared columns in their order."""
    rows = table.num_rows
    states = np.empty((2, rows), np.uint64)
    states[0], states[1] = SEEDS
    fields = [_field_of(table.column(column.name), column) for column in columns]
    spare = np.empty((2, min(rows, BLOCK_ROWS)), np.uint64)
    for first in range(0, rows, BLOCK_ROWS):
        end = min(first + BLOCK_ROWS, rows)
        mixer = _Mixer(states[:, first:end], spare[:, : end - first])
        for field in fields:
            field.absorb(mixer, first, end)
        mixer.mix()
    return states[0], states[1]


@dataclass(frozen=True, slots=True)
class _Mixer:
    """Both states of a block of rows, (2, rows), and room for intermediate values of that shape."""

    states: Words
    spare: Words

    def add(self, heads: Words | np.uint64) -> None:
        """The header of a field, of all rows or of each."""
        np.add(self.states, heads, out=self.states)

    def absorb(self, words: Words, of: Truths | None = None) -> None:
        """One word of each row, or of those rows in `of`."""
        if of is None:
            np.bitwise_xor(self.states, words, out=self.states)
            self.mix()
        elif 4 * (count := int(np.count_nonzero(of))) > of.size:
            mixed = self.states ^ words
            _mix(mixed, self.spare)
            np.copyto(self.states, mixed, where=of)
        elif count:
            some = np.flatnonzero(of)
            mixed = self.states[:, some] ^ words[some]
            _mix(mixed, self.spare[:, :count])
            self.states[:, some] = mixed

    def mix(self) -> None:
        _mix(self.states, self.spare)


def mixed(words: Words) -> Words:
    """medusa_core.digest.mix of each word."""
    states = words.copy()
    _mix(states, np.empty_like(states))
    return states


def _mix(states: Words, spare: Words) -> None:
    """medusa_core.digest.mix over an array, in place."""
    for multiplier in _MULTIPLIERS:
        np.right_shift(states, _SHIFT, out=spare)
        np.bitwise_xor(states, spare, out=states)
        np.multiply(states, multiplier, out=states)
    np.right_shift(states, _SHIFT, out=spare)
    np.bitwise_xor(states, spare, out=states)


def _field_of(values: pa.ChunkedArray, column: Column) -> _Fixed | _Text:
    array = values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    if column.tag in (TAG_STRING, TAG_BINARY):
        return _text_of(array, column.tag)
    length = column.scale if column.tag == TAG_DECIMAL else 0
    heads = header(column.tag, length), null_header(column.tag)
    return _Fixed(_fixed_words(array, column), heads, _is_null(array))


def _is_null(array: pa.Array) -> Truths | None:
    if not array.null_count:
        return None
    return np.asarray(pc.is_null(array).to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class _Fixed:
    """Fields of one or two words: numbers, booleans, dates, instants.

    `heads` are the headers of a value and of NULL.
    """

    words: Sequence[Words]
    heads: tuple[int, int]
    nulls: Truths | None

    def absorb(self, mixer: _Mixer, first: int, end: int) -> None:
        head, null_head = map(np.uint64, self.heads)
        words = [word[first:end] for word in self.words]
        if self.nulls is None:
            mixer.add(head)
            for word in words:
                mixer.absorb(word)
            return
        nulls = self.nulls[first:end]
        mixer.add(np.where(nulls, null_head, head))
        mixer.absorb(np.where(nulls, np.uint64(0), words[0]))
        for word in words[1:]:
            # A NULL has one word only, whatever its type.
            mixer.absorb(word, ~nulls)


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


@dataclass(frozen=True, slots=True)
class _Text:
    """Text and bytes: a header with the length, then words of eight bytes, zero-padded.

    `at_byte` has the word that begins at each byte, `starts` where each value begins, and `lengths`
    how many bytes of it are hashed.
    """

    at_byte: Words
    starts: Int64s
    lengths: Int64s
    heads: Words

    def absorb(self, mixer: _Mixer, first: int, end: int) -> None:
        mixer.add(self.heads[first:end])
        left, at = self.lengths[first:end], self.starts[first:end]
        shortest, longest = int(left.min()), int(left.max())
        mixer.absorb(self._words(at, left, shortest))
        last = self.at_byte.size - 1
        for done in range(8, longest, 8):
            if shortest > done:
                mixer.absorb(self._words(at + done, left - done, shortest - done))
                continue
            # Values that have ended are masked, wherever they are looked up.
            words = self._words(np.minimum(at + done, last), np.maximum(left - done, 0), 0)
            mixer.absorb(words, left > done)

    def _words(self, at: Int64s, left: Int64s, shortest: int) -> Words:
        words = self.at_byte[at]
        return words if shortest >= 8 else words & _MASKS[np.minimum(left, 8)]


def _text_of(array: pa.Array, tag: int) -> _Text:
    nulls = _is_null(array)
    offsets, data = _bytes_of(array)
    starts, lengths = offsets[:-1], np.diff(offsets)
    if nulls is not None:
        lengths = np.where(nulls, 0, lengths)
    heads = np.uint64(header(tag)) + lengths.astype(np.uint64)
    if nulls is not None:
        heads[nulls] = np.uint64(null_header(tag))
    long_rows = np.flatnonzero(lengths > LONG_BYTES)
    if long_rows.size:
        heads[long_rows] += np.uint64(header(TAG_LONG_OFFSET))
        starts, data, lengths = _shorten(long_rows, starts.copy(), lengths, data)
    # Eight spare bytes let the last word be loaded whole; what lies beyond is masked away.
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    at_byte: Words = np.ndarray((padded.size - 7,), np.uint64, padded.data, strides=(1,))
    return _Text(at_byte, starts, lengths, heads)


def _bytes_of(array: pa.Array) -> tuple[Int64s, npt.NDArray[np.uint8]]:
    large = array.cast(pa.large_binary() if pa.types.is_binary(array.type) else pa.large_string())
    _, offsets, data = large.buffers()
    if offsets is None or not len(large):
        return np.zeros(len(large) + 1, np.int64), np.zeros(0, np.uint8)
    ends = np.frombuffer(offsets, np.int64)[large.offset : large.offset + len(large) + 1]
    return ends, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


def _shorten(
    long_rows: npt.NDArray[np.intp],
    starts: Int64s,
    lengths: Int64s,
    data: npt.NDArray[np.uint8],
) -> tuple[Int64s, npt.NDArray[np.uint8], Int64s]:
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
    table: pa.Table, columns: Sequence[Column], buckets: Int64s
) -> Mapping[int, Digest]:
    """The digest of each bucket, in order; `buckets` gives the bucket start of every row."""
    if not table.num_rows:
        return {}
    hashes = row_hashes(table, columns)
    if not bool((buckets[1:] >= buckets[:-1]).all()):
        order = np.argsort(buckets, kind="stable")
        buckets, hashes = buckets[order], (hashes[0][order], hashes[1][order])
    firsts = np.flatnonzero(np.concatenate([[True], buckets[1:] != buckets[:-1]]))
    rows = np.diff(np.append(firsts, buckets.size))
    sums = []
    for hashed in hashes:
        # The sum of the lower halves is below 2**64, so it is what the upper ones leave of all.
        whole = np.add.reduceat(hashed, firsts).tolist()
        high = np.add.reduceat(hashed >> _HALF_BITS, firsts).tolist()
        sums.append(
            [(h << 32) + ((w - (h << 32)) & MASK) for h, w in zip(high, whole, strict=True)]
        )
    starts = buckets[firsts].tolist()
    return {
        at: Digest(n, a, b)
        for at, n, a, b in zip(starts, rows.tolist(), sums[0], sums[1], strict=True)
    }


assert np.iinfo(np.uint64).max == MASK
