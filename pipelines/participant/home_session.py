"""A participant's session in the federation: its own home, and its exchange with partners.

A driver logs in to its own home as `job`, and to no other: partners are reached through their
exchange servers alone, also those whose homes lie in the same folder (MEDUSA_DIR).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.client.partner_addresses import PartnerAddresses
from pipelines.exchange.own_identity import OwnIdentity
from pipelines.homes.home import Home, HomeServer, checked_storage, home_server


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeSession:
    """An open home whose login `job` has the URL `url`, and its exchange with partners.

    `revive` restarts an embedded server that has ended.
    """

    home: Home
    url: str
    exchange: HttpsExchange
    revive: Callable[[], None]


@contextmanager
def open_session(settings: Settings, participant: Participant) -> Iterator[HomeSession]:
    """Open a participant's home; Refused if there is no such home."""
    with home_server(settings, participant) as server, session_at(server) as home_session:
        yield home_session


def exchange_of(directory: Path, catalog: PostgresCatalog) -> HttpsExchange:
    """The exchange of a home with its partners; the caller closes it."""
    participant = catalog.participant
    addresses = PartnerAddresses(directory, catalog.partner_addresses)
    identity = OwnIdentity(directory, participant)
    return HttpsExchange(participant, addresses, identity, learn=catalog.note_introduction)


@contextmanager
def session_at(server: HomeServer) -> Iterator[HomeSession]:
    """Open the home that is on a server."""
    participant, directory = server.participant, server.directory
    url = server.login_url("job")
    storage = checked_storage(directory, participant)
    try:
        storage.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"storage root {storage} cannot be made ({error.strerror}): mend the folder, then try "
            "again"
        ) from error

    with (
        closing(PostgresCatalog(url, participant)) as catalog,
        closing(exchange_of(directory, catalog)) as exchange,
    ):
        yield HomeSession(
            home=Home(
                participant=participant,
                directory=directory,
                storage=storage,
                catalog=catalog,
            ),
            url=url,
            exchange=exchange,
            revive=server.revive,
        )
