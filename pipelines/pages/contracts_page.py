"""Contracts and money: what is in force and proposed, what ends, what is paid and in dispute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.base.time_text import duration
from pipelines.pages.amounts import amount, column_of, decimals_of
from pipelines.pages.contracts_document import contracts_document
from pipelines.pages.dag_elements import act_list, run_table
from pipelines.pages.elements import (
    NOTHING,
    comma_list,
    contract_link,
    cut_list,
    data_table,
    mark,
    moment,
    note,
    same,
    stream_link,
)
from pipelines.pages.money_sections import balances, bills, disputes
from pipelines.pages.page_kinds import Document, Page
from pipelines.report.markup import Markup, join, tag

NAME = "contracts"
SOON_DAYS = 14
STATES = {
    "in force": "stable",
    "agreed": "unknown",
    "proposed": "stabilization",
    "requested": "stabilization",
    "ended": "stopped",
}
FIELDS = {
    "price_low": "lowest price",
    "price_high": "highest price",
    "price_step": "step of prices",
    "load_max": "greatest load",
    "per": "price is per",
    "bound_ms": "bound X",
    "hold_ms_max": "longest hold",
    "settlement_ms": "settlement period",
    "notice_ms": "notice",
    "validity": "valid",
}


def render(document: Document) -> Markup:
    """All sections, each with an id: the script replaces those that have changed."""
    sections = [
        ("in-force", _contracts(document)),
        ("proposals", _proposals(document)),
        ("ahead", _ahead(document)),
        ("prices", _prices(document)),
        ("moves", _moves(document)),
        ("statements", bills(document)),
        ("disputes", disputes(document)),
        ("balances", balances(document)),
        ("acts", _acts(document)),
    ]
    return join(tag("section", *parts, id=id_) for id_, parts in sections if parts)


def _contracts(document: Document) -> list[Markup]:
    chosen = document["chosen"]
    parts = [tag("h2", "Contracts")]
    if chosen is not None:
        parts.append(tag("p", "Only ", tag("b", chosen), ". ",
                         tag("a", "Show all contracts", href=NAME)))  # fmt: skip
    rows = [
        [
            contract_link(one["contract"]),
            mark(STATES.get(one["state"], "unknown"), one["state"]),
            one["kind"], one["payer"], one["provider"], _subject(one), _price(one),
            one["currency"], moment(one["from_ms"]), moment(one["ends_ms"]), f"{one['number']:,}",
        ]
        for one in document["contracts"]
    ]  # fmt: skip
    columns = [("contract", "main"), ("state", ""), ("kind", ""), ("payer", ""), ("provider", ""),
               ("about", "wide-text"), ("price", "number"), ("currency", ""), ("from", ""),
               ("to", ""), ("revision", "number")]  # fmt: skip
    table = data_table(columns, rows, "Contracts and their states", id_="contracts-table")
    words = "No contract has been proposed or agreed on. "
    empty = note("empty", words, "Each is a file, or a row that its owner inserts.")
    if chosen is not None:
        empty = note("empty", f"There is no contract {chosen!r} that you may see.")
    return [
        *parts, table if rows else empty, cut_list(document, "contracts"),
        same("contract", "medusa contract check", "bilateral#edits-in-sql"),
    ]  # fmt: skip


def _subject(one: Mapping[str, Any]) -> Markup:
    if one["stream"]:
        home = one["provider"] if one["provider"] in one["homes"] else one["homes"][0]
        return stream_link(home, one["stream"])
    return comma_list(tag("code", name) for name in one["fragments"] or ())


def _price(one: Mapping[str, Any]) -> object:
    if one["price"] is not None:
        return f"{one['price']} per {one['per']}"
    if one["price_low"] is not None:
        return f"{one['price_low']} to {one['price_high']}"
    return NOTHING


# ---------------------------------------------------------------- proposals


def _proposals(document: Document) -> list[Markup]:
    """Open proposals with what they would change; no section where there is none."""
    if not document["proposals"]:
        return []
    return [
        tag("h2", "Proposals"),
        *map(_proposal, document["proposals"]),
        same("contract_proposals WHERE state = 'open'", "medusa contract what-if --help",
             "bilateral#proposals-and-agreements"),
    ]  # fmt: skip


def _proposal(proposal: Mapping[str, Any]) -> Markup:
    name = proposal["contract"]
    heading = tag("h3", contract_link(name), f": proposed by {proposal['proposed_by']}")
    what = "a new contract" if proposal["is_new"] else "a change of what is agreed"
    signed = ", ".join(proposal["signed_by"]) or "nobody"
    because = f". {proposal['because']}" if proposal["because"] else "."
    facts = tag("p", f"{what}, signed by {signed}; made ", moment(proposal["made_ms"]),
                ", lapses ", moment(proposal["expires_ms"]), _days(proposal["days"]), because,
                class_="soft")  # fmt: skip
    return tag("div", heading, facts, _differences(name, proposal), _bills(name, proposal),
               _what_if(name, proposal),
               class_="proposal")  # fmt: skip


def _differences(contract: str, proposal: Mapping[str, Any]) -> Markup:
    rows = [
        [FIELDS.get(d["field"], d["field"].replace("_", " ")), _term(d["field"], d["before"]),
         _term(d["field"], d["after"])]
        for d in proposal["differences"]
        if not (proposal["is_new"] and d["after"] in (None, [], ""))
    ]  # fmt: skip
    if not rows:
        return note("empty", "It says what is agreed.")
    columns = [("term", "main"), ("agreed", "wide-text"), ("proposed", "wide-text")]
    caption = f"What a proposal about {contract} would change"
    return data_table(columns, rows, caption, id_=f"differences-{contract}-{proposal['made_ms']}")


def _term(field: str, value: object) -> object:
    if value is None or value == []:
        return NOTHING
    if isinstance(value, list):
        return comma_list(map(str, value))
    if field.endswith(("_ms", "_ms_max")) and isinstance(value, int):
        return duration(value * 1_000)
    return str(value)


def _bills(contract: str, proposal: Mapping[str, Any]) -> Markup:
    """The last periods as they were stated and as they would have been."""
    found = proposal["bills"]
    if not found:
        return Markup("")
    decimals = decimals_of(value for one in found for value in (one["before"], one["after"]))
    rows = [
        [f"{one['period']:,}", amount(one["before"], decimals), amount(one["after"], decimals),
         one["currency"]]
        for one in found
    ]  # fmt: skip
    columns = [("period", "main"), ("stated", "number"), ("under the proposal", "number"),
               ("currency", "")]  # fmt: skip
    caption = f"Bills of {contract} under the proposal"
    return data_table(columns, rows, caption, id_=f"bills-{contract}-{proposal['made_ms']}")


def _what_if(contract: str, proposal: Mapping[str, Any]) -> Markup:
    here = proposal["homes"][0]
    if proposal["proposed_by"] == here:
        return Markup("")
    command = f"medusa contract what-if --edit 'contract {contract}' --participant {here}"
    words = "What it would have meant for recorded load, or for more periods: "
    return tag("p", words, tag("code", command, class_="copy"), class_="soft")


def _days(days: int | None) -> str:
    if days is None:
        return ""
    return f" ({days:,} days left)" if days != 1 else " (1 day left)"


# ---------------------------------------------------------------- what ends


def _ahead(document: Document) -> list[Markup]:
    rows = [
        [
            moment(one["at_ms"]),
            tag("b" if one["days"] <= SOON_DAYS else "span", f"{one['days']:,}"),
            contract_link(one["contract"]), one["what"], one["by"] or NOTHING,
        ]
        for one in document["ahead"]
    ]  # fmt: skip
    columns = [("at", "main"), ("days left", "number"), ("contract", ""), ("what", ""), ("by", "")]
    table = data_table(columns, rows, "Notices, ends and proposals that lapse", id_="ahead-table")
    return [
        tag("h2", "Ahead"),
        table if rows else note("empty", "Nothing ends, and no proposal waits."),
        same("contract_notices ORDER BY ends_at", "medusa contract check", "bilateral#fields"),
    ]


# ---------------------------------------------------------------- prices and moves


def _prices(document: Document) -> list[Markup]:
    """What load costs here against the prices of partners."""
    costs = [
        [
            tag("code", fragment["fragment"]), one["home"], f"{fragment['load']:,.4f}",
            _number(fragment["marginal_cost"]), one["currency"] or NOTHING,
            comma_list(_offered(fragment["fragment"], one, document["prices"])),
        ]
        for one in document["costs"] for fragment in one["fragments"]
    ]  # fmt: skip
    columns = [("fragment", "main"), ("at", ""), ("load", "number"), ("marginal cost", "number"),
               ("currency", ""), ("partners' prices", "wide-text")]  # fmt: skip
    parts = [tag("h2", "Marginal cost and prices")]
    if costs:
        parts.append(data_table(columns, costs, "Load, what it costs, what partners take for it",
                                id_="costs-table"))  # fmt: skip
    elif document["chosen"] is None:
        parts.append(
            note("empty", "No load has been measured in the last minutes: no driver runs.")
        )
    rows = [
        [
            contract_link(one["contract"]), one["payer"], one["provider"],
            f"{one['price_low']} to {one['price_high']} {one['currency']}", one["load_max"],
            one["price"] or NOTHING, one["offer_state"] or NOTHING,
            "yes" if one["accepted"] else NOTHING, one["reason"] or one["because"] or NOTHING,
            moment(one["offered_ms"], shows="since"),
        ]
        for one in document["prices"]
    ]  # fmt: skip
    columns = [("contract", "main"), ("payer", ""), ("provider", ""), ("prices", ""),
               ("greatest load", "number"), ("last offer at", "number"), ("it is", ""),
               ("accepted", ""), ("because", "wide-text"), ("since", "")]  # fmt: skip
    if rows:
        parts.append(data_table(columns, rows, "Movement contracts in force and their last offers",
                                id_="prices-table"))  # fmt: skip
    if len(parts) == 1:
        return []
    return [*parts, same("offers ORDER BY offer_id DESC", "medusa status",
                         "load#what-medusa-status-shows")]  # fmt: skip


def _number(value: float | None) -> object:
    return NOTHING if value is None else f"{value:,.4f}"


def _offered(fragment: str, cost: Mapping[str, Any], prices: list[Document]) -> list[str]:
    """What partners of a home take for a fragment, cheapest first."""
    named = {fragment, fragment.rpartition("/")[2], fragment.replace("/", ".")}
    found = [
        one for one in prices
        if one["payer"] == cost["home"] and named & set(one["fragments"] or ())
    ]  # fmt: skip
    return [
        f"{one['provider']} {one['price'] or one['price_low']} {one['currency']}"
        for one in sorted(found, key=lambda one: float(one["price"] or one["price_low"]))
    ]


def _moves(document: Document) -> list[Markup]:
    prices = column_of(one["price"] for one in document["moves"])
    rows = [
        [
            tag("code", one["fragment"]), one["payer"], one["provider"],
            mark("stopped" if one["state"] == "ended" else "stable", one["state"]),
            moment(one["changed_ms"], shows="since"), one["reason"], price,
            one["currency"] or NOTHING, one["load"] or NOTHING, contract_link(one["contract"]),
            _history(one["states"]),
        ]
        for one, price in zip(document["moves"], prices, strict=True)
    ]  # fmt: skip
    columns = [("fragment", "main"), ("of", ""), ("computed by", ""), ("state", ""), ("since", ""),
               ("because", "wide-text"), ("price", "number"), ("currency", ""), ("load", "number"),
               ("contract", ""), ("came by", "wide-text")]  # fmt: skip
    table = data_table(columns, rows, "Moves of fragments, now and before", id_="moves-table")
    return [
        tag("h2", "Moves"),
        table if rows else note("empty", "No fragment has been handed over."),
        cut_list(document, "moves"),
        same("agreed_moves", "medusa move", "bilateral#moving-a-fragment"),
    ]


def _history(states: list[Any] | None) -> Markup:
    if not states:
        return NOTHING
    return join(
        (tag("span", f"{state} ", moment(at_ms), title=reason) for state, at_ms, reason in states),
        ", ",
    )


def _acts(document: Document) -> list[Markup]:
    """Fragments that may move or come back; no section without a contract or a run."""
    if not document["acts"] and not document["runs"]:
        return []
    return [
        tag("h2", "Acts"),
        act_list(document["acts"], may_trigger=document["may_trigger"]),
        run_table(document["runs"], "The last moves, settlements and rounds", id_="runs-table"),
        same("agreed_moves", "medusa move --help", "airflow#acts-by-form"),
    ]


CONTRACTS = Page(
    name=NAME, title="Contracts and money", document=contracts_document, render=render,
    values=("contract",),
)  # fmt: skip
