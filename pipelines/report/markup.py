"""HTML that cannot be injected into: whatever is not Markup already is escaped when it is added.

Elements are built by `tag`, whose children and attribute values may be anything; only what `tag`
and `join` return passes unescaped. The same functions write the SVG inside the page.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import repeat


class Markup(str):
    """Text that is HTML and safe to be put into a page as it is."""

    __slots__ = ()


SHORT = 28
"""Up to how many characters a cell's text is kept on one line."""

VOID = ("meta", "link", "br", "hr", "line", "rect", "path", "circle", "img")


def text(value: object) -> Markup:
    """A value as text of a page; characters that no page may hold are shown as pictures of them."""
    if isinstance(value, Markup):
        return value
    return Markup(escape("".join(map(_visible, str(value))), quote=True))


def _visible(character: str) -> str:
    code = ord(character)
    if code < 32 and character not in "\n\t":
        return chr(0x2400 + code)
    # DEL, the C1 controls, half of a pair, and what changes the direction of text.
    is_directional = 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069
    if 127 <= code < 160 or 0xD800 <= code < 0xE000 or is_directional or code in (0xFFFE, 0xFFFF):
        return "\ufffd"
    return character


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element. `class_` is the attribute class, `_` in a name is `-`, None leaves one out."""
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            words.append(f'{_attribute(key)}="{text(value)}"')
    opening = " ".join(words)
    if name in VOID and not children:
        return Markup(f"<{opening}/>")
    return Markup(f"<{opening}>{join(children)}</{name}>")


def _attribute(key: str) -> str:
    # viewBox and its like keep their capitals; a trailing _ avoids a word of Python.
    return key.rstrip("_").replace("_", "-")


def join(parts: Iterable[object], separator: str = "") -> Markup:
    """Parts one after the other, each escaped unless it is Markup."""
    return Markup(separator.join(text(part) for part in parts))


def table(
    names: Iterable[object],
    rows: Iterable[Iterable[object]],
    caption: object,
    *,
    thousands: str = ",",
) -> Markup:
    """A table with a caption and column headings; columns of whole numbers stand to the right."""
    names, body = list(names), [list(row) for row in rows]
    is_number = [bool(body) and all(type(r[at]) is int for r in body) for at in range(len(names))]
    head = [
        tag("th", name, scope="col", class_="number" if right else None)
        for name, right in zip(names, is_number, strict=True)
    ]
    lines = [tag("tr", *map(_cell, row, is_number, repeat(thousands))) for row in body]
    whole = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *head)),
        tag("tbody", *lines),
    )
    # Wider than the screen it scrolls, also by keyboard.
    return tag("div", whole, class_="wide", tabindex="0", role="region", aria_label=caption)


def _cell(value: object, is_number: bool, thousands: str) -> Markup:
    if is_number:
        return tag("td", f"{value:{thousands}}", class_="number")
    is_short = not isinstance(value, Markup) and len(str(value)) <= SHORT
    return tag("td", value, class_="short" if is_short else None)
