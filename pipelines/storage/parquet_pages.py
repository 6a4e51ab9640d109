"""The pages of a Parquet file as their headers describe them.

The footer of a file says how large its columns are and how they are encoded, and may be false; a
reader unpacks a page into as much memory as the page's header says. So the headers are read, and
nothing else: each is a structure in Thrift's compact form; a few whole numbers of it are used.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO

_HEADER_BYTES = (1 << 12, 1 << 20)
"""How much is read of a header at first, and at most: it may hold the least and greatest value."""

_DEPTH_MAX = 16
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = (
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12,
)  # fmt: skip
"""Kinds of fields; the headers of pages hold no others."""

_SIZES = {_BYTE: 1, _DOUBLE: 8}

_KIND, _UNPACKED, _PACKED, _DATA, _DATA_V2 = 1, 2, 3, 5, 8
_ENCODING_OF = {_DATA: 2, _DATA_V2: 4}
_DICTIONARY_PAGE = 2
_DELTA_BYTE_ARRAY = 7

Number = tuple[int, ...]
"""Which field: its number in the header, or that and its number in the structure there."""


class WrongPages(ValueError):
    """What stands where a page should begin is no header of one."""


@dataclass(frozen=True, slots=True)
class Page:
    """A page: its size when it is unpacked (bytes), and how it holds its values.

    A dictionary holds each value once, for pages of references to it. Where `is_front_coded` a
    value says how much of the one before it begins with.
    """

    unpacked_bytes: int
    is_dictionary: bool
    is_front_coded: bool


def pages_between(stream: BinaryIO, start: int, end: int) -> Iterator[Page]:
    """The pages that lie one behind the other between two places of a file.

    Raises WrongPages where there is something else, or a page reaches beyond the end.
    """
    handle = stream.fileno()
    while start < end:
        fields, length = _header_at(handle, start)
        unpacked, packed = fields.get((_UNPACKED,), -1), fields.get((_PACKED,), -1)
        start += length + packed
        if unpacked < 0 or packed < 0 or start > end:
            raise WrongPages(f"a page of {packed} bytes before byte {start}")
        encodings = {fields.get(number) for number in _ENCODING_OF.items()}
        yield Page(
            unpacked_bytes=unpacked,
            is_dictionary=fields.get((_KIND,)) == _DICTIONARY_PAGE,
            is_front_coded=_DELTA_BYTE_ARRAY in encodings,
        )


def _header_at(handle: int, at: int) -> tuple[Mapping[Number, int], int]:
    """The whole numbers of the header there, and its length."""
    for size in _HEADER_BYTES:
        data = os.pread(handle, size, at)
        compact = _Compact(data)
        try:
            return compact.numbers(), compact.at
        except IndexError:
            if len(data) < size:
                break
    raise WrongPages(f"no header of a page at byte {at}")


class _Compact:
    """A structure in Thrift's compact form; IndexError where it goes on behind the data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def numbers(self) -> dict[Number, int]:
        """The whole numbers of the structure, and of those in it."""
        found: dict[Number, int] = {}
        self._read_structure((), found)
        return found

    def _read_structure(self, within: Number, found: dict[Number, int]) -> None:
        if len(within) > _DEPTH_MAX:
            raise WrongPages("a header that is nested too deeply")
        field = 0
        while head := self._byte():
            delta, kind = head >> 4, head & 0x0F
            field = field + delta if delta else self._zigzag()
            self._read((*within, field), kind, found)

    def _read(self, number: Number, kind: int, found: dict[Number, int]) -> None:
        if kind in (_I16, _I32, _I64):
            found[number] = self._zigzag()
        elif kind in _SIZES:
            self._move(_SIZES[kind])
        elif kind == _BINARY:
            self._move(self._varint())
        elif kind in (_LIST, _SET):
            self._read_list(number, found)
        elif kind == _STRUCT:
            self._read_structure(number, found)
        elif kind not in (_TRUE, _FALSE):  # these stand in the field's head
            raise WrongPages(f"a field of kind {kind}")

    def _read_list(self, number: Number, found: dict[Number, int]) -> None:
        head = self._byte()
        count, kind = head >> 4, head & 0x0F
        for at in range(self._varint() if count == 15 else count):
            # In a list each truth takes a byte.
            self._read((*number, at), _BYTE if kind in (_TRUE, _FALSE) else kind, found)

    def _byte(self) -> int:
        value = self._data[self.at]
        self.at += 1
        return value

    def _move(self, count: int) -> None:
        if self.at + count > len(self._data):
            raise IndexError
        self.at += count

    def _varint(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 0x80:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise WrongPages("a number of more than 64 bits")
        return value | byte << shift

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
