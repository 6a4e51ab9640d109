"""The records of a CSV text and their lines: exact, and the same however the text is cut.

Text arrives in pieces of any size and leaves as blocks of whole records. Where quotes are
correct, a line end is a record's end if the number of quotes before it is even; that is counted
over whole arrays. Elsewhere the records that hold quotes are inspected one by one. Both give the
same records, and neither depends on how the text was cut into pieces.

A quote opens a field only at its beginning (`5" disk` is plain text) and closes it only before a
delimiter or a line end. A record that breaks this, or does not end within 1 MiB, gives up its
first line as broken, and reading continues at the next line: one stray quote costs one record. A
carriage return outside quotes must precede a line feed, for the same reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RECORD_BYTES_MAX = 1 << 20
TOO_LONG = "record is longer than 1 MiB"
BROKEN_QUOTES = "quotes are broken"
STRAY_RETURN = "carriage return without a line feed"

_HEAD_BYTES = 4 * 1_024  # what is kept of a line that is too long
_QUOTE, _NEWLINE, _RETURN = b'"'[0], b"\n"[0], b"\r"[0]

Int64s = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records in a row: their text, where each ends, its line, and which are broken and why.

    Record i is `text[ends[i - 1]:ends[i]]`, its line end included; `lines` are physical lines
    of the file on which the records begin, 1-based. A blank line counts as a record here.
    """

    text: bytes
    ends: Int64s
    lines: Int64s
    broken: Mapping[int, str]

    @property
    def starts(self) -> Int64s:
        """Where each record begins."""
        return np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])

    def part(self, start: int, stop: int) -> Block:
        """Records start to stop (exclusive) as a block of their own."""
        if start == 0 and stop == len(self.ends):
            return self
        offset = int(self.ends[start - 1]) if start else 0
        end = int(self.ends[stop - 1]) if stop > start else offset
        return Block(
            self.text[offset:end],
            self.ends[start:stop] - offset,
            self.lines[start:stop],
            {i - start: why for i, why in self.broken.items() if start <= i < stop},
        )


def record_pattern(delimiter: str) -> re.Pattern[bytes]:
    """One record of well-formed CSV from where it is matched to the end of its last line."""
    d = re.escape(delimiter.encode())
    field = rb'(?:"(?:[^"]++|"")*+"|[^"%b\r\n][^%b\r\n]*+|)' % (d, d)
    return re.compile(rb"%b(?:%b%b)*+\r?(?:\n|\Z)" % (field, d, field))


def split_records(
    texts: Iterable[bytes], delimiter: str, line: int = 1, longest: int = RECORD_BYTES_MAX
) -> Iterator[Block]:
    """Cut text that arrives in pieces into blocks of whole records; `line` is the first line's.

    A record of more than `longest` bytes is broken; of a line that is too long and not yet whole
    in memory the block keeps only the beginning.
    """
    pattern = record_pattern(delimiter)
    rest = b""
    is_overlong = False  # inside a line of which the head has been given already
    for text, is_last in _mark_last(texts):
        if is_overlong:
            end = text.find(b"\n") + 1
            if not end:
                continue
            text, is_overlong, line = text[end:], False, line + 1
        data = rest + text if rest else text
        ends, broken = _cut_evenly(data, delimiter, is_last, longest) or (
            _cut_one_by_one(data, pattern, is_last, longest)
        )
        consumed = int(ends[-1]) if len(ends) else 0
        if len(ends):
            newlines = _positions(data, _NEWLINE)
            starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
            lines = line + np.searchsorted(newlines, starts)
            whole = data if consumed == len(data) else data[:consumed]
            yield Block(whole, ends, lines, broken)
            line += int(np.searchsorted(newlines, consumed))
        rest = data[consumed:]
        if len(rest) > longest and b"\n" not in rest:
            head = rest[:_HEAD_BYTES]
            yield Block(head, np.array([len(head)]), np.array([line]), {0: TOO_LONG})
            rest, is_overlong = b"", True


def _mark_last(texts: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    waiting = b""
    for text in texts:
        if waiting:
            yield waiting, False
        waiting = text
    yield waiting, True


def _positions(data: bytes, byte: int) -> Int64s:
    return np.flatnonzero(np.frombuffer(data, np.uint8) == byte)


def _cut_evenly(
    data: bytes, delimiter: str, is_last: bool, longest: int
) -> tuple[Int64s, dict[int, str]] | None:
    """Record ends by counting quotes; None where that cannot be trusted."""
    array = np.frombuffer(data, np.uint8)
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return None
    newlines = np.flatnonzero(array == _NEWLINE)
    if b'"' in data:
        quotes = np.flatnonzero(array == _QUOTE)
        newlines = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
        if is_last and len(quotes) % 2:
            return None
        end = len(data) if is_last else int(newlines[-1]) + 1 if len(newlines) else 0
        if not are_quotes_sound(array, quotes[: np.searchsorted(quotes, end)], delimiter):
            return None
    ends = newlines + 1
    if is_last and len(data) > (int(ends[-1]) if len(ends) else 0):
        ends = np.append(ends, len(data))
    if len(ends) and np.diff(ends, prepend=0).max() > longest:
        return None
    if len(data) - (int(ends[-1]) if len(ends) else 0) > longest:
        return None
    return ends, {}


def are_quotes_sound(array: NDArray[np.uint8], quotes: Int64s, delimiter: str) -> bool:
    """Whether every quote opens or closes a field, or is one of a doubled pair inside one."""
    if len(quotes) % 2:
        return False
    opening, closing = quotes[0::2], quotes[1::2]
    is_doubled = closing[: len(opening) - 1] + 1 == opening[1:]
    before = array[np.maximum(opening - 1, 0)]
    opens = (opening == 0) | (before == ord(delimiter)) | (before == _NEWLINE)
    opens[1:] |= is_doubled
    last = len(array) - 1
    after = array[np.minimum(closing + 1, last)]
    closes = (closing == last) | (after == ord(delimiter)) | (after == _NEWLINE)
    closes |= after == _RETURN
    closes[: len(is_doubled)] |= is_doubled
    return bool(opens.all() and closes.all())


def _cut_one_by_one(
    data: bytes, pattern: re.Pattern[bytes], is_last: bool, longest: int
) -> tuple[Int64s, dict[int, str]]:
    """Record ends where lines without quotes and returns are taken as they are, others matched."""
    array = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(array == _NEWLINE)
    returns = np.flatnonzero(array == _RETURN)
    is_lone = array[np.minimum(returns + 1, len(array) - 1)] != _NEWLINE
    special = np.sort(np.concatenate([np.flatnonzero(array == _QUOTE), returns[is_lone]])).tolist()
    spans: list[tuple[int, int]] = []
    why: dict[int, str] = {}  # by end
    position, limit = 0, len(data)
    for at in special:
        if at < position:
            continue
        start = data.rfind(b"\n", position, at) + 1 or position
        end, reason = _match_record(data, start, pattern, is_last, longest)
        if not end:
            limit = start
            break
        spans.append((start, end))
        if reason:
            why[end] = reason
        position = end
    newlines = newlines[newlines < limit]
    if spans:
        starts, stops = np.array(spans, np.int64).T
        owner = np.searchsorted(starts, newlines, "right") - 1
        newlines = newlines[(owner < 0) | (newlines >= stops[owner])]
        ends = np.sort(np.concatenate([newlines + 1, stops]))
    else:
        ends = newlines + 1
    if is_last and limit > (int(ends[-1]) if len(ends) else 0):
        ends = np.append(ends, limit)
    broken = {int(np.searchsorted(ends, end)): reason for end, reason in why.items()}
    lengths = np.diff(ends, prepend=0)
    broken |= {int(i): TOO_LONG for i in np.flatnonzero(lengths > longest)}
    return ends, broken


def _match_record(
    data: bytes, start: int, pattern: re.Pattern[bytes], is_last: bool, longest: int
) -> tuple[int, str]:
    """The end of the record at `start` and why it is broken if it is; end 0: more must come."""
    stop = min(len(data), start + longest + 1)
    match = pattern.match(data, start, stop)
    end = match.end() if match else 0
    if end and (data[end - 1] == _NEWLINE or (is_last and end == len(data))):
        if end - start <= longest:
            return end, ""
    elif not is_last and len(data) - start <= longest:
        return 0, ""
    line_end = data.find(b"\n", start) + 1
    if not line_end and not is_last:
        return 0, ""
    line = data[start : line_end or len(data)]
    if len(line) > longest:
        return line_end or len(data), TOO_LONG
    return line_end or len(data), BROKEN_QUOTES if b'"' in line else STRAY_RETURN
