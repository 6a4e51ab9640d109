"""Revisions of a source behind which every box with state is: what late records, and records added,
removed and replaced lead to is what all records in order give, in Spark and in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from random import Random

import pytest

from medusa_core.certificates import Suite
from pipelines.cli.main import main
from pipelines.homes.home import open_home
from pipelines.language.load import load_network
from pipelines.quality.check_run import run_checks
from pipelines.quality.windows import WindowRequest
from tests.replaying import Replayer, digests
from tests.revisions.late_home import (
    BUCKET_S,
    CALLS,
    HERE,
    SOURCE,
    Call,
    applied,
    calls,
    ending_of,
    late_of,
    run_to_the_end,
    write_calls,
)
from tests.sweeps import long_but

pytestmark = pytest.mark.usefixtures("interpreted")

BOXES = f"""{SOURCE}
from medusa_core.network import Deduplicate, Lookup, Map, Rank, Running, Session

so_far = Running(
    name="so_far", input="calls", by=("line",), within="40s",
    columns={{"so_many": "count(*)", "total": "sum(paid)"}},
)
dearest = Rank(name="dearest", input="calls", size="20s", group_by=("line",),
               order=("paid desc",), k=2, column="place")
visits = Session(
    name="visits", input="calls", by=("line",), gap="7s", length_max="40s",
    columns={{"n": "count(*)", "paid": "sum(paid)"}},
)
firsts = Deduplicate(name="firsts", input="calls", by=("line",), within="20s")
longest = Rank(name="longest", input="visits", size="60s", order=("n desc",), k=1, column="place",
               fragment="tail")
known = Lookup(name="known", input="firsts", table="counted", on=("line",), max_age="30s",
               columns={{"line": "input.line", "at_s": "input.at_s", "n": "table.n"}},
               fragment="tail")
network = Network(
    name="late", sources=(calls,),
    boxes=(counted, so_far, dearest, visits, firsts, longest, known),
    outputs=tuple(
        Output(name=f"{{box}}_rows", input=box)
        for box in ("so_far", "dearest", "visits", "firsts", "longest", "known")
    ),
    bucket="10s",
)
"""

REASON = ("--because", "the line was read twice", "--yes")


@pytest.mark.long
@pytest.mark.parametrize("seed", long_but(1, (1, 2, 3)))
def test_every_box_with_state_gives_what_all_records_in_order_give(
    replayer: Replayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    arrived, chance = calls(seed, 200), Random(seed)
    assert len(late_of(arrived)) > 1
    with applied(replayer.server, tmp_path, arrived, BOXES) as settings:
        run_to_the_end(settings, replayer.spark)
        monkeypatch.setenv("MEDUSA_DIR", str(settings.directory))
        monkeypatch.setenv("MEDUSA_CATALOG_URL", str(settings.catalog_url))
        right: list[Call] = []
        for option, rows, behind in drawn(sorted(arrived), chance):
            right = behind
            file = write_calls(tmp_path / "revision.csv", rows)
            assert main(["revise", CALLS, option, str(file), *REASON]) == 0, option
        run_to_the_end(settings, replayer.spark)
        found = ending_of(settings, tmp_path / "contracts/late.py")
        network = load_network(tmp_path / "contracts/late.py")
        with replayer.home("in-order") as home:
            inputs = {CALLS: [write_calls(tmp_path / "sorted.csv", right)]}
            replayer.run(home, network, inputs, width_s=BUCKET_S)
            expected = digests(home, network)
        for output in network.outputs:
            assert found.digests[output.name] == expected[output.name], output.name
            assert found.corrected[output.name], output.name
        with open_home(settings, HERE) as home:
            outcome = run_checks(
                home, WindowRequest(), session=lambda _: nullcontext(replayer.spark)
            )
    assert outcome.passed, [one.broken for one in outcome.found]
    by_duckdb = [one.certificate.stream for one in outcome.found
                 if one.certificate.suite is Suite.CONVERGED]  # fmt: skip
    assert {output.name for output in network.outputs} <= set(by_duckdb)


def drawn(right: list[Call], chance: Random) -> Iterator[tuple[str, list[Call], list[Call]]]:
    """Revisions one after the other: the option, its records, and all records behind it."""
    added = [(chance.randrange(20, 180), chance.choice("ab")) for _ in range(3)]
    right = sorted(right + added)
    yield "--add", added, right
    removed = chance.sample(right[10:-10], 4)
    for row in removed:
        right.remove(row)
    yield "--remove", sorted(removed), right
    start = chance.randrange(4, 14) * BUCKET_S
    others = [(start + 2, "b"), (start + 7, "a"), (start + 7, "a")]
    right = sorted([row for row in right if not start <= row[0] < start + BUCKET_S] + others)
    yield "--replace", others, right
