"""Text in which every line is a record: blocks of whole lines, whatever pieces it arrives in.

A line of more than 1 MiB is broken; of one that is not yet whole in memory the block keeps only the
beginning, so that no line is ever held whole beyond that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from pipelines.sources.recorded.csv_records import RECORD_BYTES_MAX, TOO_LONG, Block

_HEAD_BYTES = 4 * 1_024


def split_lines(
    texts: Iterable[bytes], line: int = 1, longest: int = RECORD_BYTES_MAX
) -> Iterator[Block]:
    """Cut text that arrives in pieces into blocks of whole lines; `line` is the first one's."""
    rest: list[bytes] = []
    size, is_overlong = 0, False
    for text in texts:
        if is_overlong:
            end = text.find(b"\n") + 1
            if not end:
                continue
            text, is_overlong, line = text[end:], False, line + 1
        stop = text.rfind(b"\n") + 1
        if stop:
            block = _block(b"".join([*rest, text[:stop]]), line, longest)
            yield block
            line += len(block.ends)
            rest, size = [], 0
        rest.append(text[stop:])
        size += len(text) - stop
        if size > longest:
            head = b"".join(rest)[:_HEAD_BYTES]
            yield Block(head, np.array([len(head)]), np.array([line]), {0: TOO_LONG})
            rest, size, is_overlong = [], 0, True
    if last := b"".join(rest):
        yield _block(last, line, longest)


def _block(text: bytes, line: int, longest: int) -> Block:
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == b"\n"[0]) + 1
    if not len(ends) or ends[-1] < len(text):
        ends = np.append(ends, len(text))
    too_long = np.flatnonzero(np.diff(ends, prepend=0) > longest)
    return Block(
        text,
        ends,
        np.arange(line, line + len(ends)),
        {int(i): TOO_LONG for i in too_long},
    )
