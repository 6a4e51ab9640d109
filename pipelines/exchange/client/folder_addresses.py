"""Where the partners in one folder are reached: what their servers wrote, and their keys.

The keys are those that the own home knows. They are read again after a while, because a partner
may replace its key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.exchange.client.partner_link import PartnerAddress
from pipelines.homes.exchange_addresses import read_address

KEYS_S_MAX = 5.0
"""How long a key that was read is used."""

MISSES_S_MAX = 1.0
"""How long a key that was not found is not looked for again."""


class FolderAddresses:
    """The address of each partner; `keys` are read from the own home, by any thread."""

    def __init__(self, directory: Path, keys: Callable[[], Mapping[Participant, bytes]]) -> None:
        self._directory = directory
        self._read = keys
        self._known: tuple[Mapping[Participant, bytes], float] = {}, -math.inf

    def __call__(self, partner: Participant) -> PartnerAddress:
        """Where a partner's server is; Unavailable if no server says so, or its key is unknown."""
        server = read_address(self._directory, partner)
        return PartnerAddress(url=server.url, public_key=self._key(partner), pin=server.pin)

    def _key(self, partner: Participant) -> bytes:
        # Without a lock, so that nobody waits for another one's query: two at once find the same.
        keys, read_s = self._known
        age_s = clock.monotonic_s() - read_s
        if age_s > (KEYS_S_MAX if partner in keys else MISSES_S_MAX):
            try:
                keys = self._read()
            except Unavailable:
                if partner not in keys:
                    raise
            self._known = keys, clock.monotonic_s()
        try:
            return keys[partner]
        except KeyError:
            raise Unavailable(
                f"the key of partner {partner} is not known in this home: run medusa apply"
            ) from None
