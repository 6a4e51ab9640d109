"""The one door from a participant's loop to the market.

Nothing of `pipelines.market` is loaded, and none of its statements is sent, until this home has a
bilateral contract: one that its owner proposed, by `medusa apply` or in SQL, or a message that a
partner sent about one. One statement asks the home when a loop begins and every
`ASKS_EVERY_S` after that, so that an edit opens the door while the loop runs. Once open it stays
open until the loop ends: what was agreed is history that partners may still ask about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pipelines.base import clock
from pipelines.catalog.processing_roles import ContractPresence

ASKS_EVERY_S = 5.0
"""How long the first contract of a home may wait until the loop takes it up."""


class MarketTicker(Protocol):
    """Ticks in the market, in the background: `market.sync.background_worker`."""

    def look(self) -> None: ...
    def close(self) -> None: ...


class MarketDoor:
    """Opens the market for a loop when its home has a contract.

    `opens` loads the market and returns its worker, or None while there is none, as without a
    signing key: it is called again later.
    """

    def __init__(
        self,
        home: ContractPresence,
        opens: Callable[[], MarketTicker | None],
        *,
        now_s: Callable[[], float] = clock.monotonic_s,
    ) -> None:
        self._home = home
        self._opens = opens
        self._now_s = now_s
        self._asks_s = now_s()
        self._ticker: MarketTicker | None = None

    def look(self) -> None:
        """Look at the market if it is open, else whether it is to be opened.

        Raises Unavailable if the catalog is away.
        """
        if self._ticker is None:
            now_s = self._now_s()
            if now_s < self._asks_s:
                return
            self._asks_s = now_s + ASKS_EVERY_S
            if not self._home.has_contracts():
                return
            self._ticker = self._opens()
        if self._ticker is not None:
            self._ticker.look()

    def close(self) -> None:
        """Close the worker, if there is one."""
        if self._ticker is not None:
            self._ticker.close()
