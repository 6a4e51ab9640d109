"""A partner is cut off: answers keep coming within the bound, and are corrected afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import Engine, create_engine, text

from medusa_core.certificates import Suite
from medusa_core.commits import Cause
from medusa_core.decide import ComputeStep
from medusa_core.loads import load_of
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Stability
from medusa_core.states import State
from pipelines.catalog.postgres.home_database import catalog_url
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.platform.drills.link_faults import LinkFaults, Lost, write_faults
from pipelines.quality.check_run import run_checks
from pipelines.quality.windows import WindowRequest
from tests.federation.building import Running, rounds_until, seated
from tests.home_pool import home_pool
from tests.standing_still import STOOD_STILL_S, Looks
from tests.sweeps import IS_LONG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

PARTICIPANTS = tuple(map(Participant, ("alpha", "beta", "delta")))
X_MS = 8_000
HOUR_MS = 3_600_000
OUTPUT = StreamName("busy")
CUTS_MAX = 3
NETWORK = """
from medusa_core.network import Aggregate, Filter, Network, Output, Source, Union

COLUMNS = {"ts_us": "bigint", "orig_h": "string", "resp_p": "int"}
network = Network(
    name="joined",
    sources=tuple(Source(name=n, columns=COLUMNS, time="ts_us") for n in ("left", "right")),
    boxes=(
        Union(name="all", inputs=("left", "right")),
        Aggregate(name="per_source", input="all", size="2s", group_by=("orig_h",),
                  columns={"connections": "count(*)", "ports": "count(distinct resp_p)"}),
        Filter(name="often", input="per_source", cases={"yes": "connections > 0"}),
    ),
    outputs=(Output(name="busy", input="often"),),
    bucket="1s",
)
"""


def write_contracts(folder: Path) -> Path:
    """Two that land, and a third that joins what they land and promises X."""
    for kind in ("participants", "streams", "networks"):
        (folder / kind).mkdir(parents=True)
    (folder / "networks" / "joined.py").write_text(NETWORK)
    run = "runs:\n  - network: networks/joined.py\n"
    for seed, (name, source) in enumerate((("alpha", "left"), ("beta", "right"))):
        (folder / "participants" / f"{name}.yaml").write_text(
            f"participant: {name}\n{run}    sources: [{source}]\n"
        )
        (folder / "streams" / f"{source}.yaml").write_text(
            f"stream: {source}\nsource:\n  kind: generate\n  seed: {seed}\n  rate_per_s: 10\n"
            "  sources: 4\n"
        )
    (folder / "participants" / "delta.yaml").write_text(
        f"participant: delta\n{run}    fragments: [main]\n"
    )
    (folder / "streams" / f"{OUTPUT}.yaml").write_text(f"stream: {OUTPUT}\nbound: {X_MS}ms\n")
    return folder


@pytest.fixture
def three(
    postgres_server: EmbeddedServer, spark: SparkSession, tmp_path: Path
) -> Iterator[dict[str, Running]]:
    contracts = write_contracts(tmp_path / "contracts")
    with (
        home_pool(postgres_server, tmp_path / "federation", *PARTICIPANTS) as settings,
        ExitStack() as stack,
    ):
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        yield {
            name: stack.enter_context(seated(settings, name, lambda: spark))
            for name in PARTICIPANTS
        }


@pytest.fixture
def engine(three: dict[str, Running]) -> Iterator[Engine]:
    """Logins to delta's database that are kept: it is looked at after each round."""
    made = create_engine(catalog_url(three["delta"].home_session.url))
    yield made
    made.dispose()


def rows_of(engine: Engine) -> list[Any]:
    """Every segment of the output that ever was: range, stability, age, what it lacked, its end."""
    with engine.connect() as connection:
        return list(
            connection.execute(
                text(
                    "SELECT s.from_us, s.to_us, s.stability::text, s.age_ms, s.missing, "
                    "s.end_version, s.version FROM medusa.segment AS s "
                    "JOIN medusa.stream_producer AS p ON p.line_id = s.line_id "
                    "WHERE p.stream = :stream ORDER BY s.from_us, s.version"
                ),
                {"stream": OUTPUT},
            )
        )


def now_and_window(delta: Running) -> tuple[int, int]:
    return delta.home_session.home.catalog.read_clock_ms(), HOUR_MS


def tentative(engine: Engine) -> list[Any]:
    return [row for row in rows_of(engine) if row.stability == "tentative"]


@pytest.mark.sweep
def test_answers_keep_coming_within_the_bound_and_exactly_those_are_corrected(
    three: dict[str, Running], engine: Engine, spark: SparkSession
) -> None:
    alpha, delta = Participant("alpha"), three["delta"]
    folder, everybody = delta.home_session.home.directory, list(three.values())

    def stable() -> int:
        segments = delta.home_session.home.catalog.segments(OUTPUT)
        return sum(segment.stability is Stability.STABLE for segment in segments)

    def is_stable_through(time_us: int) -> bool:
        # The turn after the last correction notes the state.
        states = [t.state for t in delta.home_session.home.catalog.transitions()]
        is_corrected = all(row.end_version is not None for row in tentative(engine))
        final_us = max(r.to_us for r in rows_of(engine) if r.stability == "stable")
        return final_us > time_us and is_corrected and states[-1] is State.STABLE

    # The first steps of a cold Spark are no promise's, nor what was landed while they were made.
    rounds_until(everybody, lambda: stable() >= 2 and rows_of(engine)[-1].age_ms < X_MS // 2)
    cut = LinkFaults(lost=(Lost(alpha, Participant("delta")), Lost(Participant("delta"), alpha)))
    # A machine that stands still for seconds keeps no bound, and only then is there another cut: an
    # answer that is late in every one of three cuts is a fault.
    with Looks() as looks:
        for _ in range(CUTS_MAX):
            # What came in before a pause is answered after it: so old it may be.
            since_s = time.time() - X_MS / 1_000
            before = len(tentative(engine))
            write_faults(folder, cut)
            rounds_until(everybody, lambda before=before: len(tentative(engine)) >= before + 2)  # type: ignore[misc]
            gap_s = looks.greatest_gap_s(since_s)
            lacking = tentative(engine)[before:]
            assert {tuple(row.missing) for row in lacking} == {("left",)}
            ages_ms = [row.age_ms for row in lacking]
            if max(ages_ms) <= X_MS:
                break
            assert gap_s >= STOOD_STILL_S, (
                f"late, at {ages_ms} ms, and the machine stood still for {gap_s:.2f} s at most"
            )
            write_faults(folder, LinkFaults())
            rounds_until(everybody, lambda to_us=lacking[-1].to_us: is_stable_through(to_us))  # type: ignore[misc]
    assert max(ages_ms) <= X_MS
    answers = {
        d.range: d.because
        for d in delta.heard.decisions
        if isinstance(d, ComputeStep) and d.range.to_us > lacking[0].from_us and d.missing
    }
    numbers = answers[min(answers)].numbers
    assert numbers["now_ms"] - numbers["fresh_ms"] >= numbers["wait_ms"], "as long as X allows"
    assert "as in the bucket before" in answers[max(answers)].reason, "and once"

    write_faults(folder, LinkFaults())
    rounds_until(everybody, lambda: is_stable_through(lacking[-1].to_us))
    rows = rows_of(engine)
    superseded = {(r.from_us, r.to_us) for r in rows if r.end_version is not None}
    lacked = {(r.from_us, r.to_us) for r in rows if r.stability == "tentative"}
    assert superseded == lacked
    final = [(r.from_us, r.to_us) for r in rows if r.stability == "stable"]
    again = [t for t in final if any(f < t[1] and t[0] < u for f, u in lacked)]
    covered = {(f, u) for f, u in lacked if any(a[0] <= f and u <= a[1] for a in again)}
    assert covered == lacked, "every answer has been corrected"
    assert sum(u - f for f, u in again) == sum(u - f for f, u in lacked), "and nothing else"

    delta.loop.meter.flush()
    load = load_of(delta.home_session.home.catalog.loads_since(HOUR_MS), *now_and_window(delta))
    assert load is not None
    spent = {key.cause for key, cores in load.by_key.items() if key.fragment == "joined/main"}
    assert spent == {Cause.NORMAL, Cause.TENTATIVE, Cause.CORRECTION}
    assert 0 < load.corrections < load.total
    assert load.of("joined/main") < load.carried, "corrections are metered apart"

    states = [t.state for t in delta.home_session.home.catalog.transitions()]
    assert State.UP_FAILURE in states
    # The bound is checked for the answers of the cut only: before it Spark is cold, and after it
    # the machine may have stood still; all other laws are checked for what followed as well. In
    # `make test` the ages and what was corrected are compared above alone.
    spans = ((lacking[-1].to_us, False), (None, True))
    for to_us, of_all in spans if IS_LONG else ():
        asked = WindowRequest(stream=OUTPUT, from_us=lacking[0].from_us, to_us=to_us)
        outcome = run_checks(
            delta.home_session.home, asked, session=lambda home: nullcontext(spark)
        )
        broken = [f.certificate for f in outcome.found if not f.certificate.passed]
        assert [c for c in broken if not (of_all and c.suite is Suite.AVAILABILITY)] == []
