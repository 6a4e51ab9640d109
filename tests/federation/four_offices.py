"""Alpha, beta and gamma land and count streams of their own, and delta computes for a partner."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

from medusa_core.loads import Load, load_of
from medusa_core.market.moves import MoveState
from pipelines.catalog.postgres.rounds import open_postgres_rounds
from pipelines.catalog.round_store import MarketFacts
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import home_server
from pipelines.operations.market_check import TraderStatus, trader_status
from tests.federation.counting_pair import join_each_other
from tests.federation.test_definitions_of_partners import running
from tests.federation.test_moves_by_contract import contract
from tests.federation.test_partner_streams import apply, write
from tests.partners.offices import Office, office

RATES = {
    "alpha": {"web": 400, "mail": 400},
    "beta": {"dns": 400},
    "gamma": {"logins": 400},
    "delta": {},
}
"""What each lands and counts, in records a second."""

COUNTS = {"web": 2, "mail": 2, "dns": 2, "logins": 2}
"""How often they are counted: fragments are heavy beside what their participants do anyhow."""

NETWORK = """
from medusa_core.network import Aggregate, Network, Output, Source

network = Network(
    name="{what}",
    sources=(Source(name="{what}_seen", columns={{"ts_us": "bigint", "orig_h": "string"}},
                    time="ts_us"),),
    boxes=tuple(
        Aggregate(name=f"per_host_{{at}}", input="{what}_seen", size="2s", group_by=("orig_h",),
                  columns={{"n": "count(*)"}})
        for at in range({counts})
    ),
    outputs=(
        Output(name="{what}_counted", input="per_host_0"),
        *(Output(name=f"{what}_counted_{{at}}", input=f"per_host_{{at}}")
          for at in range(1, {counts})),
    ),
    bucket="2s",
)
"""
RUN = "  - {{network: networks/{what}.py, sources: [{what}_seen], fragments: [main]}}\n"
LIVE = """
stream: {what}_seen
source: {{kind: generate, seed: 7, rate_per_s: {rate}, sources: 8}}
"""
CONTRACT = """
contract: {what}_of_{payer}
kind: movement
payer: {payer}
provider: {provider}
currency: EUR
valid: {{from: FROM, until: 2096-01-01T00:00:00Z}}
settlement: 20s
notice: 1s
price: {{low: {price}, high: {price}, step: 0.10}}
load_max: 2
moves: [{what}.main]
reference: [main/{what}_seen=80, main/{what}_counted=20]
availability: {{recovery: precise, method: upstream_backup, bound: 60s}}
penalty: 5.00
hold_max: 1d
"""
PLENTY = 10.0
"""A threshold that no participant of a test exceeds."""

COST = """INSERT INTO medusa_api.cost (kind, points, threshold, currency)
    VALUES ('piecewise', '{points}', {threshold}, 'EUR')"""
TRADING = "UPDATE medusa_api.trading SET round_ms = {round_ms}, residence_ms = {residence_ms}"
ROUND_MS, RESIDENCE_MS = 4_000, 10_000
ROUNDS = "SELECT coalesce(max(number), 0) FROM medusa_market.round"
MOVES = """SELECT fragment, partner, state FROM medusa_market.move WHERE is_given
    ORDER BY number"""

REASONS = """SELECT m.fragment, s.state, s.reason FROM medusa_market.move_state AS s
    JOIN medusa_market.move AS m USING (move_id) WHERE m.is_given ORDER BY s.noted_at"""


@dataclass
class Four:
    """Who there is already, and what runs."""

    server: EmbeddedServer
    folder: Path
    stack: ExitStack
    offices: dict[str, Office] = field(default_factory=dict)

    def join(self, name: str) -> Office:
        """Its home is made and applied; it does not run yet."""
        one = self.stack.enter_context(office(self.server, self.folder / name, name))
        runs = "".join(RUN.format(what=what) for what in RATES[name])
        text = f"participant: {name}\n" + (f"runs:\n{runs}" if runs else "")
        write(one, f"participants/{name}.yaml", text)
        for what, rate in RATES[name].items():
            write(one, f"networks/{what}.py", NETWORK.format(what=what, counts=COUNTS[what]))
            write(one, f"streams/{what}_seen.yaml", LIVE.format(what=what, rate=rate))
        apply(one)
        one.sql(TRADING.format(round_ms=ROUND_MS, residence_ms=RESIDENCE_MS))
        self.offices[name] = one
        return one

    def agree(self, payer: str, provider: str, what: str, price: str) -> None:
        """Both have the file of a contract."""
        one, other = self.offices[payer], self.offices[provider]
        terms = {"payer": payer, "provider": provider, "what": what, "price": price}
        text = contract(CONTRACT.format(**terms))
        for each in (one, other):
            write(each, f"bilateral/{what}_of_{payer}.yaml", text)
            apply(each)

    def meet(self, one: str, other: str) -> None:
        """They become partners."""
        join_each_other(self.offices[one], self.offices[other])

    def start(self, name: str) -> subprocess.Popen[str]:
        """It runs as operators run it."""
        return self.stack.enter_context(running(self.offices[name], self.folder / f"{name}.log"))

    def facts(self, name: str) -> MarketFacts:
        """All that its home decides by."""
        one = self.offices[name]
        with (
            home_server(one.settings, one.participant) as server,
            closing(open_postgres_rounds(server.login_url("job"), one.participant)) as rounds,
        ):
            return rounds.read()

    def load(self, name: str) -> Load:
        """What it spends now."""
        facts = self.facts(name)
        found = load_of(facts.loads, facts.clock_ms)
        return found or Load(window_ms=0, by_key={}, kinds={})

    def traders(self) -> list[TraderStatus]:
        """What each decides by."""
        found = [trader_status(self.facts(name)) for name in self.offices]
        return [one for one in found if one is not None]

    def trader(self, name: str) -> TraderStatus:
        """What one decides by, which has declared its cost."""
        found = trader_status(self.facts(name))
        assert found is not None
        return found

    def declare(self, name: str, marginal_cost: float, threshold: float = PLENTY) -> None:
        """Its owner declares a cost that is proportional to the load, and a threshold."""
        points = f"{{{{0, 0}}, {{1, {marginal_cost}}}}}"
        self.offices[name].sql(COST.format(points=points, threshold=threshold))

    def rounds(self) -> Mapping[str, int]:
        """How many rounds each has opened."""
        return {name: one.sql(ROUNDS)[0][0] for name, one in self.offices.items()}

    def moves(self) -> list[tuple[str, ...]]:
        """All that payers have ordered: who, what, to whom, and its state."""
        return [(name, *row) for name, one in self.offices.items() for row in one.sql(MOVES)]

    def reasons(self) -> list[tuple[str, ...]]:
        """Why each state of each move began."""
        return [(name, *row) for name, one in self.offices.items() for row in one.sql(REASONS)]

    def away(self) -> dict[str, str]:
        """Which fragments are computed by a partner, and by which."""
        return {
            fragment.partition("/")[0]: partner
            for _, fragment, partner, state in self.moves()
            if state == MoveState.RELEASED.value
        }
