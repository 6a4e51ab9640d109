"""What is owed: statements, disputes with the act that ends each, and balances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.pages.amounts import amount, column_of, decimals_of
from pipelines.pages.elements import (
    NOTHING,
    contract_link,
    cut_list,
    data_table,
    event_time,
    glyph,
    mark,
    moment,
    note,
    same,
)
from pipelines.pages.page_kinds import Document
from pipelines.report.markup import Markup, tag

SHAPES = {
    "settled": "stable",
    "nothing owed": "stable",
    "billed": "stabilization",
    "own": "unknown",
    "disputed": "up_failure",
}
MEANINGS = {
    "settled": "both parties agree on what is owed",
    "nothing owed": "nothing was delivered in the period",
    "billed": "the payer has not answered yet",
    "own": "this home's own figures: the provider has stated nothing yet",
    "disputed": "the parties' figures differ",
}
HASH_CHARACTERS = 12


def bills(document: Document) -> list[Markup]:
    """Statements, those in dispute first."""
    found = document["bills"]
    decimals = decimals_of(v for one in found for v in (one["total"], one["owed"], one["blocked"]))
    rows = [
        [
            contract_link(one["contract"]), f"{one['period']:,}", one["payer"], one["provider"],
            mark(SHAPES.get(one["state"], "unknown"), one["state"],
                 title=MEANINGS.get(one["state"])),
            amount(one["total"], decimals), amount(one["owed"], decimals),
            amount(_if_any(one["blocked"]), decimals), one["currency"], moment(one["from_ms"]),
            moment(one["to_ms"]), moment(one["answered_ms"], shows="since"),
            tag("code", one["statement"][:HASH_CHARACTERS], title=one["statement"]),
        ]
        for one in found
    ]  # fmt: skip
    columns = [("contract", "main"), ("period", "number"), ("payer", ""), ("provider", ""),
               ("state", ""), ("stated", "number"), ("owed", "number"), ("blocked", "number"),
               ("currency", ""), ("from", ""), ("to", ""), ("answered", ""),
               ("statement", "")]  # fmt: skip
    table = data_table(columns, rows, "Statements and what is owed of each", id_="bills-table")
    return [
        tag("h2", "Statements"),
        table if rows else note("empty", "No period of a contract has been stated yet."),
        cut_list(document, "bills"),
        same("bills", "medusa statement", "money#january"),
    ]


def _if_any(value: str | None) -> str | None:
    return None if value is None or not float(value) else value


def disputes(document: Document) -> list[Markup]:
    """Each with both figures, and the command of each party; no section where there is none."""
    if not document["disputes"]:
        return []
    return [
        tag("h2", "Disputes"),
        *(_dispute(one) for one in document["disputes"]),
        cut_list(document, "disputes"),
        same("bill_disputes", "medusa dispute list", "money#the-month-after"),
    ]


def _dispute(one: Mapping[str, Any]) -> Markup:
    is_open = one["state"] == "open"
    figures = [one["claimed"], one["agreed"], one["blocked"], one["owed"]]
    decimals = decimals_of(figures)
    shape = glyph("up_failure" if is_open else "stable")
    heading = tag("h3", shape, contract_link(one["contract"]),
                  f", period {one['period']:,}: {'open' if is_open else 'ended'}")  # fmt: skip
    facts = tag(
        "dl",
        *(
            tag("div", tag("dt", name), tag("dd", amount(value, decimals), f" {one['currency']}"))
            for name, value in (("claimed by the provider", one["claimed"]),
                                ("agreed on", one["agreed"]), ("blocked", one["blocked"]),
                                ("owed in the end", one["owed"]))
            if value is not None
        ),
        tag("div", tag("dt", "first difference"), tag("dd", event_time(one["from_us"]))),
        tag("div", tag("dt", f"statements of {one['provider']} and {one['payer']}"),
            tag("dd", *(tag("code", hash_[:HASH_CHARACTERS] + " ", title=hash_)
                        for hash_ in (one["statement"], one["own_statement"])))),
        class_="facts",
    )  # fmt: skip
    return tag("div", heading, facts, _differences(one), _acts(one) if is_open else "",
               class_="dispute")  # fmt: skip


def _differences(one: Mapping[str, Any]) -> Markup:
    found = one["differences"]
    decimals = decimals_of(v for part in found for v in (part["claimed"], part["own"]))
    rows = [
        [tag("span", part["kind"], f" {part['subject']}" if part["subject"] else ""),
         event_time(part["from_us"]), event_time(part["to_us"]),
         amount(part["claimed"], decimals), amount(part["own"], decimals),
         amount(part["blocked"], decimals)]
        for part in found
    ]  # fmt: skip
    columns = [("charge", "main"), ("from", ""), ("to", ""), ("claimed", "number"),
               ("by the payer's count", "number"), ("blocked", "number")]  # fmt: skip
    id_ = f"dispute-{one['contract']}-{one['period']}"
    caption = f"Differences of {one['contract']}, period {one['period']}"
    more = one["differences_in_all"] - len(found)
    cut = note("cut", f"{more:,} more differ.") if more else ""
    return tag("div", data_table(columns, rows, caption, id_=id_), cut)


def _acts(one: Mapping[str, Any]) -> Markup:
    """The command that answers, for each party whose home is shown."""
    acts = []
    for home in one["homes"]:
        is_payer = home == one["payer"]
        act, words = ("withdraw", "owe what is claimed") if is_payer else (
            "concede", "take the payer's figures")  # fmt: skip
        command = f"medusa dispute {act} {one['contract']} {one['period']} --participant {home}"
        acts.append(tag("li", f"{home} may {words}: ", tag("code", command, class_="copy")))
    return tag("ul", *acts, class_="acts")


def balances(document: Document) -> list[Markup]:
    """What each partner owes or is owed, over all contracts, by currency."""
    found = sorted(document["balances"], key=lambda one: one["account"] != "partner")
    amounts = column_of(one["balance"] for one in found)
    rows = [
        [tag("b", one["partner"]), one["home"], one["account"], value, one["currency"],
         _meaning(one), f"{one['postings']:,}"]
        for one, value in zip(found, amounts, strict=True)
    ]  # fmt: skip
    columns = [("partner", "main"), ("books of", ""), ("account", ""), ("balance", "number"),
               ("currency", ""), ("that is", ""), ("postings", "number")]  # fmt: skip
    table = data_table(columns, rows, "Balances by partner and currency", id_="balances-table")
    if document["chosen"] is not None:
        return []
    return [
        tag("h2", "Balances"),
        table if rows else note("empty", "Nothing has been booked yet."),
        same("accounts", "medusa ledger", "money#rules"),
    ]


def _meaning(one: Mapping[str, Any]) -> object:
    if one["account"] != "partner" or not float(one["balance"]):
        return NOTHING
    is_owed = float(one["balance"]) > 0
    return f"{one['partner']} owes {one['home']}" if is_owed else (
        f"{one['home']} owes {one['partner']}")  # fmt: skip
