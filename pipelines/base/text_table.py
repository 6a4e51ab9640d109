"""Plain tables for a terminal: columns as wide as their content, numbers to the right."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

CELL_WIDTH_MAX = 60


def table(names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """The rows under their column names, a line each; what is too long for a cell is cut off."""
    body = [[_cell(value) for value in row] for row in rows]
    numeric = [_is_numeric(row[at] for row in body) for at in range(len(names))]
    widths = [
        max(len(name), *(len(row[at]) for row in body)) if body else len(name)
        for at, name in enumerate(names)
    ]
    lines = [_line(names, widths, numeric), _line(["-" * w for w in widths], widths, numeric)]
    lines += [_line(row, widths, numeric) for row in body]
    return "\n".join(lines)


def facts(rows: Iterable[Sequence[str]]) -> str:
    """Lines of words under each other, without headings, the last one in full."""
    body = [[printable(word) for word in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*body, strict=True)]
    return "\n".join(_line(row, widths, [False] * len(widths)) for row in body)


def printable(text: str) -> str:
    """The text on one line: what would move the cursor or colour it is shown as an escape.

    A name or a record may hold anything.
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _cell(value: object) -> str:
    text = "" if value is None else f"{value:,}" if type(value) is int else str(value)
    text = printable(text)
    return text if len(text) <= CELL_WIDTH_MAX else text[: CELL_WIDTH_MAX - 1] + "…"


def _is_numeric(cells: Iterable[str]) -> bool:
    texts = [cell for cell in cells if cell]
    return bool(texts) and all(
        t.replace(",", "").lstrip("-").replace(".", "", 1).isdigit() for t in texts
    )


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = [
        cell.rjust(width) if right else cell.ljust(width)
        for cell, width, right in zip(cells, widths, numeric, strict=True)
    ]
    return "  ".join(parts).rstrip()
