"""Bills under changed contracts: what was stated of the rows of past periods, priced again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from medusa_core.errors import Refused
from medusa_core.market.bill_statements import Statement, repriced
from medusa_core.market.settlement_periods import SettlementPeriod
from medusa_core.market.terms import Content, ContractName, Terms
from medusa_core.names import Participant
from pipelines.catalog.postgres.books import PostgresBooks

PERIODS_MAX = 24
"""The number of last periods of a contract that are priced again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepricedPeriod:
    """What a period was stated at, and what its rows come to under the changed contract."""

    contract: ContractName
    period: int
    from_ms: int
    to_ms: int
    currency: str
    before: Decimal
    after: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class RepricedBills:
    """The answer: the periods of all changed contracts, by contract and period."""

    participant: Participant
    agreed: Mapping[ContractName, Terms]
    changed: Mapping[ContractName, Terms]
    periods: tuple[RepricedPeriod, ...]


def repriced_bills(
    books: PostgresBooks,
    participant: Participant,
    agreed: Mapping[ContractName, Terms],
    changed: Mapping[ContractName, Terms],
) -> RepricedBills:
    """Price what this home has stated, or else was sent, with contracts that sell streams as they
    would be. A period stays as long as it was; disputes are left out. Refused if nothing has been
    stated, and for another stream or currency than was stated.
    """
    periods = tuple(
        period
        for name, terms in sorted(changed.items())
        for period in _periods(books, participant, name, terms)
    )
    if not periods:
        names = ", ".join(sorted(changed))
        raise Refused(f"no period of {names} has been stated: ask again after the first one")
    return RepricedBills(participant=participant, agreed=agreed, changed=changed, periods=periods)


def _periods(
    books: PostgresBooks, participant: Participant, name: ContractName, terms: Terms
) -> Iterator[RepricedPeriod]:
    known = sorted({bill.period for bill in books.bills(name)})
    for number in known[-PERIODS_MAX:]:
        provider_first = books.statements(name, number)
        is_payer = participant == terms.payer
        stated = provider_first[-1] if is_payer else provider_first[0]
        _check_same(stated, terms)
        period = SettlementPeriod(
            number=stated.period, from_ms=stated.from_ms, to_ms=stated.to_ms, terms=terms
        )
        yield RepricedPeriod(
            contract=name,
            period=number,
            from_ms=stated.from_ms,
            to_ms=stated.to_ms,
            currency=stated.currency,
            before=stated.total,
            after=repriced(stated, period).total,
        )


def _check_same(stated: Statement, terms: Terms) -> None:
    subject = terms.subject
    streams = {charge.subject for charge in stated.charges}
    if terms.currency != stated.currency:
        raise Refused(
            f"period {stated.period} of {terms.contract} is stated in {stated.currency}: ask "
            "without another currency"
        )
    if isinstance(subject, Content) and streams - {subject.stream}:
        raise Refused(
            f"period {stated.period} of {terms.contract} states another stream than "
            f"{subject.stream}: ask without another stream"
        )
