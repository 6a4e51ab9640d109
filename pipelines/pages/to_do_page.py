"""The page of things to do: a card for each finding, with the one act that mends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.pages.dag_elements import trigger
from pipelines.pages.elements import VIEWS, code, docs_link, glyph, moment, note
from pipelines.pages.mends import Means
from pipelines.pages.page_kinds import Document, Page
from pipelines.pages.to_do_document import to_do_document
from pipelines.report.markup import Markup, join, tag

LEVELS = {"bad": ("up_failure", "wrong, late or missing"), "warn": ("stabilization", "look at it")}


def render(document: Document) -> Markup:
    """The findings, or that there are none."""
    findings = document["findings"]
    if not findings:
        if not document["homes"]:
            return tag("section", id="findings")
        words = "Nothing asks for a person now: all homes were read, and no alarm is raised."
        return tag("section", note("empty", glyph("stable"), words), id="findings")
    counts = [
        tag("li", glyph(shape), tag("b", f"{_count(document, level):,}"), tag("span", words),
            class_="count" if _count(document, level) else "count none")
        for level, (shape, words) in LEVELS.items()
    ]  # fmt: skip
    cards = [_card(one, may_trigger=document["may_trigger"]) for one in findings]
    cut = document["findings_in_all"] - len(findings)
    return join([
        tag("section", tag("ul", *counts, class_="counts", aria_label="Findings"), id="found"),
        tag("section", *cards, id="findings"),
        tag("section", note("cut", f"{cut:,} more are not shown.") if cut else "", id="cut"),
    ])  # fmt: skip


def _count(document: Document, level: str) -> int:
    bad = int(document["bad"])
    return bad if level == "bad" else int(document["findings_in_all"]) - bad


def _card(one: Mapping[str, Any], *, may_trigger: bool) -> Markup:
    shape, words = LEVELS[one["level"]]
    where = join([tag("b", one["home"]), " "]) if one["home"] else ""
    since = [" since ", moment(one["since_ms"])] if one["since_ms"] else []
    lasts = [" (", moment(one["since_ms"], shows="since"), ")"] if one["since_ms"] else []
    found = tag(
        "div",
        tag("h2", glyph(shape), tag("span", f"{words}: ", class_="hidden"), one["title"]),
        tag("p", where, tag("span", one["subject"], class_="subject"),
            tag("span", *since, *lasts, class_="soft")),
        tag("p", one["cause"], class_="cause"),
    )  # fmt: skip
    mend = tag(
        "div",
        tag("p", one["does"], class_="does"),
        _act(one, may_trigger=may_trigger),
        tag("p",
            tag("span", tag("b", "SQL "), code(f"SELECT * FROM {VIEWS}.{one['view']}")),
            tag("span", tag("b", "docs "),
                docs_link(one["docs"], one["docs"].partition("#")[2].replace("-", " "))),
            class_="same"),
    )  # fmt: skip
    return tag("article", found, mend, class_=f"finding {one['level']}")


def _act(one: Mapping[str, Any], *, may_trigger: bool) -> Markup:
    act = one["act"]
    label = "Mends it" if one["mends"] else "Shows whether it is mended"
    if act["means"] == Means.DAG.value:
        parts = trigger(act["text"], act["form"], may_trigger=may_trigger)
        return tag("div", tag("span", label, class_="label"), *parts, class_="act")
    if act["means"] == Means.SQL.value:
        words = f"in psql, as {act['login']} of {one['home']}"
        return tag("div", tag("span", label, class_="label"), code(act["text"]),
                   tag("span", words, class_="soft"), class_="act")  # fmt: skip
    return tag("div", tag("span", label, class_="label"), code(act["text"]), class_="act")


TO_DO = Page(name="to-do", title="What to do", document=to_do_document, render=render)
