"""The page of answers: a stream's answers in time, and their corrections, with the evidence.

One HTML file like the report. Every figure is read from the home that is shown
(`answer_figures.py`). The pages of the checks are named and not linked: the file is sent on alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from medusa_core.suggest import counted
from pipelines.base.time_text import duration, iso, time_of_day
from pipelines.homes.headroom_file import headroom_sentence
from pipelines.homes.home import Home
from pipelines.report.answer_charts import ANSWERS_MAX, draw_band, draw_delays
from pipelines.report.answer_figures import AnswerFigures, Mark
from pipelines.report.computed_streams import computed_by, networks_of
from pipelines.report.html_file import fact_list, html_page, legend, section, write_whole
from pipelines.report.markup import Markup, table, tag
from pipelines.report.network_picture import draw_network
from pipelines.storage.stable_rows import plain

KINDS = (
    ("stable", "stable when it came"),
    ("tentative", "tentative: an input was missing"),
    ("corrected", "corrected: computed again with it, stable"),
)
FIGURES_MAX = 12
SHOWN_AT_ZERO = ("only_in_stream", "only_recomputed", "went_back_us", "beyond_bound")


def write_answer_page(
    path: Path,
    *,
    home: Home,
    streams: Sequence[AnswerFigures],
    docs: Path | None = None,
    marks: Sequence[Mark] = (),
) -> None:
    """Write the page of some streams of a home, replacing what is at `path`.

    `docs` is the first page of the checks (None: there is none), `marks` what else was done and
    when. Raises Unavailable, naming the file, if it cannot be written.
    """
    names = ", ".join(figures.stream for figures in streams)
    title = f"Medusa: answers of {names or 'no stream'}, home of {home.participant}"
    linked = None if docs is None else _relative(docs, path)
    write_whole(path, html_page(title, _content(home, streams, linked, marks)))


def _relative(docs: Path, path: Path) -> str:
    """How the page names another file: they may be moved together."""
    return os.path.relpath(docs.absolute(), path.absolute().parent)


def _content(
    home: Home, streams: Sequence[AnswerFigures], docs: str | None, marks: Sequence[Mark]
) -> Iterator[Markup]:
    yield tag("h1", "Answers in time, and the right answers in the end")
    read = f"All figures are read from the catalog and the storage in {home.directory}."
    yield tag("p", tag("span", read, class_="soft"))
    if not streams:
        yield tag("p", "No requested stream is computed from others: nothing to show.")
    yield from _broken(streams)
    yield section("Where streams are computed", *_computed(home))
    for figures in streams:
        yield section(f"{figures.stream}, by {figures.line.producer}", *_summary(figures))
        yield section("How late each answer came", *_delays(figures, marks))
        yield section("What each bucket was", *_band(figures, marks))
        yield section("What corrections changed", *_corrections(figures))
        yield section("The laws", *_laws(figures))
        yield section("Certificates", *_certificates(figures, docs))


def _broken(streams: Sequence[AnswerFigures]) -> Iterator[Markup]:
    """What does not hold, before everything else; each with where it is looked at."""
    laws = [
        f"{law.name} of {figures.stream}: {law.says}; {law.found}"
        for figures in streams
        for law in figures.laws
        if not law.holds
    ]
    certificates = [
        f"certificate {certificate.suite.value} of {figures.stream} failed: {certificate.law} from "
        f"{iso(certificate.range.from_us)} to {iso(certificate.range.to_us)}"
        for figures in streams
        for certificate in figures.certificates
        if not certificate.passed
    ]
    for found, one, several in (
        (laws, "law is broken", "laws are broken"),
        (certificates, "certificate has failed", "certificates have failed"),
    ):
        if found:
            words = f"1 {one}:" if len(found) == 1 else f"{len(found):,} {several}:"
            yield tag("p", tag("strong", words, class_="no"))
            yield tag("ul", *(tag("li", tag("span", text, class_="no")) for text in found))


def _computed(home: Home) -> Iterator[Markup]:
    """The participants with their fragments, as this home knows them, and its networks."""
    computed = computed_by(home)
    yield table(
        ["participant", "fragment", "writes"],
        [[one.participant, one.fragment, ", ".join(one.streams)] for one in computed],
        f"what this home, {home.participant}, knows of: a partner's fragment by its streams",
    )
    for network in networks_of(home):
        yield tag("h3", f"network {network.name}")
        yield draw_network(network)


def _summary(figures: AnswerFigures) -> Iterator[Markup]:
    most_ms, bound_ms = figures.delay_ms_max, figures.bound_ms
    yield fact_list(
        [
            ("unknown" if most_ms is None else duration(most_ms * 1_000), "greatest delay"),
            ("none" if bound_ms is None else duration(bound_ms * 1_000), "declared bound X"),
            (f"{figures.buckets_tentative:,}", "buckets tentative at first"),
            (f"{figures.buckets_corrected:,}", "of them corrected"),
            (f"{figures.corrections.differing:,}", "rows changed by that"),
        ]
    )
    window, width_us = figures.window, figures.line.stream.width_us
    yield tag(
        "p",
        f"Event time from {iso(window.from_us)} to {iso(window.to_us)}, in buckets of "
        f"{duration(width_us)}. An answer is tentative while an input that it needs is missing; it "
        "is corrected once the input is back, and what is stable never changes.",
    )
    yield from _headroom(figures)


def _headroom(figures: AnswerFigures) -> Iterator[Markup]:
    """What the bound leaves now: a warning where that is nothing."""
    fact = figures.headroom
    if fact is None:
        return
    if not fact["is_kept"]:
        yield tag("p", tag("strong", headroom_sentence(fact), class_="no"), ".")
        return
    needed, waits = (duration(fact[name] * 1_000) for name in ("needed_ms", "wait_ms"))
    yield tag(
        "p",
        f"Now an answer without an input takes up to {needed}, and a missing input is waited for "
        f"at most {waits}.",
    )


def _delays(figures: AnswerFigures, marks: Sequence[Mark]) -> Iterator[Markup]:
    picture = draw_delays(figures, marks)
    if picture is None:
        yield tag("p", "No answer of the window is known with its inputs.")
        return
    yield tag(
        "p",
        "A bar for each first answer, at the time at which it came, as long as it was late: from "
        "when the first of the inputs that it does not lack had arrived, to the commit. The clock "
        "is the home's.",
    )
    yield legend(KINDS[:2])
    yield picture
    yield from _left_out(figures)


def _left_out(figures: AnswerFigures) -> Iterator[Markup]:
    more = len(figures.answers) - ANSWERS_MAX
    if more > 0:
        text = f"Drawn are the newest {ANSWERS_MAX:,} answers; all figures count the {more:,} older"
        yield tag("p", f"{text} ones too.", class_="soft")


def _band(figures: AnswerFigures, marks: Sequence[Mark]) -> Iterator[Markup]:
    picture = draw_band(figures, marks)
    if picture is None:
        yield tag("p", "There is no answer in the window.")
        return
    yield tag(
        "p",
        "A stripe for each bucket of event time, from top to bottom; from left to right the home's "
        "clock. A stripe begins when the bucket was answered first.",
    )
    yield legend(KINDS)
    yield picture
    changes = [
        [time_of_day((c.changed_at_ms or 0) * 1_000)[:12], c.state.value, c.because]
        for c in figures.transitions
    ]
    if changes:
        yield table(["at", "state", "because"], changes, "the fragment's changes of state")


def _corrections(figures: AnswerFigures) -> Iterator[Markup]:
    found = figures.corrections
    if not figures.buckets_corrected:
        yield tag("p", "Nothing was corrected.")
        return
    text = (
        f"The corrected buckets had {counted(found.rows_before, 'row')} before and have "
        f"{found.rows_after:,} now; {counted(found.differing, 'row')} came, went or changed."
    )
    if not found.is_whole:
        text = f"Of the first corrections: {text}"
    yield tag("p", text)
    if not found.changes:
        return
    names = [c.name for c in found.columns]
    rows = []
    for change in found.changes:
        bucket = iso(change.bucket_us)
        if change.before is not None:
            rows.append([bucket, "before", *map(plain, change.before)])
        if change.after is not None:
            what = "new" if change.before is None else "after"
            rows.append(["" if change.before else bucket, what, *map(plain, change.after)])
        else:
            rows.append(
                ["", "after", *[tag("span", "gone", class_="soft")], *[""] * len(names[1:])]
            )
    yield table(["bucket", "", *names], rows,
                f"the first {len(found.changes):,} of {found.differing:,}")  # fmt: skip


def _laws(figures: AnswerFigures) -> Iterator[Markup]:
    rows = [[law.name, law.says, law.found, _yes(law.holds)] for law in figures.laws]
    yield table(["law", "it says", "found", "holds"], rows,
                "read off every row that the stream has or had in this window")  # fmt: skip


def _yes(holds: bool) -> Markup:
    return tag("span", "yes") if holds else tag("span", "NO", class_="no")


def _certificates(figures: AnswerFigures, docs: str | None) -> Iterator[Markup]:
    if not figures.certificates:
        command = tag("code", "medusa quality run")
        yield tag("p", "No check has looked at this window yet: ", command, " does.")
        return
    rows = [
        [
            certificate.suite.value,
            certificate.law,
            _yes(certificate.passed),
            f"{iso(certificate.range.from_us)} to {iso(certificate.range.to_us)}",
            _figures(certificate.figures),
            ", ".join(sorted({e.partition(":")[0] for e in certificate.engines.values()})),
            "" if certificate.number is None else str(certificate.number),
        ]
        for certificate in figures.certificates
    ]
    yield table(["suite", "law", "passed", "window", "figures", "computed again by", "number"],
                rows, "the newest certificate of each suite, as the catalog has it")  # fmt: skip
    if docs is not None:
        yield tag(
            "p",
            "All checks, as Great Expectations' Data Docs: the page ",
            tag("code", docs),
            ", seen from the folder of this file. It is not part of this file.",
        )


def _figures(figures: Mapping[str, object]) -> str:
    """The figures of a certificate in a line; what is empty says nothing."""
    shown = [
        _figure(name, value)
        for name, value in figures.items()
        if value not in (None, {}, 0) or name in SHOWN_AT_ZERO
    ]
    return ", ".join(shown[:FIGURES_MAX])


def _figure(name: str, value: object) -> str:
    words = name.replace("_", " ")
    if isinstance(value, int):
        for ending, unit_us in ((" us", 1), (" ms", 1_000)):
            head, found, tail = f"{words} ".partition(f"{ending} ")
            if found:
                text = duration(value * unit_us) if value else "0 s"
                return " ".join(f"{head} {tail}{text}".split())
    return f"{words} {value if isinstance(value, str) else json.dumps(value)}"
