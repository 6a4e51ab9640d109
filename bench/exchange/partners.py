"""Further partners that wait for news, as participants do: a long poll each."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from bench.exchange.homes import ALPHA, BETA, GRANT, LEARN, names_of
from bench.processes import ContenderFailed
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.client.partner_addresses import PartnerAddresses
from pipelines.exchange.own_identity import OwnIdentity
from pipelines.homes.home import open_home
from pipelines.homes.signing_keys import make_key

WATCHES_S_MAX = 60.0


def admit(settings: Settings, count: int, streams: int) -> list[Participant]:
    """Partners that may read all streams of alpha, as beta does."""
    names = [Participant(f"partner{number:03}") for number in range(count)]
    with (
        open_home(settings, ALPHA, as_owner=True) as home,
        home.catalog.engine.connect() as sql,
    ):
        for name in names:
            key = make_key(settings.directory, name).public_key.hex()
            sql.execute(LEARN, {"name": name, "key": key})
            for stream in names_of(streams):
                sql.execute(GRANT, {"stream": stream, "reader": name})
    return names


@contextmanager
def watching(settings: Settings, names: Sequence[Participant]) -> Iterator[None]:
    """Each waits for the news of alpha until the block ends."""
    with open_home(settings, BETA) as home:
        known = home.catalog.partner_addresses()
    with ExitStack() as stack:
        exchanges = []
        for name in names:
            addresses = PartnerAddresses(settings.directory, lambda: known)
            exchange = HttpsExchange(name, addresses, OwnIdentity(settings.directory, name))
            stack.callback(exchange.close)
            stack.callback(exchange.watch(ALPHA, lambda: None))
            exchanges.append(exchange)
        ends_s = time.monotonic() + WATCHES_S_MAX
        while any(exchange.line_marks(ALPHA) is None for exchange in exchanges):
            if time.monotonic() > ends_s:
                raise ContenderFailed("the partners do not hear of alpha")
            time.sleep(0.1)
        yield
