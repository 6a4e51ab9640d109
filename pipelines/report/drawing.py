"""Drawing of an acyclic graph as SVG: layers from top to bottom, few crossings at low cost.

Sugiyama's method in its plain form: a node is one layer below the lowest that it follows, long
arrows pass through the layers between at points, each layer is ordered by the mean
position of its neighbours, and nodes are moved under them as far as there is room. Colours are
those of the page's style sheet, so that the same picture serves light, dark and paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from textwrap import wrap

from pipelines.report.markup import Markup, join, tag

CHARACTER_PX = 7.3
"""Width of a character of the pictures' monospaced 12 px type, a little generous."""
LINE_PX = 16
PADDING_PX = 11
GAP_X_PX = 26
GAP_Y_PX = 44
MARGIN_PX = 12
POINT_PX = 12
WIDTH_MIN_PX = 150
LINE_CHARACTERS_MAX = 42
LINES_MAX = 40
SWEEPS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A box of the picture: a heading, lines below it, a CSS class, and a text when pointed at."""

    id: str
    heading: str
    lines: tuple[str, ...] = ()
    kind: str = "box"
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An arrow between two nodes, with a label."""

    start: str
    end: str
    label: str = ""


@dataclass(slots=True)
class _Cell:
    """A node, or the point where a long arrow passes a layer, and where it lies."""

    id: str
    width: float
    height: float
    layer: int
    node: Node | None = None
    lines: tuple[str, ...] = ()
    above: list[str] = field(default_factory=list)
    below: list[str] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


def draw(nodes: Sequence[Node], edges: Sequence[Edge], *, title: str, description: str) -> Markup:
    """The picture. Every edge must lead downwards: from a node that the other one follows."""
    cells = {n.id: _cell(n, layer) for n, layer in _layers(nodes, edges)}
    paths = [_path_of(edge, cells) for edge in edges]
    layers = _ordered(cells)
    _place(layers, cells)
    width = max(c.x + c.width for c in cells.values()) + MARGIN_PX
    height = max(c.y + c.height for c in cells.values()) + MARGIN_PX
    arrows = [
        _arrow(edge, [cells[at] for at in path]) for edge, path in zip(edges, paths, strict=True)
    ]
    boxes = [_box(c) for c in cells.values() if c.node is not None]
    return svg(width, height, join([*arrows, *boxes]), title=title, description=description)


def svg(width: float, height: float, inside: Markup, *, title: str, description: str) -> Markup:
    """A picture that says what it shows to who cannot see it, and scrolls where it is too wide."""
    picture = tag(
        "svg",
        tag("title", title),
        tag("desc", description),
        inside,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="img",
        aria_label=f"{title}. {description}",
    )
    # Wider than the screen it scrolls, also by keyboard.
    return tag("div", picture, class_="picture", tabindex="0", role="region", aria_label=title)


def _layers(nodes: Sequence[Node], edges: Iterable[Edge]) -> list[tuple[Node, int]]:
    above: dict[str, list[str]] = {n.id: [] for n in nodes}
    for edge in edges:
        above[edge.end].append(edge.start)
    layer: dict[str, int] = {}

    def of(id_: str) -> int:
        if id_ not in layer:
            layer[id_] = 1 + max((of(other) for other in above[id_]), default=-1)
        return layer[id_]

    return [(n, of(n.id)) for n in nodes]


def _cell(node: Node, layer: int) -> _Cell:
    wrapped = [part for line in node.lines for part in _wrapped(line)]
    if len(wrapped) > LINES_MAX:
        wrapped = [*wrapped[: LINES_MAX - 1], "…"]
    longest = max(len(line) for line in (node.heading, *wrapped))
    return _Cell(
        id=node.id,
        width=max(WIDTH_MIN_PX, longest * CHARACTER_PX + 2 * PADDING_PX),
        height=(1 + len(wrapped)) * LINE_PX + 2 * PADDING_PX - 3,
        layer=layer,
        node=node,
        lines=tuple(wrapped),
    )


def _wrapped(line: str) -> list[str]:
    return wrap(line, LINE_CHARACTERS_MAX, subsequent_indent="  ") or [""]


def _path_of(edge: Edge, cells: dict[str, _Cell]) -> list[str]:
    """The cells that an arrow passes; points for the layers between are made."""
    path = [edge.start]
    for layer in range(cells[edge.start].layer + 1, cells[edge.end].layer):
        point = f"{edge.start} {edge.end} {edge.label} {layer}"
        cells[point] = _Cell(id=point, width=POINT_PX, height=0, layer=layer)
        path.append(point)
    path.append(edge.end)
    for upper, lower in pairwise(path):
        cells[upper].below.append(lower)
        cells[lower].above.append(upper)
    return path


def _ordered(cells: Mapping[str, _Cell]) -> list[list[_Cell]]:
    """Layers, each in the order of the mean position of its neighbours, swept down and up."""
    layers: list[list[_Cell]] = [[] for _ in range(1 + max(c.layer for c in cells.values()))]
    for cell in cells.values():
        layers[cell.layer].append(cell)
    for sweep in range(SWEEPS):
        is_down = sweep % 2 == 0
        for layer in layers if is_down else reversed(layers):
            position = {c.id: at for row in layers for at, c in enumerate(row)}
            means = {
                c.id: _mean([position[n] for n in (c.above if is_down else c.below) or [c.id]])
                for c in layer
            }
            layer.sort(key=lambda cell, means=means: means[cell.id])  # type: ignore[misc]
    return layers


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def _place(layers: Sequence[Sequence[_Cell]], cells: Mapping[str, _Cell]) -> None:
    """Give every cell its place: packed at first, then moved under and over its neighbours."""
    y: float = MARGIN_PX
    for layer in layers:
        x = 0.0
        for cell in layer:
            cell.x, cell.y = x, y
            x += cell.width + GAP_X_PX
        y += max(c.height for c in layer) + GAP_Y_PX
    for sweep in range(SWEEPS):
        is_down = sweep % 2 == 0
        for layer in layers if is_down else reversed(layers):
            targets = []
            for cell in layer:
                near = (cell.above if is_down else cell.below) or [cell.id]
                targets.append(_mean([cells[n].middle for n in near]) - cell.width / 2)
            _spread(layer, targets)
    left = min(c.x for c in cells.values()) - MARGIN_PX
    for cell in cells.values():
        cell.x -= left


def _spread(layer: Sequence[_Cell], targets: Sequence[float]) -> None:
    """Place cells as near to their targets as possible, in order and without touching."""
    # Blocks of cells that would overlap are merged and put at their mean (isotonic regression).
    blocks: list[tuple[float, float, list[_Cell]]] = []
    for cell, x in zip(layer, targets, strict=True):
        blocks.append((x, cell.width + GAP_X_PX, [cell]))
        while len(blocks) > 1 and blocks[-2][0] + blocks[-2][1] > blocks[-1][0]:
            x2, length2, cells2 = blocks.pop()
            x1, length1, cells1 = blocks.pop()
            n1, n2 = len(cells1), len(cells2)
            start = (x1 * n1 + (x2 - length1) * n2) / (n1 + n2)
            blocks.append((start, length1 + length2, cells1 + cells2))
    for x, _, members in blocks:
        for cell in members:
            cell.x = x
            x += cell.width + GAP_X_PX


def _arrow(edge: Edge, path: Sequence[_Cell]) -> Markup:
    start = path[0]
    x, y = start.middle, start.y + start.height
    words = [f"M{x:.1f} {y:.1f}"]
    for cell in path[1:]:
        bend, to = (y + cell.y) / 2, cell.middle
        words.append(f"C{x:.1f} {bend:.1f} {to:.1f} {bend:.1f} {to:.1f} {cell.y:.1f}")
        x, y = to, cell.y
    head = f"M{x - 4:.1f} {y - 7:.1f}L{x:.1f} {y:.1f}L{x + 4:.1f} {y - 7:.1f}"
    parts = [tag("path", d="".join(words), class_="arc"), tag("path", d=head, class_="head")]
    if edge.label:
        at = path[1]
        label_x = (start.middle + at.middle) / 2 + 6
        label_y = (start.y + start.height + at.y) / 2 + 4
        parts.append(
            tag("text", edge.label, x=f"{label_x:.1f}", y=f"{label_y:.1f}", class_="label")
        )
    return join(parts)


def _box(cell: _Cell) -> Markup:
    node = cell.node
    assert node is not None
    x, y = cell.x + PADDING_PX, cell.y + PADDING_PX + 11
    lines = [tag("text", node.heading, x=f"{x:.1f}", y=f"{y:.1f}", class_="heading")]
    for number, line in enumerate(cell.lines, start=1):
        at = f"{y + number * LINE_PX:.1f}"
        lines.append(tag("text", line, x=f"{x:.1f}", y=at))
    outline = tag(
        "rect", x=f"{cell.x:.1f}", y=f"{cell.y:.1f}", width=f"{cell.width:.1f}",
        height=f"{cell.height:.1f}", rx="7",
    )  # fmt: skip
    hint = [tag("title", node.hint)] if node.hint else []
    return tag("g", *hint, outline, *lines, class_=node.kind)
