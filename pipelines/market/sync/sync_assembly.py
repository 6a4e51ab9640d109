"""A participant's contract synchronisation, from its home, its key and its transport."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from medusa_core.names import Participant
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.exchange.exchange_port import Transport
from pipelines.homes.signing_keys import load_key
from pipelines.market.sync.contract_sync import ContractSync


@contextmanager
def open_contract_sync(
    directory: Path,
    participant: Participant,
    url: str,
    transport: Transport,
    on_error: Callable[[Exception], None],
    *,
    to_all: bool = False,
) -> Iterator[tuple[ContractSync, PostgresAgreements]]:
    """A contract synchronisation and the agreements of its home.

    `url` is that of the home's login `job`, `directory` the folder of homes. With `to_all`, as for
    a command, it waits for partners as long as they need; without, as for a loop, it does not, and
    its first tick greets them. Raises Unavailable without a signing key, Refused if others may
    read the key.
    """
    key = partial(load_key, directory, participant)
    key()  # without a key there is nothing to synchronise
    agreements = PostgresAgreements(url, participant)
    try:
        contract_sync = ContractSync(
            agreements, key, transport, on_error, to_all=to_all, greets=not to_all
        )
        yield contract_sync, agreements
    finally:
        transport.close()
        agreements.close()
