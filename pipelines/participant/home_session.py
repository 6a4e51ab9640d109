"""A participant's session in the federation: its own home, and its exchange with partners.

A driver logs in to its own home as `job`, and to no other: partners are reached through their
exchange servers alone, also those whose homes lie in the same folder (MEDUSA_DIR).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.suggest import did_you_mean
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.exchange.client.folder_addresses import FolderAddresses
from pipelines.exchange.client.https_exchange import HttpsExchange
from pipelines.exchange.signed_assertions import sign_claims
from pipelines.homes.home import Home, HomeServer, home_server, known_homes, storage_of
from pipelines.homes.signing_keys import load_key


@dataclass(frozen=True, slots=True, kw_only=True)
class HomeSession:
    """An open home whose login `job` has the URL `url`, and its exchange with `partners`.

    `revive` restarts an embedded server that has ended.
    """

    home: Home
    url: str
    partners: frozenset[Participant]
    exchange: HttpsExchange
    revive: Callable[[], None]


@contextmanager
def open_session(settings: Settings, participant: Participant) -> Iterator[HomeSession]:
    """Open a participant's home and find its partners'; Refused if there is no such home."""
    homes = known_homes(settings.directory)
    if participant not in homes:
        names = ", ".join(sorted(homes)) or "none"
        raise Refused(
            f"there is no participant {participant} in {settings.directory} (there: {names}): "
            + did_you_mean(participant, homes, "apply its contracts with medusa apply")
        )
    with (
        home_server(settings, participant) as server,
        _opened(settings, participant, homes, server) as home_session,
    ):
        yield home_session


@contextmanager
def _opened(
    settings: Settings,
    participant: Participant,
    homes: Mapping[Participant, str],
    server: HomeServer,
) -> Iterator[HomeSession]:
    url = server.login_url("job")
    directory = settings.directory
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
                partners=frozenset(homes) - {participant},
                exchange=exchange,
                revive=server.revive,
            )
