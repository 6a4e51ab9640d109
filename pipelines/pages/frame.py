"""The frame of every page: its head, the menu, what is wrong with reading it, and its foot.

The part below `live` is what the script asks for again; a page without a script is whole, too, and
says when it was read.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.pages.dag_elements import dag_link
from pipelines.pages.elements import code, docs_link, moment
from pipelines.pages.page_kinds import Document, Page
from pipelines.report.markup import Markup, join, tag

CSP = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'self'"
)


def whole_page(page: Page, pages: Sequence[Page], live: Markup, *, version: str, root: str,
               viewer: str, read_at: int | None) -> str:  # fmt: skip
    """The text of a page; `version` names the present style and script."""
    menu = [
        tag("li", tag("a", one.title, href=one.name,
                      aria_current="page" if one.name == page.name else None))
        for one in pages
    ]  # fmt: skip
    header = tag(
        "header",
        tag("a", "Medusa", href=pages[0].name, class_="brand"),
        tag("nav", tag("ul", *menu), aria_label="Pages of Medusa"),
        tag("p", tag("span", "as read when the page was opened", id="pulse"),
            tag("span", viewer, class_="viewer", title="logged in to Airflow as"),
            class_="pulse", role="status"),
    )  # fmt: skip
    lost = tag("div", hidden="", id="lost", class_="note bad", role="alert")
    foot = tag("footer", "read at ", moment(read_at, id_="read-at"), class_="soft",
               hidden="" if read_at is None else None)  # fmt: skip
    main = tag("main", tag("h1", page.title), lost, tag("div", live, id="live"),
               foot, id="main")  # fmt: skip
    return _document(page.title, join([_skip(), header, main]), version=version, root=root)


def _skip() -> Markup:
    return tag("a", "Skip to the content", href="#main", class_="skip")


def plain_page(title: str, content: Markup, *, version: str, root: str) -> str:
    """A page without menu and script: documentation, and what cannot be shown."""
    return _document(title, tag("main", content, id="main", class_="text"), version=version,
                     root=root)  # fmt: skip


def _document(title: str, content: Markup, *, version: str, root: str) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{title} · Medusa"),
        tag("link", rel="stylesheet", href=f"{root}/static/page.css?{version}"),
        tag("link", rel="icon", href=f"{root}/static/icon.svg?{version}"),
        tag("script", src=f"{root}/static/page.js?{version}", defer="defer"),
    )
    body = tag("body", content, data_root=root)
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def live_part(rendered: Markup, problems: Sequence[Document], homes: int) -> Markup:
    """What is requested again and again: problems first, then the page."""
    parts = [*map(_problem, problems)]
    if not homes:
        parts.append(_no_homes())
    return join([tag("div", *parts, id="problems"), rendered])


def _problem(one: Document) -> Markup:
    when = [" The figures below are of ", moment(one["read_at_ms"]), "."]
    return tag(
        "div",
        tag("b", f"home of {one['home']}: "),
        one["because"],
        tag("span", ". Since ", moment(one["since_ms"], shows="since"), "."),
        *(when if one["read_at_ms"] else [" Nothing of it is shown."]),
        " ",
        docs_link("alarms#machine-and-catalog", "What to do"),
        class_="note bad",
        role="alert",
    )


def _no_homes() -> Markup:
    return tag(
        "div",
        tag("h2", "There is no home to show"),
        tag("p", "MEDUSA_DIR of this server has no home, or none that is shown to you."),
        tag("ol",
            tag("li", code("medusa init"), " writes a folder of contracts to begin with."),
            tag("li", code("medusa apply --contracts contracts"),
                " makes the homes, or trigger ",
                dag_link("medusa_deploy"), "."),
            tag("li", code("medusa doctor"), " says what this machine lacks."),
            tag("li", "If homes exist: MEDUSA_DIR of Airflow's server must be their folder, and "
                      "MEDUSA_PAGE_HOMES, if it is set, must name you. ",
                docs_link("page#who-sees-what", "Who sees what"), ".")),
        class_="note empty",
    )  # fmt: skip
