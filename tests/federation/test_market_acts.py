"""A participant that is overloaded hands a running fragment over by rounds, and takes it back.

Two participants run as operators run them; nothing is typed but contracts. Alpha lands two sources
and counts both; one of them is loud, and then falls quiet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from medusa_core.loads import Load, load_of
from medusa_core.market.costs import Queue
from medusa_core.market.moves import MoveState
from pipelines.catalog.postgres.rounds import PostgresRounds, open_postgres_rounds
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import home_server
from tests.federation.counting_pair import ALPHA, COUNTS, LIVE, join_each_other
from tests.federation.moving_offices import Participants, check, wait_for
from tests.federation.test_moves_by_contract import IN_FORCE, contract, steps_of
from tests.federation.test_partner_streams import apply, write
from tests.partners.offices import Office, office

LOUD = LIVE.replace("connections", "noise")
NOISE = (
    COUNTS.replace("connections", "noise")
    .replace('"counts"', '"loud"')
    .replace('"counted"', '"noises"')
)
BOTH = ALPHA + "  - {network: networks/loud.py, sources: [noise], fragments: [main]}\n"
RATE, QUIET = 20_000, 20
AT_ITS_LOAD = 0.8
"""The utilisation of alpha while it is overloaded."""

THRESHOLD = 0.75
COST = """INSERT INTO medusa_api.cost (kind, capacity, scale, threshold, currency)
    VALUES ('queue', {capacity}, {scale}, {threshold}, 'EUR')"""
ROUND_MS = 10_000
ROUNDS = "SELECT max(number) FROM medusa_market.round"
WHY = "SELECT string_agg(reason, '; ') FROM medusa_market.move_state"


@contextmanager
def rounds_of(one: Office) -> Iterator[PostgresRounds]:
    with (
        home_server(one.settings, one.participant) as server,
        closing(open_postgres_rounds(server.login_url("job"), one.participant)) as rounds,
    ):
        yield rounds


def load(one: Office) -> Load:
    """What it spends now."""
    with rounds_of(one) as rounds:
        facts = rounds.read()
    return load_of(facts.loads, facts.clock_ms) or Load(window_ms=0, by_key={}, kinds={})


def declare(one: Office, capacity: float, scale: float = 1.0) -> None:
    """Its owner says what load costs."""
    one.sql(COST.format(capacity=capacity, scale=scale, threshold=THRESHOLD * capacity))


def write_loud(one: Office, rate: int) -> None:
    write(one, "streams/noise.yaml", LOUD.replace("rate_per_s: 40", f"rate_per_s: {rate}"))
    apply(one)


@pytest.mark.long
def test_an_overload_moves_a_fragment_within_three_rounds_and_its_end_brings_it_back(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        alpha, beta = (
            stack.enter_context(office(postgres_server, tmp_path / name, name))
            for name in ("alpha", "beta")
        )
        write(alpha, "participants/alpha.yaml", BOTH)
        write(alpha, "networks/counts.py", COUNTS)
        write(alpha, "networks/loud.py", NOISE)
        write(alpha, "streams/connections.yaml", LIVE)
        write_loud(alpha, RATE)
        apply(beta)
        join_each_other(alpha, beta)
        terms = contract().replace("[main]", "[counts.main]").replace("high: 1.30", "high: 1.00")
        # On a busy machine the provider is late, and not lost.
        terms = terms.replace("bound: 5s", "bound: 60s")
        for one in (alpha, beta):
            write(one, "bilateral/load_of_alpha.yaml", terms)
            apply(one)
            one.sql(f"UPDATE medusa_api.trading SET round_ms = {ROUND_MS}, residence_ms = 30000")
        (tmp_path / "logs").mkdir()
        both = Participants(alpha, beta, tmp_path / "logs")
        stack.callback(both.close)
        for one in (alpha, beta):
            both.start(one)
        wait_for("it is in force", lambda: all(one.sql(IN_FORCE) for one in (alpha, beta)))
        wait_for("alpha has a minute of load", lambda: load(alpha).window_ms >= 50_000)
        assert both.state() is None, "nobody has said what load costs"

        carried, own = load(alpha).carried, load(alpha).of("counts/main")
        capacity = carried / AT_ITS_LOAD
        saved = Queue(capacity).cost(carried) - Queue(capacity).cost(carried - own)
        declare(beta, 10.0, scale=0.001)
        # Handing it over saves twice its price of 1.
        declare(alpha, capacity, scale=2 * own / saved)
        declared_in = alpha.sql(ROUNDS)[0][0]
        wait_for("it is released", lambda: both.state() is MoveState.RELEASED)
        agreed_in = re.findall(r"agreed in round (\d+)", alpha.sql(WHY)[0][0])
        assert int(agreed_in[0]) - declared_in <= 3
        wait_for("its rows are adopted", lambda: steps_of(alpha).count("adopt") >= 3)

        write_loud(alpha, QUIET)
        wait_for("it costs less at home", lambda: both.state() is MoveState.ENDED)
        assert "it costs less here than its price" in alpha.sql(WHY)[0][0]
        wait_for("alpha computes again", lambda: steps_of(alpha)[-2:] == ["compute"] * 2)
        check(both)
