"""A participant's contract synchronisation, from its home, its key and its partners' addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from medusa_core.names import Participant
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.exchange.in_process import LocalExchange, Partner
from pipelines.exchange.nonblocking import NonBlockingTransport
from pipelines.market.sync.contract_sync import ContractSync
from pipelines.market.sync.signing_keys import load_key
from pipelines.platform.drills.fault_injected_links import FaultInjectedLinks


@contextmanager
def open_contract_sync(
    directory: Path,
    participant: Participant,
    url: str,
    partners: Mapping[Participant, Partner],
    on_error: Callable[[Exception], None],
    *,
    to_all: bool = False,
) -> Iterator[tuple[ContractSync, PostgresAgreements]]:
    """A desk and the agreements of its home; `url` is its job's, `directory` the folder of homes.

    One that `to_all` waits for partners as long as they need, as a command does; the other is
    beside a loop, does not, and tells partners at first what is agreed with them. Raises
    Unavailable if it has no key, Refused if others may read it.
    """
    key = load_key(directory, participant)
    agreements = PostgresAgreements(url, participant)
    links = FaultInjectedLinks(directory, participant, on_error)
    exchange = LocalExchange(participant, partners, links)
    post = exchange if to_all else NonBlockingTransport(exchange)
    try:
        contract_sync = ContractSync(
            agreements, key, post, on_error, to_all=to_all, greets=not to_all
        )
        yield contract_sync, agreements
    finally:
        post.close()
        agreements.close()
