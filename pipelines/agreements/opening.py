"""A participant's desk, from what it has: its home, its key, and where its partners are.

A round begins with its turn: whoever opens one by hand makes a turn before and one after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.agreements.beside import TurnsBeside
from pipelines.agreements.desk import AgreementDesk
from pipelines.agreements.keys import load_key
from pipelines.catalog.postgres_agreements import PostgresAgreements
from pipelines.drills.ways import DrilledWays
from pipelines.exchange.in_process import LocalExchange, Partner
from pipelines.exchange.patience import PatientPost
from pipelines.rounds.opening import open_turns


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

    One that `is_patient` waits for partners as long as they need; beside a loop it does not.
    Raises Unavailable if it has no key, Refused if others may read it.
    """
    key = load_key(directory, participant)
    agreements = PostgresAgreements(url, participant)
    ways = DrilledWays(directory, participant, told)
    exchange = LocalExchange(participant, partners, ways)
    post = exchange if is_patient else PatientPost(exchange)
    try:
        yield AgreementDesk(agreements, key, post, told, to_all=is_patient), agreements
    finally:
        post.close()
        agreements.close()


def turns_beside(
    directory: Path,
    participant: Participant,
    url: str,
    partners: Mapping[Participant, Partner],
    told: Callable[[Exception], None],
) -> TurnsBeside | None:
    """Turns in the market beside a loop, which begin with its desk's.

    None without a key, as a home has that no contracts were applied to.

    A key that is not kept as it must be is told of, and none is used.
    """
    heard: deque[Exception] = deque(maxlen=1_000)
    opened = open_turns(directory, participant, url, partners, heard.append)
    try:
        turns = opened.__enter__()
    except Unavailable:
        return None
    except Refused as error:
        told(error)
        return None

    def close() -> None:
        opened.__exit__(None, None, None)

    return TurnsBeside(turns, heard, told, closes=close)
