"""A participant's market worker, from its parts: its home, its key, its transport.

A round begins with a contract synchronisation; a round that is opened by hand makes one before
and one after.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from pipelines.catalog.postgres.definitions import open_definitions
from pipelines.catalog.postgres.moves import open_moves_of
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.rounds import open_postgres_rounds
from pipelines.catalog.postgres.samples import open_samples
from pipelines.catalog.postgres.settlements import open_settlements
from pipelines.exchange.exchange_port import Transport
from pipelines.market.definitions.definition_sync import DefinitionSync
from pipelines.market.moves.move_sync import LineMarks, MoveSync
from pipelines.market.rounds.round_tick import MarketWorker
from pipelines.market.settlement.sample_sync import BucketRecomputation, SampleSync
from pipelines.market.settlement.settlement_sync import SettlementSync
from pipelines.market.sync.background_worker import BackgroundWorker
from pipelines.market.sync.sync_assembly import open_contract_sync

Recomputes = Callable[[PostgresCatalog], BucketRecomputation]
"""Makes what recomputes samples, over a connection of its own to the home."""


@contextmanager
def open_market_worker(
    directory: Path,
    participant: Participant,
    url: str,
    transport: Transport,
    on_error: Callable[[Exception], None],
    *,
    to_all: bool = False,
    line_marks: LineMarks = lambda partner: None,
    recomputes: Recomputes | None = None,
) -> Iterator[MarketWorker]:
    """A market worker that signs with the participant's key; see `open_contract_sync` and
    `MoveSync`. `recomputes` makes what samples of moved load are recomputed by."""
    with (
        open_contract_sync(
            directory, participant, url, transport, on_error, to_all=to_all
        ) as opened,
        closing(open_postgres_rounds(url, participant)) as rounds,
        closing(open_definitions(url)) as definitions,
        closing(open_moves_of(url)) as moves,
        closing(open_settlements(url)) as settlements,
        closing(open_samples(url)) as samples,
        closing(PostgresCatalog(url, participant)) as catalog,
    ):
        contract_sync, agreements = opened
        definition_sync = DefinitionSync(definitions, catalog, directory, on_error)
        move_sync = MoveSync(moves, catalog, catalog, directory, on_error, line_marks)
        sample_sync = recomputes and SampleSync(
            samples, settlements, catalog, participant, recomputes(catalog), on_error
        )
        settlement_sync = SettlementSync(settlements, participant, on_error, samples=sample_sync)

        def settle() -> int:
            return definition_sync.settle() + move_sync.settle() + settlement_sync.settle()

        yield MarketWorker(
            contract_sync,
            agreements,
            rounds,
            on_error,
            settles=settle,
            movable=move_sync.movable,
        )


def market_worker(
    directory: Path,
    participant: Participant,
    url: str,
    transport: Transport,
    on_error: Callable[[Exception], None],
    line_marks: LineMarks = lambda partner: None,
    recomputes: Recomputes | None = None,
) -> BackgroundWorker | None:
    """The background worker of a loop for the market.

    None without a signing key: no contracts were applied to the home. A key that others may read
    is reported and not used.
    """
    heard: deque[Exception] = deque(maxlen=1_000)
    opened = open_market_worker(
        directory, participant, url, transport, heard.append, line_marks=line_marks,
        recomputes=recomputes,
    )  # fmt: skip
    try:
        worker = opened.__enter__()
    except Unavailable:
        return None
    except Refused as error:
        on_error(error)
        return None

    def close() -> None:
        opened.__exit__(None, None, None)

    return BackgroundWorker(worker, heard, on_error, closes=close)
