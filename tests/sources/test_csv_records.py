"""Records, lines and chunks of a CSV text are the same however the text arrives and is cut."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.network import Source
from pipelines.sources.recorded.csv_records import split_records
from pipelines.sources.recorded.reader import Chunk, read_recorded_file
from pipelines.sources.recorded.recorded_formats import read_text
from pipelines.sources.recorded.recorded_rows import Target
from pipelines.sources.recorded.text_chunks import Records
from tests.sweeps import examples

# Few letters, so that quotes, delimiters and line ends meet in every way.
TEXT = st.lists(
    st.sampled_from([b"a", b'"', b",", b"\n", b"\r\n", b"\r", b'""', b',"', b'",', b'"\n']),
    max_size=60,
).map(b"".join)


def records_of(pieces: list[bytes], longest: int = 1 << 20) -> list[tuple[bytes, int, str | None]]:
    """(text, line, why it is broken) of every record."""
    found = []
    for block in split_records(iter(pieces), ",", longest=longest):
        starts = block.starts.tolist()
        for i, (start, end) in enumerate(zip(starts, block.ends.tolist(), strict=True)):
            found.append((block.text[start:end], int(block.lines[i]), block.broken.get(i)))
    return found


def records_by_hand(text: bytes, longest: int) -> list[tuple[bytes, int]]:
    """The oracle: one character after the other, as the module's first lines tell it."""
    found, position, line = [], 0, 1
    while position < len(text):
        end = _end_by_hand(text, position, longest)
        if end is None:
            line_end = text.find(b"\n", position)
            end = len(text) if line_end < 0 else line_end + 1
        found.append((text[position:end], line))
        line += text.count(b"\n", position, end)
        position = end
    return found


def _end_by_hand(text: bytes, position: int, longest: int) -> int | None:
    """Where the record ends, None if it is broken."""
    state = "begin"
    start = position
    while True:
        if position - start > longest:
            return None
        at_end = position == len(text)
        c = text[position : position + 1]
        is_line_end = c == b"\n" or text[position : position + 2] == b"\r\n"
        is_line_end = is_line_end or (c == b"\r" and position + 1 == len(text))
        if state == "quoted":
            if at_end:
                return None
            if c == b'"':
                state = "closing"
            position += 1
        elif state == "closing" and c == b'"':
            state = "quoted"
            position += 1
        elif at_end or is_line_end:
            end = len(text) if at_end else position + (2 if c == b"\r" else 1)
            end = min(end, len(text))
            return end if end - start <= longest else None
        elif c == b",":
            state = "begin"
            position += 1
        elif state == "closing" or c == b"\r":
            return None
        elif state == "begin" and c == b'"':
            state = "quoted"
            position += 1
        else:
            state = "text"
            position += 1


@given(TEXT, st.lists(st.integers(0, 130), max_size=6))
def test_records_and_lines_are_those_of_a_reading_by_hand(text: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(text) + 1000]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    found = records_of(pieces)
    assert [(record, line) for record, line, _ in found] == records_by_hand(text, 1 << 20)
    assert found == records_of([text])


@given(TEXT, st.lists(st.integers(0, 130), max_size=6), st.integers(1, 12))
def test_what_is_too_long_is_broken_the_same_however_the_text_arrives(
    text: bytes, cuts: list[int], longest: int
) -> None:
    edges = [0, *sorted(cuts), len(text) + 1000]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    found, whole = records_of(pieces, longest), records_of([text], longest)
    lengths = [len(record) for record, _, broken in whole if not broken]
    assert all(length <= longest for length in lengths)
    assert [(r, line) for r, line, _ in whole] == records_by_hand(text, longest)
    # Only the beginning of what is too long is kept, and how much of it does not matter.
    assert [(r[:longest], *rest) for r, *rest in found] == [
        (r[:longest], *rest) for r, *rest in whole
    ]


SOURCE = Source(
    name="s", columns={"a": "string", "n": "bigint", "t_us": "bigint"}, time="t_us"
)  # fmt: skip
LINES = st.lists(
    st.sampled_from(
        [
            "x,1,5", '"x\ny",2,5', '"x ""y""\r\n",3,6', "", "x,y,5", "x,1", '"x"y,1,5', '"x,1,5',
            '5" disk,7,8', 'é,8,9', ",,9", ',"9",', "x,0x1F,9", "-,-9223372036854775808,1",
        ]
    ),
    max_size=40,
)  # fmt: skip


@pytest.mark.sweep
@settings(max_examples=examples(20, 60), deadline=None)
@given(LINES, st.sampled_from(["\n", "\r\n"]), st.integers(1, 45))
def test_chunks_of_any_size_hold_the_same_records_and_quarantine(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], line_end: str, size: int
) -> None:
    file = tmp_path_factory.getbasetemp() / "chunks.csv"
    file.write_bytes(line_end.join(["a,n,t_us", *lines]).encode())
    whole = list(read_recorded_file(SOURCE, file))
    chunks = list(read_recorded_file(SOURCE, file, chunk_records=size))
    assert _all_of(chunks) == _all_of(whole)
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))
    assert all(len(c.records) + len(c.quarantined) <= size for c in chunks)
    for done in {0, len(chunks) // 2, len(chunks), len(chunks) + 1}:
        rest = list(read_recorded_file(SOURCE, file, chunk_records=size, skip=done))
        assert [c.index for c in rest] == [c.index for c in chunks[done:]]
        assert _all_of(rest) == _all_of(chunks[done:])


def _all_of(chunks: list[Chunk]) -> tuple[list[object], list[object]]:
    return (
        [row for chunk in chunks for row in chunk.records.to_pylist()],
        [record for chunk in chunks for record in chunk.quarantined],
    )


def test_a_chunk_does_not_depend_on_how_the_text_arrives() -> None:
    target = Target.of(SOURCE, Path("pieces.csv"))
    good, bad = '"x\n{0}",{0},{0}\n', 'oops\nx{0},{0},{0}\n"{0}"x,{0},{0}\n'
    lines = "".join((good if i % 7 else bad).format(i) for i in range(500))
    text = f"a,n,t_us\n{lines}".encode()
    whole = list(read_text(target, iter([text]), 60, 0))
    assert sum(len(records) for records, _, _ in whole) == 500
    for size in (1, 7, 100, 4_096):
        pieces = iter([text[i : i + size] for i in range(0, len(text), size)])
        again = list(read_text(target, pieces, 60, 0))
        assert _listed(again) == _listed(whole)


def _listed(chunks: list[Records]) -> list[object]:
    return [(r.to_pylist(), lines.tolist(), bad) for r, lines, bad in chunks]
