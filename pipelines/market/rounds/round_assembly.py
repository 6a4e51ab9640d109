"""A participant's market worker, from its parts: its home, its key, its partners' homes.

A round begins with a contract synchronisation; a round that is opened by hand makes one before
and one after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.catalog.postgres.rounds import open_postgres_rounds
from pipelines.exchange.in_process import Partner
from pipelines.market.rounds.round_tick import MarketTurns
from pipelines.market.sync.background_worker import TurnsBeside
from pipelines.market.sync.sync_assembly import open_desk


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
    """Turns that sign with the participant's key; see `open_desk`."""
    with (
        open_desk(directory, participant, url, partners, told, is_patient=is_patient) as opened,
        closing(open_postgres_rounds(url, participant)) as rounds,
    ):
        desk, agreements = opened
        yield MarketTurns(desk, agreements, rounds, told)


def turns_beside(
    directory: Path,
    participant: Participant,
    url: str,
    partners: Mapping[Participant, Partner],
    told: Callable[[Exception], None],
) -> TurnsBeside | None:
    """Turns in the market beside a loop, which begin with its desk's.

    None without a key, as a home has that no contracts were applied to. A key that is not kept as
    it must be is told of, and none is used.
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
