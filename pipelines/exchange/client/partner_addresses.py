"""Where partners are reached, and their keys.

The address of a partner elsewhere is in the own catalog; a partner in the same folder of homes is
found by what its server wrote there. Keys are those that the own catalog knows. They are read again
after a while, because a partner may replace its key or move.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.catalog.partner_records import KnownPartner
from pipelines.exchange.client.partner_link import PartnerAddress
from pipelines.homes.exchange_addresses import read_address, read_objects

KNOWN_S_MAX = 5.0
"""How long an address that was read is used."""

MISSES_S_MAX = 1.0
"""How long an address that was not found is not looked for again."""


class PartnerAddresses:
    """The address of each partner; `partners` are read from the own home, by any thread.

    `directory` is the folder of homes.
    """

    def __init__(
        self, directory: Path, partners: Callable[[], Mapping[Participant, KnownPartner]]
    ) -> None:
        self._directory = directory
        self._read = partners
        self._known: tuple[Mapping[Participant, KnownPartner], float] = {}, -math.inf

    def __call__(self, partner: Participant) -> PartnerAddress:
        """Where a partner's server is; Unavailable if that, or its key, is unknown."""
        known = self._partner(partner)
        if known.url is not None:
            objects = read_objects(self._directory, partner)
            return _address(known.url, known.public_key, known.pin, objects)
        server = read_address(self._directory, partner)
        return _address(server.url, known.public_key, server.pin, None)

    def _partner(self, partner: Participant) -> KnownPartner:
        # Without a lock, so that nobody waits for another one's query: two at once find the same.
        known, read_s = self._known
        age_s = clock.monotonic_s() - read_s
        if age_s > (KNOWN_S_MAX if partner in known else MISSES_S_MAX):
            try:
                known = self._read()
            except Unavailable:
                if partner not in known:
                    raise
            self._known = known, clock.monotonic_s()
        try:
            return known[partner]
        except KeyError:
            raise Unavailable(
                f"{partner} is not known in this home, or was removed: run medusa apply, or join "
                "it with medusa partner"
            ) from None


@lru_cache(maxsize=256)
def _address(url: str, public_key: bytes, pin: str | None, objects: str | None) -> PartnerAddress:
    """The address, checked once: it is found for each request."""
    return PartnerAddress(url=url, public_key=public_key, pin=pin, objects=objects)
