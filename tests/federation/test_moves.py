"""A running fragment is computed by a partner for a while: its line continues as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from medusa_core.commits import Hold
from medusa_core.decide import Adopt, ComputeStep
from medusa_core.exchange import IMPORT_PURPOSE, READER_LIMIT_MS
from medusa_core.grid import ceil_us
from medusa_core.names import Epoch, StreamName
from medusa_core.segments import Producer, Stability
from pipelines.catalog.interface import Catalog
from pipelines.catalog.records import OwnerLine
from pipelines.market.moves.move_order import MoveOrder
from pipelines.market.moves.moved_deployments import (
    order_of,
    payer_deployment,
    provider_deployments,
)
from pipelines.storage.csv_export import export_stream
from tests.federation.building import Running, rounds_until, seated
from tests.federation.counting_pair import counting_pair
from tests.federation.test_partner_streams import apply, grant
from tests.partners.offices import Office

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer

pytestmark = pytest.mark.usefixtures("interpreted")

SECOND_US = 1_000_000
COUNTED, CONNECTIONS = StreamName("counted"), StreamName("connections")
FRAGMENT = "counts/main"


@pytest.fixture(scope="module")
def offices(
    postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Office, Office]]:
    """See `counting_pair`."""
    with counting_pair(postgres_server, tmp_path_factory.mktemp("moves")) as pair:
        yield pair


@dataclass
class Pair:
    """Both participants, ticked in turn."""

    alpha: Running
    beta: Running

    @property
    def payer(self) -> Catalog:
        return self.alpha.home_session.home.catalog

    @property
    def provider(self) -> Catalog:
        return self.beta.home_session.home.catalog

    def until(self, is_done: Callable[[], bool]) -> None:
        rounds_until([self.alpha, self.beta], is_done)

    def reached_us(self, by: Producer) -> int:
        """How far a line of `counted` is stable in alpha's home."""
        lines = {line.producer: line for line in self.payer.lines(COUNTED)}
        return lines[by].stable_through_us or 0 if by in lines else 0


def running(offices: tuple[Office, Office], spark: SparkSession, stack: ExitStack) -> Pair:
    alpha, beta = (
        stack.enter_context(seated(one.settings, one.participant, lambda: spark, is_served=False))
        for one in offices
    )
    return Pair(alpha, beta)


def own(pair: Pair) -> Producer:
    return Producer(pair.payer.participant)


def advance(pair: Pair, buckets: int) -> None:
    """Until alpha's own line has so many more buckets."""
    goal_us = pair.reached_us(own(pair)) + buckets * 2 * SECOND_US
    pair.until(lambda: pair.reached_us(own(pair)) >= goal_us)


def start(pair: Pair, offices: tuple[Office, Office], number: int) -> MoveOrder:
    """Beta computes, and alpha imports what it does."""
    order = order_of(pair.payer, FRAGMENT, number)
    beta = pair.provider.participant
    pair.payer.place_hold(
        Hold(stream=CONNECTIONS, holder=beta, purpose=IMPORT_PURPOSE,
             from_us=order.starts_us - 2 * SECOND_US, limit_ms=READER_LIMIT_MS)
    )  # fmt: skip
    directory = pair.beta.home_session.home.directory
    for deployment in provider_deployments(pair.provider, order, directory):
        pair.provider.deploy(deployment)
    pair.payer.deploy(payer_deployment(pair.payer, order, beta))
    grant(offices[0], CONNECTIONS, "beta")
    grant(offices[1], COUNTED, "alpha")
    return order


def give(pair: Pair, owner: Producer, from_us: int) -> None:
    epoch = Epoch(len(pair.payer.fragment_owners(FRAGMENT)) + 1)
    pair.payer.change_owner(
        OwnerLine(fragment=FRAGMENT, epoch=epoch, owner=owner, from_us=from_us, timeout_ms=4_000,
                  because="a test")
    )  # fmt: skip


def computed(pair: Pair) -> list[type]:
    """What became of each bucket of `counted` in alpha's home since it was seated, in order."""
    kinds = (Adopt, ComputeStep)
    return [type(s.decision) for s in pair.alpha.heard.steps if isinstance(s.decision, kinds)]


def rows(running: Running, stream: StreamName, folder: Path) -> list[dict[str, str]]:
    home = running.home_session.home
    file = folder / f"{stream}.csv"
    export_stream(home.catalog, home.storage, stream, file)
    lines = file.read_text().splitlines()
    header = lines[0].split(",")
    return [dict(zip(header, line.split(","), strict=True)) for line in lines[1:]]


def test_a_fragment_moves_while_records_land_outlives_its_provider_and_comes_back(
    offices: tuple[Office, Office], spark: SparkSession, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        pair = running(offices, spark, stack)
        advance(pair, 2)
        order = start(pair, offices, 1)
    beta = Producer(offices[1].participant, order.replica)
    with ExitStack() as stack:
        pair = running(offices, spark, stack)
        pair.until(lambda: pair.reached_us(beta) >= pair.reached_us(own(pair)) > order.starts_us)
        from_us = ceil_us(pair.reached_us(own(pair)) + 1, 2 * SECOND_US)
        give(pair, beta, from_us)
        pair.until(lambda: pair.reached_us(own(pair)) >= from_us + 6 * SECOND_US)
        assert computed(pair)[-1] is Adopt
        assert [apply(one).is_same for one in offices] == [True, True]
        # The provider is gone for a while: its buckets are late, and no row of alpha's is missing.
        late_us = pair.reached_us(own(pair)) + 4 * SECOND_US
        rounds_until([pair.alpha], lambda: pair.reached_us(own(pair)) >= late_us)
        assert computed(pair)[-1] is ComputeStep
        pair.until(lambda: computed(pair)[-1] is Adopt)
        back_us = ceil_us(pair.reached_us(own(pair)) + 1, 2 * SECOND_US)
        give(pair, own(pair), back_us)
        pair.until(lambda: pair.reached_us(own(pair)) >= back_us + 2 * SECOND_US)
        assert computed(pair)[-1] is ComputeStep
        for catalog in (pair.payer, pair.provider):
            assert catalog.stop_fragment(order.id)
    with ExitStack() as stack:
        pair = running(offices, spark, stack)
        advance(pair, 2)
        mine = [a for a in pair.provider.assignments() if a.producer == beta]
        assert mine == []
        assert pair.provider.imports() == ()
        assert [status.producer for status in pair.payer.imports()] == []
        assert [apply(one).is_same for one in offices] == [True, True]
        segments = pair.payer.segments(COUNTED, producer=own(pair))
        assert {segment.stability for segment in segments} == {Stability.STABLE}
        through_us = pair.reached_us(own(pair))
        expected: Counter[tuple[int, str]] = Counter()
        for row in rows(pair.alpha, CONNECTIONS, tmp_path):
            start_us = int(row["ts_us"]) // (2 * SECOND_US) * 2 * SECOND_US
            if start_us + 2 * SECOND_US <= through_us:
                expected[start_us, row["orig_h"]] += 1
        found = rows(pair.alpha, COUNTED, tmp_path)
        assert sorted((row["orig_h"], int(row["n"])) for row in found) == sorted(
            (host, n) for (_, host), n in expected.items()
        )
