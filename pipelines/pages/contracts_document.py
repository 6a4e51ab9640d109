"""Contracts and money as a document, of all homes that are shown.

What both parties' homes hold alike (a contract, a statement, a move) is listed once, with the
homes that hold it; books are each home's own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from pipelines.pages.acts import move_acts
from pipelines.pages.contracts_figures import LISTED_MAX, ContractsFigures, read_contracts
from pipelines.pages.dag_runs import RUNS_MAX, run_document
from pipelines.pages.page_kinds import Document, Request

AHEAD_MAX = 50
ACTS_MAX = 20
MARKET_DAGS = ("medusa_move", "medusa_settle", "medusa_round")

Homes = Mapping[str, ContractsFigures]


def contracts_document(request: Request) -> Document:
    """All of it, or with `contract` what is about that one."""
    found = request.of_homes("contracts", read_contracts)
    homes = {str(home): figures for home, figures in found.items()}
    chosen = request.query.get("contract")

    def listed(rows: Iterable[tuple[str, Any]], key: Callable[[str, Any], Hashable]) -> Any:
        about = [(home, r) for home, r in rows if chosen is None or r["contract"] == chosen]
        return once(about, key)

    contracts = listed(_of(homes, "contracts"), lambda _, r: (r["contract"], r["state"],
                                                              r["number"]))  # fmt: skip
    proposals = _proposals(
        [(home, r) for home, r in _of(homes, "contracts") if chosen in (None, r["contract"])]
    )
    document: Document = {
        "chosen": chosen,
        **_cut("contracts", contracts),
        "proposals": proposals,
        "ahead": _ahead(contracts, proposals, listed(_of(homes, "notices"), lambda _, r: (
            r["contract"], r["ends_ms"]))),
        "costs": [] if chosen else [
            {"home": home, **figures.costs} for home, figures in homes.items()],
        **_cut("prices", listed(_of(homes, "prices"), lambda _, r: r["contract"])),
        **_cut("moves", _moves(listed(_of(homes, "moves"), _of_move))),
        **_cut("bills", listed(_of(homes, "bills"), lambda _, r: (
            r["statement"], r["state"]))),
        **_cut("disputes", listed(_of(homes, "disputes"), lambda _, r: (
            r["statement"], r["state"]))),
        "balances": [] if chosen else [
            {"home": home, **row} for home, row in _of(homes, "balances")],
    }  # fmt: skip
    return {**document, **_acts(request, document)}


def _acts(request: Request, document: Document) -> Document:
    """Fragments that may move or come back, and the last runs of moves and settlements."""
    runs = request.last_runs()
    homes = {str(home) for home in request.homes}
    return {
        "may_trigger": request.viewer.may_trigger,
        "acts": move_acts(homes, document["moves"], document["prices"])[:ACTS_MAX],
        "runs": None if runs is None else [
            run_document(one) for one in runs if one.dag in MARKET_DAGS][:RUNS_MAX],
    }  # fmt: skip


def _of(homes: Homes, name: str) -> list[tuple[str, Any]]:
    return [(home, row) for home, figures in homes.items() for row in getattr(figures, name)]


def once(rows: Iterable[tuple[str, Any]], key: Callable[[str, Any], Hashable]) -> list[Document]:
    """What several homes hold alike as one, with their names."""
    found: dict[Hashable, Document] = {}
    for home, row in rows:
        one = found.setdefault(key(home, row), {**row, "homes": []})
        one["homes"].append(home)
    return list(found.values())


def _proposals(rows: Iterable[tuple[str, Any]]) -> list[Document]:
    """The open proposals, once each, as the home has them that has to answer."""
    each = [
        (home, {"contract": row["contract"], "number": row["number"], **proposal})
        for home, row in rows
        for proposal in row["proposals"]
    ]
    each.sort(key=lambda one: one[0] == one[1]["proposed_by"])
    found = once(each, lambda _, r: (r["contract"], r["revision"]))
    return sorted(found, key=lambda one: -one["made_ms"])


def _cut(name: str, values: list[Document]) -> Document:
    return {name: values[:LISTED_MAX], f"{name}_go_on": len(values) > LISTED_MAX}


def _of_move(home: str, row: Any) -> Hashable:
    payer = home if row["is_given"] else row["partner"]
    return payer, row["partner"] if row["is_given"] else home, row["number"], row["contract"]


def _moves(rows: list[Document]) -> list[Document]:
    """With the parties by their names; those that have not ended first."""
    for row in rows:
        home = row["homes"][0]
        row["payer"], row["provider"] = (
            (home, row["partner"]) if row["is_given"] else (row["partner"], home)
        )
    return sorted(rows, key=lambda row: (row["state"] == "ended", -row["changed_ms"]))


def _ahead(
    contracts: list[Document], proposals: list[Document], notices: list[Document]
) -> list[Document]:
    """What ends or expires, the next first."""
    found = [
        {"contract": one["contract"], "what": "ends by notice" if one["is_ending"] else "ends",
         "at_ms": one["ends_ms"], "days": one["days"], "by": None}
        for one in contracts
        if one["ends_ms"] is not None and one["days"] >= 0 and one["state"] != "ended"
    ]  # fmt: skip
    by_notice = {(one["contract"], one["ends_ms"]): one["given_by"] for one in notices}
    for one in found:
        one["by"] = by_notice.get((one["contract"], one["at_ms"]))
    found += [
        {"contract": one["contract"], "what": "proposal lapses", "at_ms": one["expires_ms"],
         "days": one["days"], "by": one["proposed_by"]}
        for one in proposals if one["expires_ms"] is not None
    ]  # fmt: skip
    return sorted(found, key=lambda one: one["at_ms"])[:AHEAD_MAX]
