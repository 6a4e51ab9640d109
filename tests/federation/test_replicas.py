"""Two compute the same, one reads: producers die, are cut off and come back; the reader has it all.

alpha lands, beta and gamma compute `counted`, delta reads what they do and computes `busy`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medusa_core.digest import Digest
from medusa_core.names import Participant, StreamName
from medusa_core.segments import IMPORT, Producer, Segment, Stability
from pipelines.changes.line_versions import line_of
from pipelines.operations.contract_application import ApplyRequest, apply_contracts
from pipelines.platform.drills.link_faults import LinkFaults, Lost, write_faults
from pipelines.quality.check_run import run_checks
from pipelines.quality.windows import WindowRequest
from tests.federation.building import (
    Running,
    rounds_until,
    seated,
    write_replicated,
)
from tests.home_pool import home_pool
from tests.standing_still import STOOD_STILL_S, Looks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

COUNTED, BUSY = StreamName("counted"), StreamName("busy")
PARTICIPANTS = tuple(map(Participant, ("alpha", "beta", "gamma", "delta")))
_, BETA, GAMMA, DELTA = PARTICIPANTS
CHOSEN = Producer(DELTA, IMPORT)
X_MS = 8_000
ABSENCES_MAX = 3
WINDOW_US = 2_000_000
"""The size of counted's windows: each second bucket has rows, so six buckets hold two or three."""
FEW = "source: {kind: generate, seed: 1, rate_per_s: 10, sources: 4}\n"


@pytest.fixture
def verify() -> int:
    return 1


@pytest.fixture
def four(
    postgres_server: EmbeddedServer, spark: SparkSession, tmp_path: Path, verify: int
) -> Iterator[dict[str, Running]]:
    contracts = write_replicated(
        tmp_path / "contracts",
        given=FEW,
        counted=f"verify: {verify}\n",
        busy=f"bound: {X_MS}ms\n",
    )
    with (
        home_pool(postgres_server, tmp_path / "federation", *PARTICIPANTS) as settings,
        ExitStack() as stack,
    ):
        apply_contracts(settings, ApplyRequest(contracts=contracts))
        yield {
            name: stack.enter_context(seated(settings, name, lambda: spark))
            for name in PARTICIPANTS
        }


def chosen(delta: Running) -> tuple[Segment, ...]:
    return delta.home_session.home.catalog.segments(COUNTED, producer=CHOSEN)


def through_us(delta: Running, stream: StreamName = BUSY) -> int:
    """Up to where the reader has a stream as final."""
    return line_of(delta.home_session.home.catalog, stream).stable_through_us or 0


def reached_us(of: Running) -> int:
    """Up to where a producer has computed."""
    lines = of.home_session.home.catalog.lines(COUNTED)
    return next(
        ln.boundary_us
        for ln in lines
        if ln.producer.participant == of.home_session.home.participant
    )


def contents(of: Running, producer: Producer) -> dict[int, Digest]:
    segments = of.home_session.home.catalog.segments(COUNTED, producer=producer)
    return {at: d for s in segments for at, d in s.buckets.items()}


def goes_on(delta: Running, running: list[Running], buckets: int) -> None:
    """Let them tick until the reader has so many buckets more as final."""
    expected = max(through_us(delta), *(reached_us(r) for r in running if _computes(r)))
    expected += buckets * 1_000_000
    rounds_until(running, lambda: through_us(delta) >= expected)


def _computes(of: Running) -> bool:
    return of.home_session.home.participant in (BETA, GAMMA)


def cut(delta: Running, partner: Participant) -> None:
    ways = (Lost(partner, DELTA), Lost(DELTA, partner))
    write_faults(delta.home_session.home.directory, LinkFaults(lost=ways))


def test_a_reader_loses_nothing_and_doubles_nothing_whichever_producer_is_away(
    four: dict[str, Running],
) -> None:
    alpha, beta, gamma, delta = four.values()
    folder = delta.home_session.home.directory
    goes_on(delta, [alpha, beta, gamma, delta], 1)

    # beta dies: gamma goes on.
    goes_on(delta, [alpha, gamma, delta], 2)
    # gamma is cut off from the reader, and beta is back: beta catches up and goes on.
    cut(delta, GAMMA)
    goes_on(delta, [alpha, beta, gamma, delta], 2)
    write_faults(folder, LinkFaults())
    goes_on(delta, [alpha, beta, gamma, delta], 1)

    rows = chosen(delta)
    assert {row.stability for row in rows} == {Stability.STABLE}
    read = {
        r.producer.participant for row in rows for r in delta.home_session.home.catalog.lineage(row)
    }
    assert read == {BETA, GAMMA}, "both have been read"
    history = delta.home_session.home.catalog.history(
        COUNTED, CHOSEN, rows[0].range.hull(rows[-1].range)
    )
    assert {event.stability for event in history} == {Stability.STABLE}, "nothing was tentative"
    steps = delta.home_session.home.catalog.segments(BUSY)
    assert {row.stability for row in steps} == {Stability.STABLE}
    # Bucket by bucket it is what each of them has computed.
    mine = {at: d for row in rows for at, d in row.buckets.items()}
    for producer, of in ((Producer(BETA, 0), beta), (Producer(GAMMA, 1), gamma)):
        computed = contents(of, producer)
        both = [at for at in mine if at < reached_us(of)]
        assert {at: mine[at] for at in both} == {at: computed[at] for at in both}
    windows = range(min(mine), max(mine) + 1, WINDOW_US)
    assert sorted(mine) == list(windows), "a row for each window, none twice"
    assert len(mine) >= 2
    outcome = run_checks(delta.home_session.home, WindowRequest(stream=BUSY))
    assert dict(outcome.not_recomputed) == {
        BUSY: "the records of given are not in this home: ask where they land"
    }
    assert delta.home_session.home.catalog.divergences() == ()


@pytest.mark.long
@pytest.mark.parametrize("verify", [2])
def test_what_is_not_verified_is_answered_within_the_bound_and_corrected_when_it_is(
    four: dict[str, Running],
) -> None:
    alpha, beta, gamma, delta = four.values()
    everybody, catalog = [alpha, beta, gamma, delta], delta.home_session.home.catalog

    def unverified() -> list[Segment]:
        return [row for row in chosen(delta) if row.missing == ("counted unverified",)]

    def tentative() -> list[Segment]:
        return [s for s in catalog.segments(BUSY) if not s.stability.is_final]

    # The first steps of a cold Spark are no promise's, nor what it answered meanwhile.
    rounds_until(
        everybody,
        lambda: len(chosen(delta)) > 2 and chosen(delta)[-1].age_ms < X_MS // 2 and not tentative(),
    )
    # A machine that stands still for seconds keeps no bound, and only then is beta away once more:
    # an answer that is late in every one of three absences is a fault.
    with Looks() as looks:
        for _ in range(ABSENCES_MAX):
            # What came in before a pause is answered after it: so old it may be.
            since_s = time.time() - X_MS / 1_000
            rounds_until([alpha, gamma, delta], lambda: len(unverified()) >= 2)
            rounds_until([alpha, gamma, delta], lambda: bool(tentative()))
            gap_s = looks.greatest_gap_s(since_s)
            answers = tentative()
            assert {s.missing for s in answers} == {("counted unverified",)}
            ages_ms = [s.age_ms for s in answers]
            assert max(ages_ms) <= X_MS or gap_s >= STOOD_STILL_S, (
                f"late, at {ages_ms} ms, and the machine stood still for {gap_s:.2f} s at most"
            )
            # Where they tick in turn, the newest may be unverified for a turn, beta there or not.
            goes_on(delta, everybody, 1)
            rounds_until(everybody, lambda: not unverified() and not tentative())
            if max(ages_ms) <= X_MS:
                break
    assert max(ages_ms) <= X_MS
    assert {s.stability for s in catalog.segments(BUSY)} == {Stability.STABLE}
    assert contents(delta, CHOSEN).items() <= {
        **contents(beta, Producer(BETA, 0)), **contents(gamma, Producer(GAMMA, 1))
    }.items()  # fmt: skip
