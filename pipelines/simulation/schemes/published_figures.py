"""The figures of papers 3.12: residual avoidable overload in percent, of a small simulator of the
plain rule (995 participants, mean of two seeds), to hold ours against."""

from __future__ import annotations

from pipelines.simulation.schemes.drawn_worlds import Load, Sizes

LEVELS = (0, 1, 2, 4)
TABLE: dict[tuple[Load, float, int], tuple[float, float, float, float]] = {
    (Load.UNIFORM, 0.8, 1): (42.5, 30.3, 27.0, 26.6),
    (Load.UNIFORM, 0.8, 3): (10.6, 0.26, 0.0, 0.0),
    (Load.UNIFORM, 0.8, 10): (0.09, 0.0, 0.0, 0.0),
    (Load.UNIFORM, 0.95, 3): (28.4, 6.5, 0.82, 0.0),
    (Load.UNIFORM, 0.95, 5): (19.7, 1.15, 0.0, 0.0),
    (Load.UNIFORM, 0.95, 10): (6.9, 0.0, 0.0, 0.0),
    (Load.PARETO, 0.8, 3): (20.7, 0.59, 0.0, 0.0),
    (Load.PARETO, 0.95, 3): (38.8, 9.8, 1.36, 0.0),
    (Load.PARETO, 0.95, 10): (9.5, 0.0, 0.0, 0.0),
    (Load.PARETO, 1.2, 5): (21.8, 1.47, 1.42, 1.41),
    (Load.PARETO, 1.2, 10): (6.9, 0.46, 0.46, 0.53),
}


def published_residual_percent(sizes: Sizes) -> float | None:
    """What the table says of a world of these sizes; None where it says nothing."""
    row = TABLE.get((sizes.load, sizes.utilisation, sizes.contracts))
    same = sizes.participants == 995 and sizes.fragments == 80 and not sizes.spread
    return row[LEVELS.index(sizes.levels)] if row and same and sizes.levels in LEVELS else None
