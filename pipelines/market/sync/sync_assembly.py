"""A participant's contract synchronisation, from its home, its key and its partners' addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from medusa_core.names import Participant
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.exchange.in_process import LocalExchange, Partner
from pipelines.exchange.nonblocking import PatientPost
from pipelines.market.sync.contract_sync import AgreementDesk
from pipelines.market.sync.signing_keys import load_key
from pipelines.platform.drills.fault_injected_links import DrilledWays


@contextmanager
def open_desk(
    directory: Path,
    participant: Participant,
    url: str,
    partners: Mapping[Participant, Partner],
    told: Callable[[Exception], None],
    *,
    is_patient: bool = False,
) -> Iterator[tuple[AgreementDesk, PostgresAgreements]]:
    """A desk and the agreements of its home; `url` is its job's, `directory` the folder of homes.

    One that `is_patient` waits for partners as long as they need, as a command does; the other is
    beside a loop, does not, and tells partners at first what is agreed with them. Raises
    Unavailable if it has no key, Refused if others may read it.
    """
    key = load_key(directory, participant)
    agreements = PostgresAgreements(url, participant)
    ways = DrilledWays(directory, participant, told)
    exchange = LocalExchange(participant, partners, ways)
    post = exchange if is_patient else PatientPost(exchange)
    try:
        desk = AgreementDesk(agreements, key, post, told, to_all=is_patient, greets=not is_patient)
        yield desk, agreements
    finally:
        post.close()
        agreements.close()
