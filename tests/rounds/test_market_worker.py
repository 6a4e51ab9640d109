"""Rounds of participants' loops, made by themselves beside what the loops do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipelines.exchange.nonblocking import NonBlockingTransport
from pipelines.homes.signing_keys import key_path
from pipelines.market.rounds.round_assembly import market_worker
from pipelines.market.sync.background_worker import BackgroundWorker
from pipelines.operations.agreement_application import FolderTransport
from tests.rounds.building import LASTS, Trader, a_price, agree_on, computed, parts
from tests.waiting import until

OPENED = "SELECT because FROM medusa_api.rounds WHERE number > 1"
DAY_MS = 86_400_000
A_ROUND_PASSES = "UPDATE medusa_market.round SET opened_at = opened_at - interval '2 days'"
LOOKED_S_MAX = 120


def test_two_loops_trade_by_themselves(alpha: Trader, beta: Trader, tmp_path: Path) -> None:
    agree_on(alpha, beta, a_price("10"))
    exchanges = {t.name: t.party.urls.exchange for t in (alpha, beta)}
    loops: list[BackgroundWorker] = []
    for trader, carried in ((alpha, parts(9)), (beta, parts(3))):
        trader.declares(1.0, 0.9)
        trader.network = f"sums_{trader.name}"
        computed(trader.catalog, trader.network, tuple(carried), tmp_path)
        trader.carries(carried)
        trader.in_time(LASTS)
        # No offer lapses on the way, however slow the machine is.
        trader.in_time(f"UPDATE medusa_market.market SET round_ms = {DAY_MS}, move_ms = {DAY_MS}")
        path = key_path(tmp_path, trader.name)
        for folder in (path.parent.parent, path.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        path.write_text(f"{trader.name} 0 {'x' * 32}".encode()[:32].hex())
        path.chmod(0o600)
        transport = NonBlockingTransport(FolderTransport(trader.name, exchanges.get))
        loop = market_worker(tmp_path, trader.name, trader.party.urls.job, transport, print)
        assert loop is not None
        loops.append(loop)

    def looked(condition: Callable[[], bool]) -> Callable[[], bool]:
        def look() -> bool:
            for loop in loops:
                loop.look()
            return condition()

        return look

    try:
        agreed = looked(lambda: len(alpha.moves()) == 2)
        until(agreed, "two fragments are agreed to move", LOOKED_S_MAX)
        assert alpha.sql(OPENED) == [], "its time has not passed"
        alpha.in_time(A_ROUND_PASSES)
        opened = looked(lambda: bool(alpha.sql(OPENED)))
        until(opened, "the next round is opened in its time", LOOKED_S_MAX)
    finally:
        for loop in loops:
            loop.close()
    assert len(alpha.moves()) == len(beta.moves()) == 2
    assert alpha.sql(OPENED)[0] == ("the time has passed",)
