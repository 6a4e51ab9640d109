"""Random writing, correcting, delivering and crashing, held against the plainest model."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from medusa_core.segments import Stability
from pipelines.base.failpoints import DELIVERY_POINTS, visited_by
from tests.conftest import folder_on_memory
from tests.sinks.building import (
    COPIES,
    URL_VARIABLE,
    Database,
    SinkHome,
    a_memory_home,
    a_row,
    csv_rows,
    names,
    parquet_rows,
)
from tests.sweeps import examples, long_but

FINAL, TENTATIVE, GAP = Stability.STABLE, Stability.TENTATIVE, Stability.GAP
KINDS: dict[str, dict[str, Any]] = {
    "parquet": {"kind": "parquet"},
    "csv": {"kind": "csv"},
    "appended": {"kind": "postgres"},
    "by key": {"kind": "postgres", "key": ["id"]},
    "by key, tentative too": {"kind": "postgres", "key": ["id"], "stability": "all"},
}
"""How a sink is declared, but for its target and limits."""


class Crash(BaseException):
    """The process ends here."""


# Hypothesis tends to what is small and to the first of a list, and the interesting is neither: so a
# script has its least length, each step delivers, and few ids meet often.
rows_of_a_bucket = st.lists(st.integers(0, 3), min_size=1, max_size=4)
buckets = st.lists(rows_of_a_bucket, min_size=1, max_size=3)
stabilities = st.sampled_from([TENTATIVE] * 4 + [FINAL] * 3 + [GAP])
actions = st.one_of(
    st.tuples(st.just("write"), stabilities, buckets),
    st.tuples(st.just("correct"), st.integers(0, 9), buckets),
)
crashes = st.tuples(st.sampled_from((None, *DELIVERY_POINTS[1:] * 2)), st.integers(1, 2))
scripts = st.lists(st.tuples(actions, crashes), min_size=8, max_size=14)


def the_rows(bucket: int, ids: Sequence[int], said: str) -> list[dict[str, Any]]:
    return [a_row(id_, bucket, name=f"{said} {position}") for position, id_ in enumerate(ids)]


class Model:
    """The stream as it was written: stability and rows by bucket."""

    def __init__(self, home: SinkHome) -> None:
        self.home = home
        self.stability: list[Stability] = []
        self.writes = 0

    def write(self, stability: Stability, rows: Sequence[Sequence[int]]) -> None:
        """A segment at the frontier."""
        begin = len(self.stability)
        self._put(begin, stability, [[]] * len(rows) if stability is GAP else rows)

    def correct(self, which: int, rows: Sequence[Sequence[int]]) -> None:
        """Final rows in the place of some tentative buckets that follow each other."""
        tentative = [at for at, s in enumerate(self.stability) if s is TENTATIVE]
        if not tentative:
            return
        begin = tentative[which % len(tentative)]
        end = begin
        while end in tentative and end - begin < len(rows):
            end += 1
        self._put(begin, FINAL, rows[: end - begin])

    def _put(self, begin: int, stability: Stability, rows: Sequence[Sequence[int]]) -> None:
        end = begin + len(rows)
        self.writes += 1
        made = [
            r for at, ids in enumerate(rows) for r in the_rows(begin + at, ids, f"w{self.writes}")
        ]
        self.home.write(COPIES, begin, end, made, stability=stability)
        self.stability[begin:end] = [stability] * len(rows)

    @property
    def stable(self) -> int:
        """How many buckets the stable prefix has."""
        found = [at for at, s in enumerate(self.stability) if s is TENTATIVE]
        return found[0] if found else len(self.stability)

    def expected(self, kind: str) -> list[dict[str, Any]]:
        """What a target must hold."""
        everything = kind.endswith("tentative too")
        rows = self.home.rows(COPIES, None if everything else self.stable)
        rows.sort(key=in_order)
        if kind.startswith("by key"):
            rows = list({row["id"]: row for row in rows}.values())
        return sorted(rows, key=in_order)


in_order = itemgetter("at", "id", "name")


def found_in(kind: str, target: Path, database: Database | None) -> list[dict[str, Any]]:
    if kind == "parquet":
        return sorted(parquet_rows(target), key=in_order)
    if kind == "csv":
        return sorted(csv_rows(target), key=lambda r: (int(r["at"]), int(r["id"]), r["name"]))
    assert database is not None
    return sorted(database.rows(), key=in_order)


def deliver(home: SinkHome, crash: tuple[str | None, int]) -> None:
    """Deliver all there is, or until the process crashes at a point."""
    passes = 0

    def visit(point: str) -> None:
        nonlocal passes
        passes += point == crash[0]
        if passes == crash[1]:
            raise Crash

    with visited_by(visit), suppress(Crash):
        home.deliver()


@pytest.mark.sweep
@pytest.mark.parametrize("kind", long_but(3, KINDS))
def test_whatever_is_written_corrected_and_crashed_each_row_is_delivered_once(
    kind: str, request: pytest.FixtureRequest
) -> None:
    is_table = KINDS[kind]["kind"] == "postgres"
    database: Database | None = request.getfixturevalue("database") if is_table else None

    @settings(
        max_examples=examples(2, 12 if is_table else 20),
        deadline=None, derandomize=True, database=None,
        phases=[Phase.generate],  # each example is a real target: to shrink one takes minutes

        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(scripts, st.sampled_from([3, 1, 1_000]))
    def delivered(script: list[Any], rows_max: int) -> None:
        folder = folder_on_memory("medusa-sinks-")
        target = folder / "target"
        if database is not None:
            database.empty()
        try:
            with a_memory_home(folder / "home", database.url if database else "") as home:
                where: dict[str, Any] = (
                    {"url": f"${{{URL_VARIABLE}}}", "table": "rows"}
                    if is_table
                    else {"path": str(target)}
                )
                home.declare(COPIES, **KINDS[kind], **where, rows_max=rows_max)
                model = Model(home)
                model.write(FINAL, [[0]])
                for (name, *what), crash in script:
                    getattr(model, name)(*what)
                    deliver(home, crash)
                deliver(home, (None, 1))
                expected = model.expected(kind)
                if kind == "csv":
                    expected = [{**r, "at": str(r["at"]), "id": str(r["id"])} for r in expected]
                    found = [
                        {k: r[k] for k in ("at", "id", "name")}
                        for r in found_in(kind, target, None)
                    ]
                    assert found == [{k: r[k] for k in ("at", "id", "name")} for r in expected]
                else:
                    assert found_in(kind, target, database) == expected
                if not is_table:
                    assert not [n for n in names(target) if "medusa" in n]
                assert home.sink().through_us == model.stable * 10_000_000
        finally:
            shutil.rmtree(folder)

    delivered()
