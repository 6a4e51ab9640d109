"""The pages of streams: the list that is searched, and one stream with all that is known of it."""

from __future__ import annotations

from typing import Any

from pipelines.base.time_text import duration, iso
from pipelines.pages.bucket_page import bucket_section
from pipelines.pages.elements import (
    NOTHING,
    comma_list,
    data_table,
    event_time,
    mark,
    note,
    same,
    stream_link,
)
from pipelines.pages.page_address import with_values
from pipelines.pages.page_kinds import Document, Page
from pipelines.pages.stream_document import streams_document
from pipelines.pages.stream_sections import (
    acts,
    certificates,
    grants,
    makers,
    missing,
    quarantine,
    readers,
    recalls,
)
from pipelines.pages.stream_timeline import MEANINGS, draw_timeline
from pipelines.pages.time_range import SPANS
from pipelines.report.markup import Markup, join, tag

NAME = "streams"


def render(document: Document) -> Markup:
    """The list or the stream; each section has an id: the script replaces what has changed."""
    if document["view"] == "list":
        return _list(document)
    if not document["found"]:
        return _nothing(document)
    sections = [
        ("head", _head(document)),
        ("range", _range(document)),
        ("timeline", _timeline(document)),
        ("bucket", bucket_section(document, _address(document))),
        ("missing", missing(document)),
        ("recalls", recalls(document)),
        ("makers", makers(document)),
        ("readers", readers(document)),
        ("grants", grants(document)),
        ("quarantine", quarantine(document)),
        ("certificates", certificates(document)),
        ("acts", acts(document)),
    ]
    return join(tag("section", *parts, id=id_) for id_, parts in sections if parts)


# ---------------------------------------------------------------- the list


def _list(document: Document) -> Markup:
    search = tag(
        "form",
        tag("label", "Name contains ", tag("input", type="search", name="q", maxlength="200",
                                           value=document["contains"], autocomplete="off")),
        tag("button", "Search", type="submit"),
        method="get", action=NAME, class_="range", role="search",
    )  # fmt: skip
    rows = [_row(one) for one in document["streams"]]
    columns = [("stream", "main"), ("home", ""), ("state", ""), ("final through", ""),
               ("tentative through", ""), ("bucket", "number"), ("lines", "number")]  # fmt: skip
    table = data_table(columns, rows, "Streams and how far each is final", id_="streams-table")
    return join([
        tag("section", search, id="search"),
        tag("section", _count(document), table if rows else _no_streams(document),
            _pages(document), same("streams", "medusa streams", "watching#medusa-status"),
            id="streams"),
    ])  # fmt: skip


def _row(one: Document) -> list[object]:
    return [
        stream_link(one["home"], one["stream"]), one["home"], _state(one),
        event_time(one["stable_through_us"]), event_time(one["tentative_through_us"]),
        duration(one["width_us"]), f"{one['lines']:,}",
    ]  # fmt: skip


def _state(one: Document) -> Markup:
    if one["origin_us"] is None:
        shape, words = "unknown", "not begun"
    elif one["tentative_through_us"] is not None:
        shape, words = "stabilization", "tentative"
    elif one["has_ended"]:
        shape, words = "stable", "final, ended"
    else:
        shape, words = "stable", "final"
    return mark(shape, words)


def _count(document: Document) -> Markup:
    in_all, shown = document["in_all"], len({one["stream"] for one in document["streams"]})
    of = f"{shown:,} of {in_all:,}" if in_all > shown else f"{shown:,}"
    whose = f" whose names contain “{document['contains']}”" if document["contains"] else ""
    behind = f", behind {document['after']}" if document["after"] else ""
    return tag("p", f"{of} streams{whose}{behind}", class_="soft")


def _no_streams(document: Document) -> Markup:
    if document["contains"] or document["after"]:
        return note("empty", "No stream has such a name. ", tag("a", "Show all", href=NAME), ".")
    command = tag("code", "medusa apply --contracts DIR")
    return note("empty", "No stream has been declared: ", command, " declares those of contracts.")


def _pages(document: Document) -> Markup:
    links = []
    contains = document["contains"] or None
    if document["after"]:
        links.append(tag("a", "First streams", href=with_values(NAME, q=contains)))
    if document["next"]:
        links.append(tag("a", "Next streams",
                         href=with_values(NAME, q=contains, after=document["next"])))  # fmt: skip
    return tag("p", join(links, " · "), class_="paging") if links else Markup("")


# ---------------------------------------------------------------- one stream


def _nothing(document: Document) -> Markup:
    where = f"in the home of {document['home']}" if document["home"] else "in a home shown to you"
    return tag(
        "section", _crumbs(document),
        note("empty", f"There is no stream {document['stream']!r} {where}, or it cannot be read "
                      "now. ", tag("a", "Show all streams", href=NAME), "."),
        id="head",
    )  # fmt: skip


def _crumbs(document: Document) -> Markup:
    home = [" › ", document["home"]] if document["home"] else []
    return tag("p", tag("a", "All streams", href=NAME), *home, class_="crumbs soft")


def _address(document: Document) -> Any:
    """The address of what is shown, with some values changed; None takes one out."""
    chosen = document["chosen"]
    line = document["line"]
    is_first = line is None or line["name"] == document["lines"][0]["name"]
    bucket = document["bucket"]
    values = {
        "home": document["home"], "stream": document["stream"],
        "line": None if is_first else line["name"],
        "span": None if chosen["span"] in (None, "1h") else chosen["span"],
        "from": _seconds(chosen["from_us"]),
        "to": _seconds(chosen["to_us"]),
        "bucket": None if bucket is None else f"{bucket['from_us']}us",
    }  # fmt: skip

    def address(**changed: str | None) -> str:
        return with_values(NAME, **{**values, **changed})

    return address


def _seconds(time_us: int | None) -> str | None:
    return None if time_us is None else f"{time_us / 1e6:.6f}"


def _head(document: Document) -> list[Markup]:
    line, promise = document["line"], document["promise"]
    title = tag("h2", tag("code", document["stream"]), class_="title")
    wrong = [note("warn", one) for one in document["wrong"]]
    if line is None:
        words = "It has no line yet: nothing of it has been written or imported here."
        if document["lines"]:
            words = "It has no such line."
        return [_crumbs(document), title, *wrong, note("empty", words), _lines(document)]
    facts: list[tuple[str, object]] = [
        ("state", _state(line)),
        ("final through", event_time(line["stable_through_us"])),
        ("tentative through", event_time(line["tentative_through_us"])),
        ("bound X", _bound(promise)),
        ("bucket", duration(document["width_us"])),
        ("line", _lines(document)),
        ("version", tag("span", f"{line['version']:,}", *(
            [f", generation {line['generation']:,}"] if line["generation"] > 1 else []))),
        ("kept from", event_time(line["trimmed_us"] or line["origin_us"])),
        ("columns", _columns(document)),
    ]  # fmt: skip
    shown = [
        tag("div", tag("dt", name), tag("dd", value)) for name, value in facts if value != NOTHING
    ]
    return [_crumbs(document), title, *wrong, tag("dl", *shown, class_="facts")]


def _bound(promise: Document) -> object:
    if promise["bound_ms"] is None:
        return "none: inputs are waited for"
    return f"{duration(promise['bound_ms'] * 1_000)}, {promise['during_failure']}"


def _lines(document: Document) -> Markup:
    """The line that is shown, and links to the others."""
    shown, found = document["line"], []
    for one in document["lines"]:
        words = one["participant"]
        if one["is_import"]:
            words += ", as chosen here"
        elif one["replica"]:
            words += f" replica {one['replica']}"
        if shown is not None and one["name"] == shown["name"]:
            found.append(tag("b", words, aria_current="true"))
        else:
            place = with_values(NAME, home=document["home"], stream=document["stream"],
                                line=one["name"])  # fmt: skip
            found.append(tag("a", words, href=place))
    return comma_list(found)


def _columns(document: Document) -> Markup:
    names = [
        tag("code", f"{name} {type_}", class_="key-column" if name in document["key"] else None)
        for name, type_ in document["columns"]
    ]
    return comma_list(names, shown_max=8)


def _range(document: Document) -> list[Markup]:
    """Presets, and a form for any range or bucket."""
    address, chosen = _address(document), document["chosen"]
    spans = [
        tag("a", span, href=address(span=span, **{"from": None, "to": None}),
            aria_current="true" if span == chosen["span"] else None)
        for span in SPANS
    ]  # fmt: skip
    hidden = [
        tag("input", type="hidden", name=name, value=value)
        for name, value in (
            ("home", document["home"]), ("stream", document["stream"]),
            ("line", None if document["line"] is None else document["line"]["name"]))
        if value is not None
    ]  # fmt: skip
    fields = [
        tag("label", f"{words} ", tag("input", type="datetime-local", step="1", name=name,
                                      value=_local(value)))
        for name, words, value in (
            ("from", "from, UTC", chosen["from_us"]), ("to", "to, UTC", chosen["to_us"]),
            ("bucket", "bucket at, UTC",
             None if document["bucket"] is None else document["bucket"]["from_us"]))
    ]  # fmt: skip
    form = tag("form", *hidden, *fields, tag("button", "Show", type="submit"),
               method="get", action=NAME, class_="range")  # fmt: skip
    return [tag("nav", *spans, class_="spans", aria_label="Range of event time"), form]


def _local(time_us: int | None) -> str:
    if time_us is None:
        return ""
    return iso(time_us // 1_000_000 * 1_000_000).removesuffix("Z")


def _timeline(document: Document) -> list[Markup]:
    timeline = document["timeline"]
    if timeline is None:
        return [] if document["line"] is None else [
            note("empty", "No bucket of this line has been closed yet.")]  # fmt: skip
    bound_ms = document["promise"]["bound_ms"]
    parts = [draw_timeline(timeline, document["width_us"], bound_ms, _address(document))]
    if timeline["is_cut"]:
        parts.append(note("cut", "Too many rows were replaced to look at all of them: corrections "
                                 "are shown in part. Choose a shorter range."))  # fmt: skip
    per_cell = timeline["cell_us"] // document["width_us"]
    cell = "each bar is a bucket" if per_cell == 1 else f"each bar is {per_cell:,} buckets"
    parts += [tag("p", _sentence(timeline, bound_ms), f" In the picture {cell}: choose one to look "
                  "closer.", class_="soft"), _legend(timeline)]  # fmt: skip
    place = f"segments WHERE stream = '{document['stream']}'"
    command = f"medusa changes {document['stream']} --participant {document['home']}"
    return [*parts, same(place, command, "bound#what-is-seen")]


def _sentence(timeline: Document, bound_ms: int | None) -> str:
    answers = timeline["answers"]
    if not answers["known"]:
        return "No delay of a first answer is known here: it is known of streams computed here."
    worst, half = (duration(answers[name] * 1_000) for name in ("delay_ms_max", "delay_ms_half"))
    words = f"The last {answers['known']:,} first answers came at most {worst} after their inputs"
    words += f", half of them within {half}"
    if bound_ms is None:
        return f"{words}; no bound is declared."
    late = answers["late"]
    return f"{words}; " + (f"{late:,} were later than the bound." if late
                           else "none was later than the bound.")  # fmt: skip


def _legend(timeline: Document) -> Markup:
    items = [
        tag("li", tag("span", class_=f"key {kind}"), tag("b", kind), f" {MEANINGS[kind]}")
        for kind, count in timeline["totals"].items() if count
    ]  # fmt: skip
    return tag("ul", *items, class_="states")


STREAMS = Page(
    name=NAME, title="Streams", document=streams_document, render=render,
    values=("stream", "home", "line", "bucket", "span", "from", "to", "q", "after"),
)  # fmt: skip
