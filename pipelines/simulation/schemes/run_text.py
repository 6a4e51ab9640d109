"""A run's figures for people: a line for each cell, then one for each scheme, then the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.simulation.schemes.parts import (
    CELL,
    CHANGING,
    DEMO,
    MISREPORT,
    PUBLISHED,
    SMALL,
    SPREAD,
    Part,
)
from pipelines.simulation.schemes.published_figures import published_residual_percent
from pipelines.simulation.schemes.scheme_names import BOUNDED, NAMES, PLAIN
from pipelines.simulation.schemes.verdict import Done, cells_of, mean, title_of

MISSED_SHOWN_MAX = 40
HEADS = (
    ("residual", "residual_percent", 3),
    ("to 95 %", "rounds_to_95", 1),
    ("rounds", "rounds", 1),
    ("offers", "offers", 2),
    ("answers", "answers", 2),
    ("moves/unit", "moves_per_unit", 2),
    ("cost", "cost_after", 0),
)
IN_CELLS = [head for head in HEADS if head[0] not in ("answers", "cost")]


def lines_of(parts: Sequence[Part], done: Done) -> Iterator[str]:
    """Everything but the verdict."""
    cells = cells_of(parts)
    if cells:
        yield from _cells(cells, done)
        yield ""
        yield from _schemes(cells, done)
    for part in parts:
        if part.kind not in (CELL, PUBLISHED, SPREAD):
            yield from _experiment(part, done[part.key])


def verdict_lines(parts: Sequence[Part], missed: Sequence[str]) -> Iterator[str]:
    """What was missed, or that nothing was; the targets are those of the bounded price."""
    for one in missed[:MISSED_SHOWN_MAX]:
        yield f"missed: {one}"
    if len(missed) > MISSED_SHOWN_MAX:
        yield f"missed: and {len(missed) - MISSED_SHOWN_MAX} more (--json names all)"
    if not missed and any(BOUNDED in part.schemes for part in parts):
        yield "every target was reached, and every law held"
    elif not missed:
        yield "every law held (targets are set for the scheme bounded alone)"


def _cells(cells: Sequence[Sequence[Part]], done: Done) -> Iterator[str]:
    columns = [name for name in (BOUNDED, PLAIN) if name in cells[0][0].schemes]
    shown = columns or list(cells[0][0].schemes)
    width = max(len(title_of(cell)) for cell in cells)
    yield " " * width + "  seeds" + "".join(f"  | {name:<65}" for name in shown) + "  | 3.12"
    heads = " ".join(f"{head:>10}" for head, _, _ in IN_CELLS)
    yield f"{'':{width}}  {'':5}" + f"  | {heads} {'acceptable':>10}" * len(shown) + "  |"
    for cell in cells:
        line = f"{title_of(cell):{width}}  {len(cell):5}"
        for scheme in shown:
            figures = [
                _figure(mean(cell, done, scheme, name), places) for _, name, places in IN_CELLS
            ]
            line += "  | " + " ".join(figures) + f" {_accepted(cell, done, scheme):>10}"
        published = published_residual_percent(cell[0].sizes)
        yield line + "  | " + ("" if published is None else f"{published:g}")


def _schemes(cells: Sequence[Sequence[Part]], done: Done) -> Iterator[str]:
    """Means over the cells in which all schemes were run."""
    names = max((cell[0].schemes for cell in cells), key=len)
    all_ran = [cell for cell in cells if cell[0].schemes == names and cell[0].kind == CELL]
    yield f"{'mean of all cells':20}" + " ".join(f"{head:>10}" for head, _, _ in HEADS)
    for scheme in (name for name in NAMES if name in names):
        figures = []
        for _, name, places in HEADS:
            of = [mean(cell, done, scheme, name) for cell in all_ran]
            known = [value for value in of if value is not None]
            figures.append(_figure(sum(known) / len(known) if known else None, places))
        yield f"{scheme:20}" + " ".join(figures)


def _experiment(part: Part, given: Mapping[str, Any]) -> Iterator[str]:
    for scheme, of in given.items():
        match part.kind:
            case "changing":
                assert part.kind == CHANGING
                yield (
                    f"B4 {scheme}, seed {part.seed}: {of['units_changed']} units changed, "
                    f"{of['moves_per_changed_unit']:.2f} moves for each; excess left before the "
                    f"next change {of['excess_before_changes']:.1f}, at the end "
                    f"{of['excess_after']}; rest {of['rounds_to_rest_after']} rounds after the last"
                )
            case "demo":
                assert part.kind == DEMO
                yield from (f"B6 {scheme}: {line}" for line in of["lines"])
            case "small":
                assert part.kind == SMALL
                yield (
                    f"B7 {scheme}: {of['worlds']} small worlds from {part.seed}, "
                    f"{len(of['failures'])} failures"
                )
            case "misreport":
                assert part.kind == MISREPORT
                for one in of:
                    shown = f", found out by {one['found_out']}" if one["found_out"] else ""
                    yield (
                        f"B8 {scheme}, seed {part.seed}, {one['role']}, {one['deceit']}: gains "
                        f"{one['gain']:.4f} of at most {one['bound']:.4f}{shown}"
                    )


def _accepted(cell: Sequence[Part], done: Done, scheme: str) -> str:
    words = [done[part.key][scheme]["acceptance"] for part in cell if scheme in done[part.key]]
    return f"{sum(word == 'acceptable' for word in words)}/{len(words)}"


def _figure(value: float | None, places: int) -> str:
    return f"{'-' if value is None else format(value, f'.{places}f'):>10}"
