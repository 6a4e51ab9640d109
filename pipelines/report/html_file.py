"""One HTML file that opens anywhere, with nothing but itself: its head, its style, its writing.

No script, no request, no font from elsewhere; light or dark as the reader's screen is.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from medusa_core.errors import Unavailable
from pipelines.base.files import write_atomically
from pipelines.report.markup import Markup, tag

CSS = Path(__file__).with_name("page.css")


def html_page(title: str, content: Iterable[Markup]) -> str:
    """The whole text of a page."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # Whatever slipped through could still load nothing.
        tag("meta", http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'"),
        tag("title", title),
        tag("style", Markup(CSS.read_text(encoding="utf-8"))),
    )  # fmt: skip
    body = tag("body", tag("main", *content))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def section(heading: str, *content: Markup) -> Markup:
    """A part of a page under its heading."""
    return tag("section", tag("h2", heading), *content)


def fact_list(facts: Iterable[tuple[str, str]]) -> Markup:
    """Figures in a row, each with what it counts."""
    items = (tag("li", tag("b", n), tag("span", what)) for n, what in facts)
    return tag("ul", *items, class_="facts")


def legend(entries: Iterable[tuple[str, str]]) -> Markup:
    """Swatches by CSS class, each with its words."""
    swatches = [
        tag("li", tag("svg", tag("rect", width="10", height="10", class_=kind),
                      viewBox="0 0 10 10", aria_hidden="true"), words)
        for kind, words in entries
    ]  # fmt: skip
    return tag("ul", *swatches, class_="legend")


def write_whole(path: Path, text: str) -> None:
    """Write a file, replacing what is at `path` in one piece.

    Raises Unavailable, naming the file, if it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text, durable=False)
    except OSError as error:
        raise Unavailable(
            f"report {path} cannot be written ({error.strerror}): name another file"
        ) from error
