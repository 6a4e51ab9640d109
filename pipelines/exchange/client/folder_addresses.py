"""Where the partners in one folder are reached: what their servers wrote, and their keys.

The keys are those that the own home knows. They are read again after a while, because a partner
may replace its key.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.exchange.client.partner_link import PartnerAddress
from pipelines.homes.exchange_addresses import read_address

KEYS_S_MAX = 5.0
"""How long a key that was read is used."""


class FolderAddresses:
    """The address of each partner; `keys` are read from the own home, by any thread."""

    def __init__(self, directory: Path, keys: Callable[[], Mapping[Participant, bytes]]) -> None:
        self._directory = directory
        self._read = keys
        self._keys: Mapping[Participant, bytes] = {}
        self._read_s: float | None = None
        self._lock = threading.Lock()

    def __call__(self, partner: Participant) -> PartnerAddress:
        """Where a partner's server is; Unavailable if no server says so, or its key is unknown."""
        server = read_address(self._directory, partner)
        return PartnerAddress(url=server.url, public_key=self._key(partner), pin=server.pin)

    def _key(self, partner: Participant) -> bytes:
        now_s = clock.monotonic_s()
        with self._lock:
            is_old = self._read_s is None or now_s - self._read_s > KEYS_S_MAX
            if is_old or partner not in self._keys:
                self._keys, self._read_s = self._read(), now_s
            try:
                return self._keys[partner]
            except KeyError:
                raise Unavailable(
                    f"the key of partner {partner} is not known in this home: run medusa apply"
                ) from None
