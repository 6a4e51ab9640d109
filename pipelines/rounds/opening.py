"""A participant's turns in the market, from what it has: its home, its key, its partners' homes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from medusa_core.names import Participant
from pipelines.agreements.desk import AgreementDesk
from pipelines.agreements.keys import load_key
from pipelines.catalog.postgres_agreements import PostgresAgreements
from pipelines.catalog.postgres_rounds import open_postgres_rounds
from pipelines.drills.ways import DrilledWays
from pipelines.exchange.in_process import LocalExchange, Partner
from pipelines.exchange.patience import PatientPost
from pipelines.rounds.turns import MarketTurns


@contextmanager
def open_turns(
    directory: Path,
    participant: Participant,
    url: str,
    partners: Mapping[Participant, Partner],
    told: Callable[[Exception], None],
    *,
    is_patient: bool = False,
) -> Iterator[MarketTurns]:
    """Turns that sign with the participant's key; `url` is its job's, `directory` that of homes.

    Those that are patient wait for partners as long as they need; beside a loop they do not.
    Raises Unavailable if it has no key, Refused if others may read it.
    """
    key = load_key(directory, participant)
    with ExitStack() as stack:
        agreements = PostgresAgreements(url, participant)
        stack.callback(agreements.close)
        rounds = open_postgres_rounds(url, participant)
        stack.callback(rounds.close)
        ways = DrilledWays(directory, participant, told)
        exchange = LocalExchange(participant, partners, ways)
        post = exchange if is_patient else PatientPost(exchange)
        stack.callback(post.close)
        desk = AgreementDesk(agreements, key, post, told, to_all=is_patient)
        yield MarketTurns(desk, agreements, rounds, told)
