"""The page of the federation: the picture, and the tables that say the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pipelines.pages.dag_elements import act_list, dag_link, run_table
from pipelines.pages.elements import (
    NOTHING,
    WORDS,
    comma_list,
    data_table,
    event_time,
    glyph,
    legend,
    mark,
    moment,
    note,
    same,
    state_mark,
    stream_link,
)
from pipelines.pages.federation_document import federation_document
from pipelines.pages.federation_picture import draw_federation, is_drawn
from pipelines.pages.page_kinds import Document, Page
from pipelines.report.markup import Markup, join, tag

LINK_WORDS = {
    "reachable": ("stable", "reachable"),
    "unreachable": ("up_failure", "unreachable"),
    "refused": ("up_failure", "refused"),
    "unknown": ("unknown", "no report of late"),
}


def render(document: Document) -> Markup:
    """All sections, each with an id: the script replaces those that have changed."""
    if not document["homes"]:
        return tag("section", id="overview")
    if not document["participants"]:
        return note("empty", "There is nothing to draw yet: no home could be read.")
    return join([
        tag("section", *_overview(document), id="overview"),
        tag("section", *_fragments(document), id="fragments"),
        tag("section", *_links(document), id="links"),
        tag("section", *_streams(document), id="streams"),
        *([tag("section", *_acts(document), id="acts")] if document["acts"] else []),
    ])  # fmt: skip


def _overview(document: Document) -> list[Markup]:
    counts = document["states"]
    figures = [
        tag("li", glyph(state), tag("b", f"{counts.get(state, 0):,}"), tag("span", WORDS[state]),
            class_=f"count {state if counts.get(state) else 'none'}")
        for state in ("stable", "stabilization", "up_failure", "stopped", "unknown")
    ]  # fmt: skip
    parts = [tag("ul", *figures, class_="counts", aria_label="Fragments by state")]
    chosen = document["chosen"]
    if chosen is not None:
        parts.append(
            tag("p", "Only ", tag("b", chosen), " and what is beside it. ",
                tag("a", "Show all", href="federation"))
        )  # fmt: skip
    drawn = document["fragments"]
    participants = len({one["participant"] for one in drawn})
    if not drawn:
        return [*parts, _nothing(chosen)]
    if is_drawn(participants, drawn, document["fragments_in_all"]):
        picture = draw_federation(drawn, document["participants"], document["links"])
        return [*parts, picture, legend()]
    return [*parts, _cards(document), legend()]


def _nothing(chosen: str | None) -> Markup:
    if chosen is not None:
        return note("empty", f"Nothing that you may see is computed by or beside {chosen}.")
    return note(
        "empty", "No fragment is deployed. ", tag("code", "medusa apply --contracts DIR"),
        " or the DAG ", dag_link("medusa_deploy"), " deploys what the contracts say.",
    )  # fmt: skip


def _cards(document: Document) -> Markup:
    """Too many to draw: a card for each participant, the worst first."""
    order = sorted(
        document["participants"],
        key=lambda one: (list(WORDS).index(one["state"]) if one["state"] == "stable" else -1,
                         -one["states"].get("up_failure", 0), one["name"]),
    )  # fmt: skip
    cards = [tag("li", _card(one)) for one in order]
    words = "Too many fragments for one picture: choose a participant to see what is beside it."
    return join([tag("p", words, class_="soft"), tag("ul", *cards, class_="cards")])


def _card(one: Mapping[str, Any]) -> Markup:
    marks = [
        tag("span", glyph(state), f"{count:,}", title=WORDS[state])
        for state, count in sorted(one["states"].items())
    ]
    return tag(
        "a",
        tag("b", one["name"]),
        tag("span", "home here" if one["is_seen"] else "by the exchange", class_="soft"),
        tag("span", *marks, class_="marks"),
        tag("span", f"{one['streams']:,} streams", class_="soft"),
        href=f"federation?participant={quote(one['name'])}",
        class_="card" if one["is_seen"] else "card elsewhere",
    )


def _cut(document: Document, name: str) -> Markup:
    shown, in_all = len(document[name]), document[f"{name}_in_all"]
    if shown == in_all:
        return Markup("")
    return note("cut", f"{shown:,} of {in_all:,} are shown, the worst first. "
                       "Choose a participant above to see its own.")  # fmt: skip


def _fragments(document: Document) -> list[Markup]:
    rows = []
    for one in document["fragments"]:
        place: object = one["participant"]
        if one["is_left"]:
            place = f"now at {one['computed_by']}"
        elif one["belongs_to"] != one["participant"]:
            place = tag("span", one["participant"], tag("small", f" of {one['belongs_to']}"))
        state = tag("span", "moved", class_="soft") if one["is_left"] else state_mark(one["state"])
        rows.append([
            tag("code", one["name"]), place, state, moment(one["since_ms"], shows="since"),
            _because(one), _leader(one["leases"]), comma_list(one["inputs"]),
            comma_list(one["outputs"]),
        ])  # fmt: skip
    columns = [("fragment", "main"), ("at", ""), ("state", ""), ("since", ""),
               ("because", "wide-text"), ("led by", ""), ("reads", ""), ("writes", "")]  # fmt: skip
    return [
        tag("h2", "Fragments"),
        data_table(columns, rows, "Fragments, where they are computed, and who leads their leases",
                   id_="fragments-table"),
        _cut(document, "fragments"),
        same("leases", "medusa status", "watching#medusa-status"),
    ]  # fmt: skip


def _because(one: Mapping[str, Any]) -> object:
    if one["because"]:
        return one["because"]
    return NOTHING


def _leader(leases: list[Mapping[str, Any]]) -> Markup:
    lines = []
    for lease in leases:
        words = f"{lease['lane']} epoch {lease['epoch']}"
        end = [] if lease["is_held"] else [" over ", moment(lease["ended_at_ms"], shows="since")]
        lines.append(tag("div", tag("code", lease["holder"]), tag("small", f" {words}", *end),
                         class_=None if lease["is_held"] else "soft"))  # fmt: skip
    return join(lines) if lines else NOTHING


def _links(document: Document) -> list[Markup]:
    rows = []
    for one in document["links"]:
        shape, words = LINK_WORDS.get(one["state"], ("unknown", one["state"]))
        rows.append([
            tag("b", one["reader"]), one["partner"],
            mark(shape, words),
            moment(one["since_ms"], shows="since"), _ms(one["delay_ms"]), _ms(one["answer_ms"]),
            one["error"] or NOTHING,
        ])  # fmt: skip
    columns = [("reader", "main"), ("reads from", ""), ("link", ""), ("since", ""),
               ("news later by", "number"), ("answers in", "number"),
               ("last error", "wide-text")]  # fmt: skip
    table = data_table(columns, rows, "Links between participants", id_="links-table")
    empty = note("empty", "No home has asked another one for anything yet.")
    return [
        tag("h2", "Links"),
        table if rows else empty,
        _cut(document, "links"),
        same("links", "medusa doctor", "watching#medusa-status"),
    ]


def _ms(value: int | None) -> Markup:
    return NOTHING if value is None else tag("span", f"{value:,} ms")


def _streams(document: Document) -> list[Markup]:
    rows = [
        [
            stream_link(one["home"], one["stream"]),
            one["participant"] + (
                f" replica {one['replica']}" if one["replica"] else ""),
            event_time(one["stable_through_us"]),
            event_time(one["tentative_through_us"]),
            comma_list(one["readers"]),
        ]
        for one in document["streams"]
    ]  # fmt: skip
    columns = [("stream", "main"), ("written by", ""), ("final through", ""),
               ("tentative through", ""), ("read by", "")]  # fmt: skip
    table = data_table(columns, rows, "Streams and how far they are final", id_="streams-table")
    return [
        tag("h2", "Streams"),
        table if rows else note("empty", "No stream has been declared."),
        _cut(document, "streams"),
        same("streams", "medusa status", "watching#medusa-status"),
    ]


def _acts(document: Document) -> list[Markup]:
    """What may be done about the participant that is chosen, and the last runs about it."""
    chosen = document["chosen"]
    return [
        tag("h2", "Acts"),
        act_list(document["acts"], may_trigger=document["may_trigger"]),
        run_table(document["runs"], f"The last runs about {chosen}", id_="runs-table"),
        same("desired_jobs", f"medusa job list {chosen}", "airflow#acts-by-form"),
    ]


FEDERATION = Page(
    name="federation", title="Federation", document=federation_document, render=render,
    values=("participant",),
)  # fmt: skip
