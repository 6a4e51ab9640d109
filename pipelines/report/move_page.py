"""The page of a move: load of both participants, owners of buckets, delays and the bill.

One HTML file like the report.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from medusa_core.market.terms import plain
from medusa_core.suggest import counted
from pipelines.base.time_text import duration, iso
from pipelines.report.answer_charts import draw_delays
from pipelines.report.html_file import fact_list, html_page, legend, section, write_whole
from pipelines.report.invoice import HEADING, UNITS
from pipelines.report.markup import Markup, table, tag
from pipelines.report.move_charts import PAYER, PROVIDER, draw_move
from pipelines.report.move_figures import Check, MoveFigures


def write_move_page(path: Path, figures: MoveFigures) -> None:
    """Write the page, replacing what is at `path`; Unavailable if it cannot be written."""
    write_whole(path, move_page(figures))


def move_page(figures: MoveFigures) -> str:
    """The whole text of the page."""
    title = f"Medusa: {figures.fragment} of {figures.payer}, computed by {figures.provider}"
    return html_page(title, _content(figures))


def _content(figures: MoveFigures) -> Iterator[Markup]:
    payer, provider = figures.payer, figures.provider
    yield tag("h1", f"A spike of load: {provider} computes for {payer}, is paid, and gives it back")
    broken = [check for check in figures.checks if not check.holds]
    if broken:
        yield tag("p", tag("strong", "Not as promised:", class_="no"))
        yield tag("ul", *(tag("li", _name_of(check)) for check in broken))
    yield _summary(figures)
    yield section("Load, and who owned the buckets", *_load(figures))
    yield section("How late each result was", *_delays(figures))
    yield section("The bill", *_bill(figures))
    yield section("What was checked", _checks(figures))


def _summary(figures: MoveFigures) -> Markup:
    width_us = figures.answers.line.stream.width_us
    moved_us = sum(
        part.to_us - part.from_us for who, part in figures.owned if who == figures.provider
    )
    most_ms = figures.answers.delay_ms_max
    currency = figures.statements[-1].currency if figures.statements else ""
    return fact_list(
        [
            (f"{moved_us // width_us:,}", f"buckets of {figures.provider}"),
            ("unknown" if most_ms is None else duration(most_ms * 1_000), "greatest delay"),
            (f"{plain(figures.total)} {currency}", f"{figures.payer} owes {figures.provider}"),
            (counted(len(figures.statements), "statement"), "equal in both homes, settled"),
        ]
    )


def _load(figures: MoveFigures) -> Iterator[Markup]:
    yield tag(
        "p",
        "The CPU of each participant's processes, measured from outside, and below it the owner of "
        "each bucket, at its event time. The owner computes the bucket. All rows are the payer's: "
        "it imports those of the provider and commits them as its own.",
    )
    yield legend([(PAYER, str(figures.payer)), (PROVIDER, str(figures.provider))])
    yield draw_move(figures)
    rows = [(o.owner.participant, iso(o.from_us), o.because) for o in figures.owners]
    yield table(("owner", "from bucket", "because"), rows,
                f"the log of owners of {figures.fragment} in {figures.payer}'s home")  # fmt: skip


def _delays(figures: MoveFigures) -> Iterator[Markup]:
    picture = draw_delays(figures.answers, figures.marks)
    if picture is None:
        yield tag("p", "No result of the window is known with its inputs.")
        return
    yield tag(
        "p",
        f"A bar for each bucket of {figures.answers.stream}, at the time at which it was committed "
        f"in {figures.payer}'s home: from when its inputs had arrived there, to the commit.",
    )
    yield picture


def _bill(figures: MoveFigures) -> Iterator[Markup]:
    rows = [
        (
            statement.period, charge.kind.value, charge.subject, iso(charge.from_us),
            iso(charge.to_us), plain(charge.quantity), plain(charge.price), plain(charge.amount),
        )
        for statement in figures.statements
        for charge in statement.charges
    ]  # fmt: skip
    if not rows:
        yield tag("p", "Nothing was billed.")
        return
    first = figures.statements[0]
    yield tag(
        "p",
        f"Under contract {first.contract}, from the records that both homes hold. Each home made "
        "its statements alone.",
    )
    yield table(("period", *HEADING), rows, UNITS.format(first.currency))
    yield tag(
        "p", f"{figures.payer} owes {figures.provider} {plain(figures.total)} {first.currency}."
    )


def _checks(figures: MoveFigures) -> Markup:
    rows = [(_name_of(check), check.found, "yes" if check.holds else "NO")
            for check in figures.checks]  # fmt: skip
    return table(("check", "found", "holds"), rows, "read from both homes after all had ended")


def _name_of(check: Check) -> Markup:
    return tag("span", check.name, class_=None if check.holds else "no")
