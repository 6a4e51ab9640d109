"""The sections of a stream's page below its timeline; each names where else the same is said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from medusa_core.certificates import Suite
from medusa_core.grid import FOREVER_US
from pipelines.pages.dag_elements import act_list, run_table
from pipelines.pages.elements import (
    NOTHING,
    comma_list,
    contract_link,
    data_table,
    event_time,
    mark,
    moment,
    note,
    same,
    stream_link,
)
from pipelines.pages.page_kinds import Document
from pipelines.quality.certificate_text import figures_text
from pipelines.report.markup import Markup, tag

FIGURES_MAX = 4
SHAPES = {"STABLE": "stable", "UP_FAILURE": "up_failure", "STABILIZATION": "stabilization"}


def missing(document: Document) -> list[Markup]:
    """The inputs that tentative buckets lack; no section where there is none."""
    rows = [
        [
            _input(one, document), f"{one['buckets']:,}", event_time(one["from_us"]),
            event_time(one["to_us"]), event_time(one["boundary_us"]),
        ]
        for one in document["missing"]
    ]  # fmt: skip
    if not rows:
        return []
    columns = [("input", "main"), ("buckets without it", "number"), ("from", ""), ("to", ""),
               ("it is here up to", "")]  # fmt: skip
    place = f"segments WHERE stream = '{document['stream']}' AND stability = 'tentative'"
    return [
        tag("h2", "Missing inputs"),
        data_table(columns, rows, "Inputs that tentative buckets lack", id_="missing-table"),
        same(place, f"medusa status --participant {document['home']}", "bound#what-is-seen"),
    ]


def _input(one: Mapping[str, Any], document: Document) -> Markup:
    if one["input"] is None:
        return tag("span", "an input that is itself tentative")
    if not one["is_known"]:
        return tag("code", one["input"])
    return stream_link(document["home"], one["input"])


def recalls(document: Document) -> list[Markup]:
    """Recalls and revisions of the line; no section where there is none."""
    rows = [
        [
            f"{one['generation']:,}", "revision" if one["is_revision"] else "recall",
            event_time(one["from_us"]),
            event_time(one["to_us"]) if one["is_revision"] else "all behind it", one["because"],
            one["who"], moment(one["recalled_at_ms"]), f"{one['version']:,}",
        ]
        for one in document["recalls"]
    ]  # fmt: skip
    if not rows:
        return []
    columns = [("generation", "number"), ("act", "main"), ("from", ""), ("to", ""),
               ("because", "wide-text"), ("by", ""), ("at", ""), ("version", "number")]  # fmt: skip
    return [
        tag("h2", "Recalls and revisions"),
        data_table(columns, rows, "Recalls and revisions of this line", id_="recalls-table"),
        same(f"recalls WHERE stream = '{document['stream']}'",
             "medusa revise --help", "revise#what-it-does"),
    ]  # fmt: skip


def makers(document: Document) -> list[Markup]:
    """The fragments that write and that read the stream, with their last states."""
    rows = []
    for one in document["makers"]:
        states = one["states"] or []
        state = NOTHING
        if states:
            words, because, _ = states[0]
            state = mark(SHAPES.get(words, "unknown"), words, title=because)
        rows.append([
            tag("code", one["fragment"]), "writes it" if one["writes"] else "reads it",
            one["participant"], state, moment(states[0][2], shows="since") if states else NOTHING,
            states[0][1] if states else NOTHING, tag("code", one["plan"][:12], title=one["plan"]),
        ])  # fmt: skip
    columns = [("fragment", "main"), ("it", ""), ("at", ""), ("state", ""), ("since", ""),
               ("because", "wide-text"), ("plan", "")]  # fmt: skip
    table = data_table(columns, rows, "Fragments that write or read it", id_="makers-table")
    empty = note("empty", "No fragment of this home writes or reads it.")
    return [
        tag("h2", "Fragments"),
        table if rows else empty,
        same("transitions", f"medusa status --participant {document['home']}",
             "watching#medusa-status"),
    ]  # fmt: skip


def readers(document: Document) -> list[Markup]:
    """Holds, cursors and sinks: who reads it, how far, and until when it is kept for them."""
    rows = [
        [
            tag("b", one["name"]), _kind(one), event_time(_at(one)),
            _behind(one), moment(one["at_ms"], shows="since"), moment(one["until_ms"]),
            one["problem"] or NOTHING,
        ]
        for one in document["readers"]
    ]  # fmt: skip
    columns = [("reader", "main"), ("kind", ""), ("reads on from", ""),
               ("versions behind", "number"), ("last moved", ""), ("kept until", ""),
               ("problem", "wide-text")]  # fmt: skip
    table = data_table(columns, rows, "Readers of the stream", id_="readers-table")
    empty = note("empty", "Nobody reads it yet: neither a partner nor a cursor, sink or view.")
    return [
        tag("h2", "Readers"),
        table if rows else empty,
        same(f"holds WHERE stream = '{document['stream']}'",
             f"medusa cursor list --participant {document['home']}", "changes#cursors"),
    ]  # fmt: skip


def _kind(one: Mapping[str, Any]) -> str:
    if one["kind"] != "hold":
        return f"{one['kind']}, {one['purpose']}"
    return "partner imports" if one["purpose"] == "import" else f"hold, {one['purpose']}"


def _at(one: Mapping[str, Any]) -> int | None:
    at_us: int | None = one["from_us"]
    return None if at_us is None or abs(at_us) >= FOREVER_US else at_us


def _behind(one: Mapping[str, Any]) -> object:
    if one["version"] is None or one["last_version"] is None:
        return NOTHING
    return f"{max(one['last_version'] - one['version'], 0):,}"


def grants(document: Document) -> list[Markup]:
    """Who may read it, and the contracts in force that sell it."""
    rows = [
        [tag("b", one["name"]), one["reason"], one["contract"] or NOTHING,
         one["granted_by"] or NOTHING, moment(one["since_ms"])]
        for one in document["grants"]
    ]  # fmt: skip
    columns = [("may read", "main"), ("because", ""), ("contract", ""), ("granted by", ""),
               ("since", "")]  # fmt: skip
    table = data_table(columns, rows, "Who may read the stream", id_="grants-table")
    empty = note("empty", "No partner and no recipient may read it.")
    parts = [tag("h2", "Grants and contracts"), table if rows else empty]
    sold = [
        [contract_link(one["contract"]),
         one["payer"], one["provider"], f"{one['price']} {one['currency']}", one["per"] or NOTHING,
         moment(one["from_ms"]), moment(one["to_ms"])]
        for one in document["sold"]
    ]  # fmt: skip
    if sold:
        columns = [("contract in force", "main"), ("payer", ""), ("provider", ""),
                   ("price", "number"), ("per", ""), ("from", ""),
                   ("to", "")]  # fmt: skip
        parts.append(data_table(columns, sold, "Contracts that sell the stream", id_="sold-table"))
    place = f"stream_grants WHERE stream = '{document['stream']}'"
    command = f"medusa contract export {document['stream']}"
    return [*parts, same(place, command, "contracts#who-may-read")]


def quarantine(document: Document) -> list[Markup]:
    """Why records are in quarantine, with the newest of each reason."""
    rows = [
        [
            tag("span", one["reason"]), f"{one['records']:,}", f"{one['repaired']:,}",
            moment(one["newest_ms"], shows="since"), tag("code", one["field"] or "–"),
            one["origin"], tag("code", one["content"]),
        ]
        for one in document["quarantine"]
    ]  # fmt: skip
    columns = [("reason", "main"), ("records", "number"), ("repaired", "number"),
               ("newest", ""), ("field", ""), ("origin", "wide-text"),
               ("for example", "wide-text")]  # fmt: skip
    table = data_table(columns, rows, "Records in quarantine by reason", id_="quarantine-table")
    place = f"quarantine WHERE stream = '{document['stream']}'"
    command = f"medusa read {document['stream']} --quarantine --participant {document['home']}"
    return [
        tag("h2", "Quarantine"),
        table if rows else note("empty", "No record of it, or that it lacks, is in quarantine."),
        same(place, command, "quarantine#what-is-kept"),
    ]


def certificates(document: Document) -> list[Markup]:
    """The newest certificate of each check."""
    rows = []
    for one in document["certificates"]:
        shape, words = ("stable", "passed") if one["passed"] else ("up_failure", "failed")
        rows.append([
            tag("span", tag("b", one["law"]), f" {one['suite']}"),
            mark(shape, words), event_time(one["from_us"]),
            event_time(one["to_us"]), f"{one['version']:,}", _found(one),
            moment(one["certified_at_ms"], shows="since"), f"{one['number']:,}",
            comma_list(tag("a", table, href=f"pages/{quote(page)}")
                       for table, page in one["pages"]),
        ])  # fmt: skip
    columns = [("law", "main"), ("result", ""), ("from", ""), ("to", ""), ("version", "number"),
               ("figures", "wide-text"), ("certified", ""), ("number", "number"),
               ("pages of the window", "")]  # fmt: skip
    table = data_table(columns, rows, "The newest certificate of each check", id_="laws-table")
    parts = [tag("h2", "Certificates"),
             table if rows else note("empty", "No window of it has been checked yet.")]  # fmt: skip
    place = f"certificates WHERE stream = '{document['stream']}'"
    command = f"medusa quality run {document['stream']} --participant {document['home']}"
    return [*parts, same(place, command, "quality#where-certificates-are")]


def acts(document: Document) -> list[Markup]:
    """What may be done about the stream, with the values for the form, and the last runs."""
    if not document["acts"]:
        return []
    stream = document["stream"]
    return [
        tag("h2", "Acts"),
        act_list(document["acts"], may_trigger=document["may_trigger"]),
        run_table(document["runs"], f"The last runs about {stream}", id_="runs-table"),
        same(f"recalls WHERE stream = '{stream}'", f"medusa recall {stream} --help",
             "airflow#acts-by-form"),
    ]  # fmt: skip


def _found(certificate: Mapping[str, Any]) -> str:
    """What a check found; figures of another version of the program are shown as they are."""
    figures = certificate["figures"]
    try:
        return figures_text(Suite(certificate["suite"]), figures, certificate["engines"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return ", ".join(f"{name} {value}" for name, value in list(figures.items())[:FIGURES_MAX])
