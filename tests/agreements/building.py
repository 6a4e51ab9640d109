"""Participants with a home, a key and contract synchronisation; owners who log in over TCP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any

import psycopg2
import psycopg2.extensions

from medusa_core.errors import MedusaError, Unavailable
from medusa_core.market.envelopes import Envelope
from medusa_core.market.terms import (
    Availability,
    BillingUnit,
    Content,
    ContractName,
    Method,
    Movement,
    PriceRange,
    Recovery,
    Suggested,
    Terms,
)
from medusa_core.names import FragmentName, Participant, StreamName
from pipelines.catalog.postgres.agreements import PostgresAgreements
from pipelines.catalog.postgres.database_errors import error_of
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.postgres.rounds import PostgresRounds, open_postgres_rounds
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.homes.signatures import SigningKey, signing_key
from pipelines.market.sync.contract_sync import ContractSync, settle
from pipelines.operations.agreement_application import FolderTransport

ALPHA, BETA, GAMMA = Participant("alpha"), Participant("beta"), Participant("gamma")
SPARE = "spare_load"
FROM_MS, UNTIL_MS = 1_700_000_000_000, 4_000_000_000_000
DAY_MS = 86_400_000


def a_key(participant: str, which: int = 0) -> SigningKey:
    """Another one for each participant and number, the same at every run."""
    return signing_key((f"{participant} {which} " + "x" * 32).encode()[:32])


def a_movement(**changes: Any) -> Movement:
    movement = Movement(
        price=PriceRange(low=Decimal(1), high=Decimal("1.2"), step=Decimal("0.1")),
        fragments=None,
        load_max=Decimal(2),
        reference=frozenset({"main/seen=0.5", "main/counted=2"}),
        availability=Availability(recovery=Recovery.ROLLBACK, method=Method.UPSTREAM_BACKUP),
        penalty=Decimal("0.5"),
        hold_ms_max=DAY_MS,
    )
    return replace(movement, **changes)


def a_content(**changes: Any) -> Content:
    content = Content(
        stream=StreamName("sums"),
        price=Decimal("0.001"),
        per=BillingUnit.RECORD,
        availability=Availability(
            recovery=Recovery.PRECISE, method=Method.ACTIVE_STANDBY, replicas=2, bound_ms=5_000
        ),
        penalty=Decimal(0),
        hold_ms_max=DAY_MS,
    )
    return replace(content, **changes)


def some_terms(**changes: Any) -> Terms:
    """Alpha pays beta for carrying its load."""
    terms = Terms(
        contract=ContractName(SPARE),
        number=1,
        supersedes=None,
        payer=ALPHA,
        provider=BETA,
        currency="EUR",
        valid_from_ms=FROM_MS,
        valid_until_ms=UNTIL_MS,
        settlement_ms=DAY_MS,
        notice_ms=DAY_MS,
        subject=a_movement(),
    )
    return replace(terms, **changes)


def a_suggestion() -> Suggested:
    return Suggested(stream=StreamName("sums"), instead=GAMMA)


def some_fragments(*names: str) -> frozenset[FragmentName]:
    return frozenset(map(FragmentName, names))


class SqlRefused(Exception):
    """What the database said no with: the sentence, and Medusa's class of it."""

    def __init__(self, error: psycopg2.Error) -> None:
        super().__init__(error.diag.message_primary)
        self.code = error.pgcode
        self.detail = "\n".join(
            filter(None, (str(error), error.diag.message_detail, error.diag.context))
        )
        self.ours: MedusaError | None = error_of(error)


@dataclass
class Login:
    """A connection over TCP as one role."""

    url: str
    connection: psycopg2.extensions.connection = field(init=False)

    def __post_init__(self) -> None:
        self.connection = psycopg2.connect(self.url.replace("+psycopg2", ""))
        self.connection.autocommit = True

    def __call__(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(statement, values or None)
                return cursor.fetchall() if cursor.description else []
        except psycopg2.Error as error:
            raise SqlRefused(error) from None


class NamedSenders(FolderTransport):
    """Delivers an envelope as the sender that it names, as if that one's token was stolen."""

    def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        answers: list[str] = []
        for sender, those in groupby(envelopes, key=attrgetter("sender")):
            self._sender = sender
            answers += super().deliver(partner, tuple(those))
        return tuple(answers)


class Connections:
    """The connections of a participant to its home and to its partners' homes.

    They stay open between tests: a new session of Postgres reads the catalog and compiles every
    function that it calls, which costs more than most tests do.
    """

    def __init__(self, urls: HomeUrls, exchanges: Mapping[Participant, str]) -> None:
        self.urls, self.exchanges = urls, exchanges
        self.agreements = PostgresAgreements(urls.job, urls.participant)
        self.exchange = NamedSenders(urls.participant, exchanges.get)
        self._logins: dict[str, Login] = {}

    @cached_property
    def rounds(self) -> PostgresRounds:
        """The rounds of the home, for who trades."""
        return open_postgres_rounds(self.urls.job, self.urls.participant)

    @cached_property
    def catalog(self) -> PostgresCatalog:
        """The catalog of the home, for who has load."""
        return PostgresCatalog(self.urls.job, self.urls.participant)

    def login(self, role: str) -> Login:
        """The one that stays open; a test may have ended it."""
        if role not in self._logins or self._logins[role].connection.closed:
            self._logins[role] = Login(str(getattr(self.urls, role)))
        return self._logins[role]

    def close(self) -> None:
        for login in self._logins.values():
            login.connection.close()
        self.agreements.close()
        self.exchange.close()
        for name in {"rounds", "catalog"} & vars(self).keys():
            getattr(self, name).close()


@dataclass
class Post:
    """The way to partners; what is on it can be looked at, and it can be cut."""

    exchange: FolderTransport
    cut: set[Participant] = field(default_factory=set)
    seen: list[Envelope] = field(default_factory=list)

    def deliver(self, partner: Participant, envelopes: Sequence[Envelope]) -> tuple[str, ...]:
        if partner in self.cut:
            raise Unavailable(f"{partner} is cut off")
        self.seen += envelopes
        return self.exchange.deliver(partner, envelopes)

    def close(self) -> None:
        """Nothing: the exchange stays open for the next test."""


@dataclass
class Party:
    """A participant with all that it has."""

    connections: Connections
    key: SigningKey
    told: list[Exception] = field(default_factory=list)
    to_all: bool = True

    def __post_init__(self) -> None:
        self.urls, self.exchanges = self.connections.urls, self.connections.exchanges
        self.name = self.urls.participant
        self.agreements = self.connections.agreements
        self.post = Post(self.connections.exchange)
        self.contract_sync = self.a_contract_sync()

    def a_contract_sync(self, **settings: Any) -> ContractSync:
        """Another program of the same participant, as after a restart.

        It is a command's, which sends to everybody, unless `to_all` is False here or for the party:
        a loop leaves partners that were away alone for a while.
        """
        settings = {"to_all": self.to_all} | settings
        return ContractSync(
            self.agreements, lambda: self.key, self.post, self.told.append, **settings
        )

    def sql(self, statement: str, *values: object, role: str = "owner") -> list[tuple[Any, ...]]:
        """What the owner (or another role) gets in psql."""
        return self.connections.login(role)(statement, *values)

    def a_login(self, role: str = "owner") -> Login:
        return Login(str(getattr(self.urls, role)))

    def shows(self, contract: str = SPARE, columns: str = "state, price_high") -> tuple[Any, ...]:
        """One row of the owner's view; () if there is none."""
        rows = self.sql(f"SELECT {columns} FROM medusa_api.contract WHERE contract = %s", contract)
        return rows[0] if rows else ()

    def proposals(self, contract: str = SPARE) -> list[tuple[Any, ...]]:
        """Who proposed which price, and how that stands."""
        return self.sql(
            "SELECT p.proposed_by, r.price_high::text, p.state FROM medusa_api.contract_proposals "
            "AS p JOIN medusa_market.contract_revision AS r USING (revision) WHERE p.contract = %s "
            "ORDER BY p.proposal_id",
            contract,
        )


INSERT = """
INSERT INTO medusa_api.contract (contract, kind, payer, provider, currency, validity, settlement_ms,
    notice_ms, price_low, price_high, price_step, load_max, reference, recovery, method, replicas,
    penalty, hold_ms_max)
VALUES ('spare_load', 'movement', 'alpha', 'beta', 'EUR', '[2024-01-01 00:00Z,2096-01-01 00:00Z)',
    86400000, 86400000, 1, 1.20, 0.1, 2, '{main/seen=0.5,main/counted=2}', 'rollback',
    'upstream_backup', 1, 0.5, 86400000)
"""
"""A first contract, as an owner writes it."""

RAISE_PRICE = "UPDATE medusa_api.contract SET price_high = %s WHERE contract = 'spare_load'"


def agree(*parties: Party) -> None:
    """The first contract between alpha and beta, edited in both homes, and active in both."""
    for party in parties[:2]:
        party.sql(INSERT)
    settle(party.contract_sync for party in parties)
    for party in parties[:2]:
        party.agreements.open_round(0, "a test")
