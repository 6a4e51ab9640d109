"""The pages of docs/ as a test reads them: blocks of commands, and their output as shown.

A block ```sh is run, unless `<!-- not run -->` precedes it; `<!-- exit: 4 -->` gives the exit
code of its last command; `<!-- in: NAME -->` says that it and the following ones are typed in
that project's folder; `<!-- on: NAME -->` that it is typed on a machine of this name, which another
test provides (`shop and analysis`: on both; `shop, meanwhile`: in another terminal). A following
block ```text is its output; `…` on a separate line leaves lines out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipelines.base.settings import REPOSITORY

DOCS = REPOSITORY / "docs"
SAMPLE_DAY = "2026-01-05T"
LEFT_OUT = "…"

_PIECE = re.compile(
    r"<!-- (not run|exit: (\d+)|in: ([\w ]+)|on: ([\w, ]+)) -->\n|```(\w*)\n(.*?)```\n", re.DOTALL
)


@dataclass(frozen=True, kw_only=True)
class Block:
    """Commands of a page, where they are typed (None: where the page has got to), how they end."""

    commands: str
    folder: str | None
    exit_code: int
    is_run: bool
    machines: tuple[str, ...] = ()
    is_meanwhile: bool = False
    shown: tuple[str, ...] = ()


def blocks_of(text: str) -> list[Block]:
    """The blocks of commands in a page, in order."""
    blocks: list[Block] = []
    folder, exit_code, is_run, place = None, 0, True, ""
    for piece in _PIECE.finditer(text):
        comment, code, name, machines, language, inside = piece.groups()
        if comment:
            is_run = is_run and comment != "not run"
            exit_code = int(code) if code else exit_code
            folder = name or folder
            place = machines or place
        elif language == "sh":
            named, _, meanwhile = place.partition(", ")
            block = Block(
                commands=inside,
                folder=folder,
                exit_code=exit_code,
                is_run=is_run and not place,
                machines=tuple(named.split(" and ")) if named else (),
                is_meanwhile=bool(meanwhile),
            )
            blocks.append(block)
            folder, exit_code, is_run, place = None, 0, True, ""
        elif language == "text":
            last = blocks.pop()
            assert not last.shown, inside
            shown = tuple(inside.splitlines())
            blocks.append(Block(**{**vars(last), "shown": shown}))
    assert exit_code == 0
    return blocks


def page(name: str) -> str:
    """The text of a page."""
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def shape(line: str) -> str:
    """A line without what differs from run to run; records of the sample stay as they are."""
    line = " ".join(line.split())
    if line.startswith(SAMPLE_DAY):
        return line
    line = re.sub(r"/[^'\"]*\.parquet", "FILE", line)
    line = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", line)
    line = re.sub(r"\b[0-9a-f]{7,}\b", "HASH", line)
    line = re.sub(r"\d[\d,.]*", "0", line)
    return re.sub(r"--+", "-", line)


def difference(shown: tuple[str, ...], printed: str) -> str | None:
    """The first line of a page that is not so, in shape and order; None if all are."""
    there = [shape(line) for line in printed.splitlines() if line.strip()]
    at, is_free = 0, True
    for line in filter(str.strip, shown):
        if line.strip() == LEFT_OUT:
            is_free = True
            continue
        expected = shape(line)
        if is_free and expected in there[at:]:
            at = there.index(expected, at)
        if at >= len(there) or there[at] != expected:
            return line
        at, is_free = at + 1, False
    return None
