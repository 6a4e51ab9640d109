"""The verdict on a run: sentences about missed targets, none if all were reached.

Of each cell (a choice of contracts, levels, utilisation and load) the means over its seeds are
compared, in the matrix alone: beyond it are worlds that the published table names, and unlike
participants. Laws and rest are checked in every single world.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipelines.simulation.schemes.parts import CELL, CHANGING, PUBLISHED, SPREAD, Part
from pipelines.simulation.schemes.scheme_names import BOUNDED, PLAIN

RESIDUAL_PERCENT_MAX = 0.05
NEARLY_NOTHING = ((3, 4), (5, 2))
"""From so many contracts and levels on hardly anything may be left."""

ROUNDS_OF_PLAIN_MAX = 0.5
LAWFUL = (BOUNDED, PLAIN)

Done = Mapping[str, Mapping[str, Any]]


def missed(parts: Sequence[Part], done: Done) -> list[str]:
    """Everything that was missed, the targets first."""
    found = []
    for cell in cells_of(parts):
        found += _targets(cell, done)
    for part in parts:
        found += [f"{part.key}: {one}" for one in _broken(part, done[part.key])]
    return found


def cells_of(parts: Iterable[Part]) -> list[list[Part]]:
    """The parts of each cell, which differ in the seed alone."""
    cells: dict[object, list[Part]] = {}
    for part in parts:
        if part.kind in (CELL, PUBLISHED, SPREAD):
            cells.setdefault((part.kind, part.sizes), []).append(part)
    return list(cells.values())


def mean(cell: Sequence[Part], done: Done, scheme: str, name: str) -> float | None:
    """The mean of a figure over the worlds of a cell; None where the scheme was not run in it, or
    the figure has no value."""
    of = [done[part.key].get(scheme) for part in cell]
    values = [one[name] for one in of if one is not None and one[name] is not None]
    return sum(values) / len(values) if values else None


def title_of(cell: Sequence[Part]) -> str:
    """What a cell is, in a few words."""
    of = cell[0].sizes
    spread = f", spread {of.spread:g}" if of.spread else ""
    return (
        f"{of.load.value} {of.utilisation:g}, {of.contracts} contracts, {of.levels} levels{spread}"
    )


def _targets(cell: Sequence[Part], done: Done) -> list[str]:
    sizes = cell[0].sizes
    residual = mean(cell, done, BOUNDED, "residual_percent")
    if residual is None or cell[0].kind != CELL:
        return []
    found = []
    hardly = any(sizes.contracts >= m and sizes.levels >= k for m, k in NEARLY_NOTHING)
    if hardly and sizes.utilisation <= 1 and residual > RESIDUAL_PERCENT_MAX:
        found.append(f"{residual:.3f} % residual, {RESIDUAL_PERCENT_MAX} % at most is the target")
    plain = mean(cell, done, PLAIN, "residual_percent")
    if plain is not None and residual > plain:
        found.append(f"{residual:.3f} % residual, the plain rule left {plain:.3f} %")
    rounds, of_plain = (mean(cell, done, name, "rounds_to_95") for name in (BOUNDED, PLAIN))
    if rounds is not None and of_plain is not None and rounds > ROUNDS_OF_PLAIN_MAX * of_plain:
        found.append(
            f"{rounds:.1f} rounds to 95 %, the plain rule took {of_plain:.1f}, half is the target"
        )
    return [f"{title_of(cell)}: {one}" for one in found]


def _broken(part: Part, given: Mapping[str, Any]) -> list[str]:
    found = []
    for scheme in LAWFUL:
        if scheme in given:
            found += [f"{scheme}: {one}" for one in _of_scheme(part, given[scheme])]
    return found


def _of_scheme(part: Part, given: Any) -> list[str]:
    match part.kind:
        case "cell" | "published" | "spread" | "changing":
            found = list(given["violations"])
            if not given["is_at_rest"]:
                found.append("it did not come to rest")
            if part.kind == CHANGING and not given["is_within_move_bound"]:
                found.append("3.7.3: more moves than the changes account for")
            return found
        case "demo" | "small":
            return list(given["failures"])
        case "misreport":
            return [
                f"B8: a participant ({one['role']}) that {one['deceit']} gains {one['gain']:.4f}, "
                f"the bound is {one['bound']:.4f}"
                for one in given
                if one["gain"] > one["bound"] + 1e-9
            ]
        case kind:
            raise AssertionError(kind)
