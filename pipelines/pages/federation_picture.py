"""The federation as a picture: a lane for each participant, fragments from left to right as streams
flow, arrows for streams.

A fragment is one column to the right of the last one that it reads. Colours are those of the
style sheet; each state has a shape and a word, too. Where there are too many boxes there is no
picture: the page then shows participants alone, and the picture of one with what is beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.pages.elements import GLYPHS, WORDS
from pipelines.report.drawing import svg
from pipelines.report.markup import Markup, join, tag

PARTICIPANTS_MAX, BOXES_MAX = 14, 60
WIDTH_PX, HEIGHT_PX = 172, 46
GAP_X_PX, GAP_Y_PX = 136, 12
STUB_PX = 56
"""Before a box an arrow is straight: its label is there."""
PADDING_PX = 14
LABEL_PX = 132
CHARACTERS_MAX, LABEL_CHARACTERS_MAX = 20, 14

Fragment = Mapping[str, Any]


@dataclass(slots=True)
class _Box:
    """A fragment, its column, and its position."""

    of: Fragment
    column: int
    x: float = 0.0
    y: float = 0.0


def is_drawn(participants: int, fragments: Sequence[Fragment], in_all: int) -> bool:
    """Whether there are few enough."""
    return participants <= PARTICIPANTS_MAX and len(fragments) == in_all <= BOXES_MAX


def draw_federation(fragments: Sequence[Fragment], participants: Sequence[Mapping[str, Any]],
                    links: Iterable[Mapping[str, Any]]) -> Markup:  # fmt: skip
    """The picture of these fragments; of `participants` those that have one."""
    columns = _columns(fragments)
    boxes = {one["id"]: _Box(one, columns[one["id"]]) for one in fragments}
    lanes = _lanes(boxes.values(), participants)
    y = 0.0
    panels = []
    for participant, members in lanes:
        height = _place(members, y)
        panels.append((participant, y, height))
        y += height + GAP_Y_PX
    width = LABEL_PX + (1 + max(columns.values())) * (WIDTH_PX + GAP_X_PX)
    by_pair = {(link["reader"], link["partner"]): link for link in links}
    inside = [
        *(_panel(participant, top, width, height) for participant, top, height in panels),
        *_arrows(boxes.values(), by_pair),
        *(_drawn(box) for box in boxes.values()),
    ]
    return svg(
        width,
        max(y - GAP_Y_PX, 1),
        join(inside),
        title="The federation",
        description=(
            f"{len(lanes)} participants, {len(boxes)} fragments; the table below says the same"
        ),
    )


def _columns(fragments: Sequence[Fragment]) -> dict[str, int]:
    """How many fragments are before each; a cycle, which no network has, ends the count."""
    writers: dict[str, list[str]] = {}
    for one in fragments:
        for stream in one["outputs"]:
            writers.setdefault(stream, []).append(one["id"])
    found = {one["id"]: 0 for one in fragments}
    for _ in fragments:
        is_changed = False
        for one in fragments:
            before = [found[w] for s in one["inputs"] for w in writers.get(s, ())]
            column = min(max(before, default=-1) + 1, len(fragments) - 1)
            if column > found[one["id"]]:
                found[one["id"]], is_changed = column, True
        if not is_changed:
            break
    return found


def _lanes(
    boxes: Iterable[_Box], participants: Sequence[Mapping[str, Any]]
) -> list[tuple[Mapping[str, Any], list[_Box]]]:
    """Participants from those at the sources to those at the ends."""
    members: dict[str, list[_Box]] = {}
    for box in boxes:
        members.setdefault(box.of["participant"], []).append(box)
    lanes = [(one, members[one["name"]]) for one in participants if one["name"] in members]

    def order(lane: tuple[Mapping[str, Any], list[_Box]]) -> tuple[float, str]:
        participant, own = lane
        return sum(box.column for box in own) / len(own), participant["name"]

    return sorted(lanes, key=order)


def _place(members: list[_Box], top: float) -> float:
    """Put the boxes of a lane under one another in their columns; the height of the lane."""
    rows: dict[int, int] = {}
    for box in sorted(members, key=lambda box: box.of["name"]):
        row = rows.get(box.column, 0)
        rows[box.column] = row + 1
        box.x = LABEL_PX + box.column * (WIDTH_PX + GAP_X_PX)
        box.y = top + PADDING_PX + row * (HEIGHT_PX + GAP_Y_PX)
    return 2 * PADDING_PX - GAP_Y_PX + max(rows.values()) * (HEIGHT_PX + GAP_Y_PX)


def _panel(participant: Mapping[str, Any], top: float, width: float, height: float) -> Markup:
    kind = "lane" if participant["is_seen"] else "lane elsewhere"
    words = "home here" if participant["is_seen"] else "by the exchange"
    panel = tag("rect", x="0.5", y=f"{top + 0.5:.1f}", width=f"{width - 1:.1f}",
                height=f"{height - 1:.1f}", rx="6", class_=kind)  # fmt: skip
    middle = top + height / 2
    name = _text(participant["name"], 14, middle - 3, "lane-name", _short(participant["name"], 15))
    return join([panel, name, _text(words, 14, middle + 13, "lane-kind")])


def _text(words: str, x: float, y: float, kind: str, shown: str | None = None) -> Markup:
    hint = [] if shown is None or shown == words else [tag("title", words)]
    return tag("text", *hint, words if shown is None else shown, x=f"{x:.1f}", y=f"{y:.1f}",
               class_=kind)  # fmt: skip


def _short(words: str, characters: int) -> str:
    return words if len(words) <= characters else words[: characters - 1] + "…"


def _drawn(box: _Box) -> Markup:
    one = box.of
    state = "left" if one["is_left"] else one["state"]
    heading = one["outputs"][0] if one["is_source"] and one["outputs"] else one["name"]
    kind = "source" if one["is_source"] else f"replica {one['replica']}" if one["replica"] else ""
    if one["is_left"]:
        second = f"now at {one['computed_by']}"
    elif one["belongs_to"] != one["participant"]:
        second = f"{WORDS[state]}, of {one['belongs_to']}"
    else:
        second = WORDS[state] + (f", {kind}" if kind else "")
    outline = tag("rect", x=f"{box.x:.1f}", y=f"{box.y:.1f}", width=WIDTH_PX, height=HEIGHT_PX,
                  rx="5", class_="outline")  # fmt: skip
    shape = tag(
        "path", d=GLYPHS["unknown" if one["is_left"] else state], fill_rule="evenodd",
        class_=f"glyph {state}", transform=f"translate({box.x + 11:.1f} {box.y + 27:.1f})",
    )  # fmt: skip
    hint = ", ".join(filter(None, [one["name"], WORDS.get(state), one["because"]]))
    inside = [
        tag("title", hint),
        outline,
        shape,
        _text(heading, box.x + 11, box.y + 19, "box-name", _short(heading, CHARACTERS_MAX)),
        _text(second, box.x + 29, box.y + 37, "box-state", _short(second, CHARACTERS_MAX)),
    ]
    return tag("g", *inside, class_=f"fragment {state}")


def _arrows(
    boxes: Iterable[_Box], links: Mapping[tuple[str, str], Mapping[str, Any]]
) -> list[Markup]:
    every = list(boxes)
    readers: dict[str, list[_Box]] = {}
    for box in every:
        if not box.of["is_left"]:
            for stream in box.of["inputs"]:
                readers.setdefault(stream, []).append(box)
    found: list[Markup] = []
    for box in every:
        if box.of["is_left"]:
            continue
        outputs = box.of["outputs"]
        for at, stream in enumerate(outputs):
            y = box.y + HEIGHT_PX * (at + 1) / (len(outputs) + 1)
            name = _short(stream, LABEL_CHARACTERS_MAX)
            found += [
                _arrow(box, y, reader, stream, links)
                for reader in readers.get(stream, ())
                if reader is not box
            ]
            found.append(_text(stream, box.x + WIDTH_PX + 8, y - 5, "stream-name", name))
    return found


def _arrow(box: _Box, y: float, reader: _Box, stream: str,
           links: Mapping[tuple[str, str], Mapping[str, Any]]) -> Markup:  # fmt: skip
    inputs = reader.of["inputs"]
    to_y = reader.y + HEIGHT_PX * (inputs.index(stream) + 1) / (len(inputs) + 1)
    x, to_x = box.x + WIDTH_PX, reader.x
    level_x = max(to_x - STUB_PX, x + 24)
    bend = (level_x - x) / 2
    line = (
        f"M{x:.1f} {y:.1f}C{x + bend:.1f} {y:.1f} {level_x - bend:.1f} {to_y:.1f} "
        f"{level_x:.1f} {to_y:.1f}H{to_x - 2:.1f}"
    )
    head = f"M{to_x - 8:.1f} {to_y - 4:.1f}L{to_x - 1:.1f} {to_y:.1f}L{to_x - 8:.1f} {to_y + 4:.1f}"
    link = links.get((reader.of["participant"], box.of["participant"]))
    is_same = reader.of["participant"] == box.of["participant"]
    state = "inside" if is_same else "unknown" if link is None else link["state"]
    parts = [
        tag("title", f"{stream}: {_link_words(link) if not is_same else 'within one home'}"),
        tag("path", d=line, class_="arc"),
        tag("path", d=head, class_="head"),
    ]
    if state in ("unreachable", "refused"):
        parts.append(
            tag("text", f"✕ {state}", x=f"{to_x - 8:.1f}", y=f"{to_y - 5:.1f}", class_="link-bad")
        )
    elif link is not None and state == "reachable" and link["delay_ms"] is not None:
        parts.append(
            tag("text", f"{link['delay_ms']:,} ms", x=f"{to_x - 10:.1f}", y=f"{to_y - 5:.1f}",
                class_="link-delay")
        )  # fmt: skip
    return tag("g", *parts, class_=f"arrow {state}")


def _link_words(link: Mapping[str, Any] | None) -> str:
    if link is None:
        return "nothing is known of the link"
    words = [f"{link['reader']} reads from {link['partner']}: {link['state']}"]
    if link["delay_ms"] is not None:
        words.append(f"news {link['delay_ms']:,} ms after its commit")
    return ", ".join(filter(None, [*words, link["error"]]))
