"""The end of the demo's second scene: rows before and after, figures, and whether all was right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from pipelines.base.text_table import facts, table
from pipelines.base.time_text import time_of_day
from pipelines.quality.check_run import Outcome
from pipelines.report.answer_figures import AnswerFigures
from pipelines.report.corrected_rows import RowCorrected

ROWS_SHOWN = 6
IN_TIME = "S6"
"""The law that a machine which is too busy for the bound breaks: then results come late, and are
right. It is reported, and does not make the demo fail."""


def show_verdict(outcome: Outcome, figures: AnswerFigures, say: Callable[[str], None]) -> bool:
    """Print corrected rows and figures; whether all was as promised."""
    rows = figures.corrections
    most = _most_changed(rows.changes)
    at = f"; of bucket {time_of_day(most[0].bucket_us)}:" if most else ""
    say("")
    say(f"Corrected rows: {rows.rows_before:,} before -> {rows.rows_after:,} after{at}")
    say("")
    if most:
        say(table(["", *(c.name for c in rows.columns)], map(_correction_row, most)))
        say("")
    broken = [law.name for law in figures.laws if not law.holds]
    failed = [f.certificate.law for f in outcome.found if not f.certificate.passed]
    say(facts(_figures(outcome, figures, broken, failed)))
    for found in outcome.found:
        for sentence in found.broken:
            say(f"{found.certificate.law}: {sentence}")
    if IN_TIME in (*broken, *failed):
        say("some answers came later than promised: this machine is too busy, or too slow for that")
    return not {*broken, *failed} - {IN_TIME}


def _figures(
    outcome: Outcome, figures: AnswerFigures, broken: Sequence[str], failed: Sequence[str]
) -> Sequence[tuple[str, str]]:
    worst_s, bound_s = (figures.delay_ms_max or 0) / 1_000, (figures.bound_ms or 0) / 1_000
    buckets = f"{figures.buckets_tentative:,} tentative, {figures.buckets_corrected:,} corrected"
    laws = ", ".join(law.name for law in figures.laws if law.holds) + " hold"
    checked = ", ".join(found.certificate.law for found in outcome.found)
    passed = f"{len(outcome.found) - len(failed)} of {len(outcome.found)} passed ({checked})"
    return [
        ("new answers", f"{worst_s:.1f} s late at most, of {bound_s:g} s promised"),
        ("buckets", buckets),
        ("laws", laws + (f"; BROKEN: {', '.join(broken)}" if broken else "")),
        ("certificates", passed),
    ]


def _most_changed(changes: Sequence[RowCorrected]) -> Sequence[RowCorrected]:
    """The first changed rows of the bucket of which most are known."""
    counts = Counter(change.bucket_us for change in changes)
    if not counts:
        return ()
    bucket_us = max(counts, key=lambda at: (counts[at], -at))
    return [change for change in changes if change.bucket_us == bucket_us][:ROWS_SHOWN]


def _correction_row(change: RowCorrected) -> Sequence[object]:
    """What became of a row, and its values; those that changed before and after."""
    if change.before is None or change.after is None:
        return ["new" if change.before is None else "gone", *(change.after or change.before or ())]
    pairs = zip(change.before, change.after, strict=True)
    return ["changed", *(new if old == new else f"{old} -> {new}" for old, new in pairs)]
