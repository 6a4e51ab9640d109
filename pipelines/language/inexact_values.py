"""Values that may differ from run to run, as a refusal names them, and what to write instead.

A double that was summed is exact once it is rounded. Rounding a whole number changes nothing: one
that may differ is an estimate, of `approx_count_distinct` or `percentile_approx`.
"""

from __future__ import annotations

from collections.abc import Iterable

from medusa_core.columns import Column
from pipelines.language.coercion import INTEGRAL

ESTIMATE_ADVICE = (
    "use count(distinct x), or percentile(x, 0.5) and round it, in place of an approximate function"
)


def inexact_values(
    columns: Iterable[Column], inexact: Iterable[str], where: str
) -> tuple[str, str]:
    """These columns and why they are not exact; and what to do, `where` for those to be rounded."""
    names = ", ".join(sorted(inexact))
    if estimates(columns, inexact):
        return f"{names}, estimates that may differ from run to run", ESTIMATE_ADVICE
    return f"{names}, whose last digits may differ from run to run", f"round it {where}"


def estimates(columns: Iterable[Column], inexact: Iterable[str]) -> bool:
    """Whether there are such columns and all of them are whole numbers, which rounding leaves."""
    types = [column.type for column in columns if column.name in set(inexact)]
    return bool(types) and all(type_ in INTEGRAL for type_ in types)
