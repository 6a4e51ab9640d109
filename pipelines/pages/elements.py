"""The small parts of pages: times, states, commands, tables, places that say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipelines.base.time_text import iso
from pipelines.pages.page_address import with_values
from pipelines.report.markup import Markup, join, tag

GLYPHS = {
    "stable": "M6 1a5 5 0 1 0 0.01 0Z",
    "up_failure": "M6 0.5L11.7 11H0.3Z",
    "stabilization": "M6 0L12 6L6 12L0 6Z",
    "stopped": "M1 1H11V11H1Z",
    "unknown": "M6 1a5 5 0 1 0 0.01 0ZM6 3a3 3 0 1 1 -0.01 0Z",
}
"""A shape for each state in a field of 12 by 12: colour alone says nothing."""

WORDS = {
    "stable": "STABLE",
    "up_failure": "UP_FAILURE",
    "stabilization": "STABILIZATION",
    "stopped": "stopped",
    "unknown": "not known",
}
MEANINGS = {
    "stable": "all results are final",
    "up_failure": "the newest results lack an input and are tentative",
    "stabilization": "new results are final, corrections are owed",
    "stopped": "no driver has the lease: nothing is computed",
    "unknown": "another's home, known only through the exchange",
}
VIEWS = "medusa_api"
WORST_FIRST = ("up_failure", "stopped", "stabilization", "unknown", "stable")


NOTHING = tag("span", "–", class_="none", title="nothing")
"""What a cell without a value shows; where tables are cards it is left out."""


def moment(at_ms: int | None, *, shows: str = "time", id_: str | None = None) -> Markup:
    """A time, in the zone of the browser; without a script, and when pointed at, in UTC.

    With `shows` `since` it is how long ago, counted on by the script.
    """
    if at_ms is None:
        return NOTHING
    utc = iso(at_ms // 1_000 * 1_000_000)
    words = utc.replace("T", " ").replace("Z", " UTC")
    return tag("time", words, datetime=utc, title=words, data_shows=shows, id_=id_)


def event_time(time_us: int | None) -> Markup:
    """A time of events; the end of time as words."""
    if time_us is None:
        return NOTHING
    if not -(10**15) < time_us < 4 * 10**15:
        return tag("span", iso(time_us))
    return moment(time_us // 1_000)


def glyph(state: str) -> Markup:
    """The shape of a state."""
    return tag(
        "svg", tag("path", d=GLYPHS[state], fill_rule="evenodd"), viewBox="0 0 12 12",
        class_=f"glyph {state}", aria_hidden="true",
    )  # fmt: skip


def state_mark(state: str) -> Markup:
    """A state by shape, word and colour."""
    return mark(state, WORDS[state], title=MEANINGS[state])


def mark(shape: str, words: str, *, title: str | None = None) -> Markup:
    """Words behind the shape of a state."""
    return tag("span", glyph(shape), words, class_="state-mark", title=title)


def legend() -> Markup:
    """All states with their meaning."""
    items = [
        tag("li", glyph(state), tag("b", WORDS[state]), f" {MEANINGS[state]}") for state in GLYPHS
    ]
    return tag("ul", *items, class_="states")


def code(words: object) -> Markup:
    """Something to type, with a button of the script that copies it."""
    return tag("code", words, class_="copy")


def same(view: str, command: str, docs: str) -> Markup:
    """The view of `medusa_api`, the command and the section of the docs (`page#section`) that say
    the same."""
    page, _, part = docs.partition("#")
    words = page if not part else f"{page}: {part.replace('-', ' ')}"
    return tag(
        "p",
        tag("span", tag("b", "SQL "), code(f"SELECT * FROM {VIEWS}.{view}")),
        tag("span", tag("b", "command "), code(command)),
        tag("span", tag("b", "docs "), docs_link(docs, words)),
        class_="same",
    )


def docs_link(docs: str, words: object) -> Markup:
    """A link to a section of the documentation, which the site serves itself."""
    page, _, part = docs.partition("#")
    return tag("a", words, href=f"docs/{page}" + (f"#{part}" if part else ""))


def stream_link(home: str, stream: str) -> Markup:
    """To a stream's page in a home."""
    return tag("a", tag("code", stream), href=with_values("streams", home=home, stream=stream))


def contract_link(name: str) -> Markup:
    """To what is about one contract."""
    return tag("a", name, href=with_values("contracts", contract=name))


def cut_list(document: Mapping[str, Any], name: str) -> Markup:
    """That a list of a document goes on, where it does."""
    if not document[f"{name}_go_on"]:
        return Markup("")
    shown = len(document[name])
    return note("cut", f"The first {shown:,} are shown; the command and SQL below list all.")


Column = tuple[str, str]
"""Heading and CSS class (empty, `number`, `main`)."""


def data_table(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], caption: str, *, id_: str
) -> Markup:
    """A table that becomes a list of cards where the window is narrow."""
    head = [tag("th", name, scope="col", class_=kind or None) for name, kind in columns]
    body = [
        tag("tr", *(
            tag("td", tag("div", value), data_label=name, class_=kind or None)
            for value, (name, kind) in zip(row, columns, strict=True)
        ))
        for row in rows
    ]  # fmt: skip
    whole = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        class_="data",
    )
    return tag("div", whole, class_="wide", id=id_, tabindex="0", role="region", aria_label=caption)


def comma_list(values: Iterable[object], *, shown_max: int = 6) -> Markup:
    """Names with commas; what is beyond the limit as a number."""
    every = list(values)
    if not every:
        return NOTHING
    shown = join(every[:shown_max], ", ")
    return (
        shown if len(every) <= shown_max else join([shown, f" and {len(every) - shown_max:,} more"])
    )


def note(kind: str, *words: object) -> Markup:
    """A highlighted sentence: `bad`, `warn` or `empty`."""
    return tag("p", *words, class_=f"note {kind}", role="status" if kind != "empty" else None)
