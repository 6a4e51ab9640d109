"""A participant's session in the federation: its own home, and its exchange with partners.

A driver logs in to its own home as `job`, and to no other: partners are reached through their
exchange servers alone, also those whose homes lie in the same folder (MEDUSA_DIR).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.exchange.client.folder_addresses import FolderAddresses
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.signed_assertions import sign_claims
from pipelines.homes.home import Home, HomeServer, home_server, storage_of
from pipelines.homes.signing_keys import load_key


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


@contextmanager
def session_at(server: HomeServer) -> Iterator[HomeSession]:
    """Open the home that is on a server."""
    participant, directory = server.participant, server.directory
    url = server.login_url("job")
    storage = storage_of(directory, participant)
    try:
        storage.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(
            f"storage root {storage} cannot be made ({error.strerror}): mend the folder, then try "
            "again"
        ) from error

    def sign(claims: Mapping[str, Any]) -> str:
        # Read when it is needed: a home without partners has no key.
        return sign_claims(claims, load_key(directory, participant).private_key)

    with closing(PostgresCatalog(url, participant)) as catalog:
        addresses = FolderAddresses(directory, catalog.partner_keys)
        with closing(HttpsExchange(participant, addresses, sign)) as exchange:
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
