"""What the page of contracts and money reads of one home: terms, moves, statements, balances.

Amounts are decimal texts, as the books have them. Each list has a limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medusa_core.errors import Refused
from medusa_core.loads import WINDOW_MS, load_of
from medusa_core.market.bill_comparison import compare_statements
from medusa_core.market.bill_statements import repriced, statement_from
from medusa_core.market.declared import marginal_costs
from medusa_core.market.documents import terms_of
from medusa_core.market.settlement_periods import SettlementPeriod
from medusa_core.market.terms import ContractKind, plain
from pipelines.catalog.postgres.declared_costs import declared_of
from pipelines.catalog.postgres.loads import recorded_of
from pipelines.pages.page_home import Snapshot

LISTED_MAX = 50
PERIODS_MAX = 6
DIFFERENCES_MAX = 10
DAY_MS = 86_400_000

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractsFigures:
    """A home's copy of its contracts, and its books. `days` of a row is how many days are left."""

    participant: str
    contracts: tuple[Row, ...]
    notices: tuple[Row, ...]
    costs: Row
    prices: tuple[Row, ...]
    moves: tuple[Row, ...]
    bills: tuple[Row, ...]
    disputes: tuple[Row, ...]
    balances: tuple[Row, ...]


def read_contracts(home: Snapshot) -> ContractsFigures:
    """Ten statements, and one for each proposal about a contract that sells a stream."""
    (here,) = home.rows("page_home")
    clock_ms: int = here["clock_ms"]
    return ContractsFigures(
        participant=here["participant"],
        contracts=tuple(
            _contract(home, dict(row), clock_ms)
            for row in home.rows("page_contracts", most=LISTED_MAX + 1)
        ),
        notices=tuple(
            {**row, "days": _days(row["ends_ms"], clock_ms)} for row in home.rows("page_notices")
        ),
        costs=_costs(home, clock_ms),
        prices=_rows(home, "page_offered_prices"),
        moves=_rows(home, "page_moves"),
        bills=_rows(home, "page_bills"),
        disputes=tuple(
            _dispute(dict(row)) for row in home.rows("page_disputes", most=LISTED_MAX + 1)
        ),
        balances=_rows(home, "page_balances"),
    )  # fmt: skip


def _rows(home: Snapshot, name: str) -> tuple[Row, ...]:
    return tuple(dict(row) for row in home.rows(name, most=LISTED_MAX + 1))


def _days(at_ms: int | None, clock_ms: int) -> int | None:
    return None if at_ms is None else (at_ms - clock_ms) // DAY_MS


# ---------------------------------------------------------------- contracts and proposals


def _contract(home: Snapshot, row: Row, clock_ms: int) -> Row:
    agreed = row.pop("agreed_terms")
    proposals = [
        _proposal(home, proposal, agreed, clock_ms) for proposal in row.pop("proposals") or ()
    ]
    return {**row, "days": _days(row["ends_ms"], clock_ms), "proposals": proposals}


def _proposal(
    home: Snapshot, row: Mapping[str, Any], agreed: Mapping[str, Any] | None, clock_ms: int
) -> Row:
    document = bytes.fromhex(row["document"])
    return {
        **{name: row[name] for name in ("revision", "proposed_by", "made_ms", "expires_ms",
                                        "who", "because", "signed_by")},
        "days": _days(row["expires_ms"], clock_ms),
        "is_new": agreed is None,
        "differences": differences(agreed or {}, row["terms"]),
        "bills": _as_billed(home, document),
    }  # fmt: skip


NO_TERMS = frozenset({"revision", "document", "number", "supersedes", "known_at", "contract"})


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Row]:
    """The fields in which two terms differ; nothing is said of those that neither has."""
    return [
        {"field": name, "before": before.get(name), "after": after.get(name)}
        for name in sorted({*before, *after} - NO_TERMS)
        if before.get(name) != after.get(name)
    ]


def _as_billed(home: Snapshot, document: bytes) -> list[Row]:
    """What the last stated periods come to under terms, as `medusa contract what-if` reckons;
    nothing where another stream or currency was stated, and for load, which is replayed."""
    terms = terms_of(document)
    if terms.kind is not ContractKind.CONTENT:
        return []
    found = []
    for row in home.rows("page_stated", contract=terms.contract, most=PERIODS_MAX):
        try:
            stated = statement_from(bytes(row["document"]))
            if stated.currency != terms.currency:
                return []
            period = SettlementPeriod(number=stated.period, from_ms=stated.from_ms,
                                      to_ms=stated.to_ms, terms=terms)  # fmt: skip
            after = repriced(stated, period).total
        except Refused:
            return []
        found.append({"period": stated.period, "currency": stated.currency,
                      "before": plain(stated.total), "after": plain(after)})  # fmt: skip
    return found


# ---------------------------------------------------------------- costs


def _costs(home: Snapshot, clock_ms: int) -> Row:
    """The load of each fragment and what the participant would save by giving it away."""
    load = load_of(recorded_of(home.rows("loads_since", window_ms=WINDOW_MS)), clock_ms)
    found = home.rows("declared_cost")
    declared = declared_of(found[0]) if found else None
    fragments: list[Row] = []
    if load is not None:
        costs = {} if declared is None else marginal_costs(declared, load)
        for fragment, partition in sorted({(k.fragment, k.partition) for k in load.by_key}):
            cost = costs.get((fragment, partition))
            fragments.append(
                {
                    "fragment": fragment,
                    "partition": partition,
                    "load": round(load.of(fragment, partition), 4),
                    "marginal_cost": None if cost is None else round(cost, 4),
                }
            )
    return {
        "carried": None if load is None else round(load.carried, 4),
        "next_unit": None
        if declared is None or load is None
        else round(declared.cost.slope(load.carried), 4),
        "threshold": None if declared is None else declared.threshold,
        "currency": None if declared is None else declared.currency,
        "fragments": fragments[:LISTED_MAX],
    }


# ---------------------------------------------------------------- disputes


def _dispute(row: Row) -> Row:
    """With the charges in which the two statements differ."""
    claimed = statement_from(bytes.fromhex(row.pop("document")))
    own = statement_from(bytes.fromhex(row.pop("own_document")))
    parts = compare_statements(claimed, own).differences
    return {
        **row,
        "differences_in_all": len(parts),
        "differences": [
            {"kind": one.kind.value, "subject": one.subject, "from_us": one.from_us,
             "to_us": one.to_us, "claimed": plain(one.claimed), "own": plain(one.own),
             "blocked": plain(one.blocked)}
            for one in parts[:DIFFERENCES_MAX]
        ],
    }  # fmt: skip
