"""The two homes of the demo's scene of load: their contract, catalogs, moves and books."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso
from pipelines.catalog.book_records import BillStatus
from pipelines.catalog.move_store import MoveStatus
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.catalog.postgres.books import PostgresBooks, open_books
from pipelines.catalog.postgres.moves import PostgresMoves, open_moves_of
from pipelines.cli.demo_federation import Cast, DemoFederation, apply
from pipelines.homes.home import Home, home_server, open_home

PAYER, PROVIDER = Participant("alpha"), Participant("beta")
FRAGMENT = "traffic/main"
CONTRACT = "load_of_alpha"
TEMPLATES = Path(__file__).with_name("templates")
MOVING = Cast(templates=TEMPLATES / "demo_move", computes=PAYER, others=(PROVIDER,))
SECOND_US, DAY_S = 1_000_000, 86_400
BILLED, SETTLED = "billed", "settled"
STARTED_S = 10
"""So long ago the contract began, so that it is in force as soon as both have signed it."""


@dataclass(frozen=True, slots=True)
class PartyHome:
    """A participant's home, with its agreements, moves and books."""

    home: Home
    agreements: PostgresAgreements
    moves: PostgresMoves
    books: PostgresBooks

    def has_contract(self) -> bool:
        """Whether the contract is in force."""
        return any(one.contract == CONTRACT for one in self.agreements.in_force())

    def last_move(self) -> MoveStatus | None:
        """The newest move that it knows."""
        return next(iter(self.moves.statuses(1)), None)

    def bills(self) -> tuple[BillStatus, ...]:
        """The statements of the contract that it knows."""
        return self.books.bills(CONTRACT)


@contextmanager
def party_home(settings: Settings, participant: Participant) -> Iterator[PartyHome]:
    """Open a participant's home; its server runs as long as the block."""
    with home_server(settings, participant) as server, open_home(settings, participant) as home:
        url = server.login_url("job")
        with (
            closing(PostgresAgreements(url, participant)) as agreements,
            closing(open_moves_of(url)) as moves,
            closing(open_books(url)) as books,
        ):
            yield PartyHome(home, agreements, moves, books)


def agree(federation: DemoFederation) -> None:
    """Both have the file of the contract, which is valid for a day."""
    now_s = int(clock.wall_s())
    text = (TEMPLATES / "demo_move_contract.yaml").read_text(encoding="utf-8")
    text = text.replace("FROM", iso((now_s - STARTED_S) * SECOND_US))
    text = text.replace("UNTIL", iso((now_s + DAY_S) * SECOND_US))
    for participant in MOVING.all:
        folder = federation.contracts(participant) / "bilateral"
        folder.mkdir(exist_ok=True)
        (folder / f"{CONTRACT}.yaml").write_text(text, encoding="utf-8")
        apply(federation, participant)
