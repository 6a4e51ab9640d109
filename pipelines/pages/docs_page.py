"""A page of the documentation of this version, so that a link to it needs no other server."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from pipelines.base.settings import REPOSITORY
from pipelines.report.markup import Markup, join, tag

DOCS = REPOSITORY / "docs"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,60}")
_HEADING = re.compile(r"(#{1,4}) (.*)")
_PICTURE = re.compile(r"!\[([^\]]+)\]\((pictures/[a-z0-9-]{1,60}\.png)\)")
_INLINE = re.compile(
    r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\n]+)\*|\[([^\]]+)\]\(([a-z-]*)(?:\.md)?(#[a-z0-9-]+)?\)"
)


@lru_cache(maxsize=64)
def docs_page(name: str) -> tuple[str, Markup] | None:
    """Title and content; None if there is no such page."""
    file = DOCS / f"{name.removesuffix('.md')}.md"
    if not _NAME.fullmatch(file.stem) or not file.is_file():
        return None
    lines = file.read_text(encoding="utf-8").splitlines()
    return lines[0].lstrip("# "), join(_blocks(lines))


def docs_picture(name: str) -> Path | None:
    """The file of a picture of the documentation; None if there is no such picture."""
    file = DOCS / "pictures" / name
    return file if _NAME.fullmatch(file.stem) and file.suffix == ".png" and file.is_file() else None


def section_ids(name: str) -> frozenset[str]:
    """The sections of a page that a link may name."""
    file = DOCS / f"{name}.md"
    headings = map(_HEADING.fullmatch, file.read_text(encoding="utf-8").splitlines())
    return frozenset(section_id(found[2]) for found in headings if found)


def section_id(heading: str) -> str:
    """What a heading is called in a link: as GitHub calls it."""
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


def _blocks(lines: list[str]) -> list[Markup]:
    """Paragraphs, lists, tables, code and headings: what the documentation is written in."""
    found: list[Markup] = []
    at, title = 0, ""
    while at < len(lines):
        line = lines[at]
        end = at + 1
        if line.startswith("```"):
            while end < len(lines) and not lines[end].startswith("```"):
                end += 1
            found.append(tag("pre", "\n".join(lines[at + 1 : end]), tabindex="0"))
            end += 1
        elif heading := _HEADING.fullmatch(line):
            level, title = len(heading[1]), heading[2]
            found.append(tag(f"h{level}", _inline(heading[2]), id=section_id(heading[2])))
        elif line.startswith("|"):
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            found.append(_table(lines[at:end], f"table {len(found)}: {title}"))
        elif line.startswith("    "):
            while end < len(lines) and lines[end].startswith("    "):
                end += 1
            found.append(tag("pre", "\n".join(one[4:] for one in lines[at:end]), tabindex="0"))
        elif line.startswith("- "):
            while end < len(lines) and lines[end].startswith(("- ", "  ")):
                end += 1
            found.append(_list(lines[at:end]))
        elif picture := _PICTURE.fullmatch(line):
            found.append(tag("p", tag("img", alt=picture[1], src=picture[2])))
        elif line.strip() and not line.startswith("<!--"):
            while end < len(lines) and lines[end].strip() and lines[end][0] not in "|#`-":
                end += 1
            found.append(tag("p", _inline(" ".join(lines[at:end]))))
        at = end
    return found


def _list(lines: list[str]) -> Markup:
    items: list[str] = []
    for line in lines:
        if line.startswith("- "):
            items.append(line[2:])
        else:
            items[-1] += " " + line.strip()
    return tag("ul", *(tag("li", _inline(item)) for item in items))


def _table(lines: list[str], title: str) -> Markup:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    head = tag("tr", *(tag("th", _inline(cell), scope="col") for cell in rows[0]))
    body = [tag("tr", *(tag("td", _inline(cell)) for cell in row)) for row in rows[2:]]
    table = tag("table", tag("thead", head), tag("tbody", *body))
    return tag("div", table, class_="wide", tabindex="0", role="region", aria_label=title)


def _inline(words: str) -> Markup:
    parts: list[object] = []
    end = 0
    for found in _INLINE.finditer(words):
        parts.append(words[end : found.start()])
        code, bold, italic, link, page, part = found.groups()
        if code is not None:
            parts.append(tag("code", code))
        elif bold is not None:
            parts.append(tag("b", bold))
        elif italic is not None:
            parts.append(tag("em", italic))
        else:
            parts.append(tag("a", link, href=f"{page}{part or ''}"))
        end = found.end()
    return join([*parts, words[end:]])
