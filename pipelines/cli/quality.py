"""`medusa quality run`: certificates for closed windows, and pages that show them.

What it prints is what stands in the catalog and in the pages: one line for each stream and law. The
exit code is 1 if a check failed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from medusa_core.errors import CheckFailed, Refused
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import counted, iso, parse_time_us
from pipelines.homes.home import Home, chosen_participant, open_home
from pipelines.quality.check_run import Found, Outcome, run_checks
from pipelines.quality.windows import Asked

SOURCE = "source"


def quality_run(
    settings: Settings,
    participant: str | None,
    stream: str | None,
    *,
    from_: str | None,
    to: str | None,
    break_mode: str | None,
    report: Path | None,
    as_json: bool,
) -> int:
    """Check closed windows of a home's streams, print what was found; 1 if something was wrong.

    `report` is where to write the page of answers (None: nowhere).
    """
    if report is not None and break_mode is not None:
        raise Refused("a page shows what is so, not a broken copy: leave --report or --break out")
    asked = Asked(
        stream=stream,
        from_us=None if from_ is None else parse_time_us("--from", from_),
        to_us=None if to is None else parse_time_us("--to", to),
    )
    with open_home(settings, chosen_participant(settings, participant)) as home:
        outcome = run_checks(home, asked, break_mode=break_mode)
        if report is not None:
            _write_report(report, home, asked, outcome)
    if as_json:
        print(json.dumps(_document(outcome, break_mode), indent=1, allow_nan=False))
    else:
        print(_text(outcome, break_mode))
        if report is not None:
            print(f"how answers came: {report}")
    return 0 if outcome.passed else CheckFailed.exit_code


def _write_report(path: Path, home: Home, asked: Asked, outcome: Outcome) -> None:
    """The page of answers, of every stream that was checked and is computed from others."""
    from pipelines.report.answer_figures import read_answers
    from pipelines.report.answer_page import write_answer_page

    computed = {line.stream.name for line in home.catalog.lines() if line.stream.kind != SOURCE}
    names = dict.fromkeys(found.certificate.stream for found in outcome.found)
    streams = [
        read_answers(home, name, asked.from_us, asked.to_us) for name in names if name in computed
    ]
    write_answer_page(path, home=home, streams=streams, docs=outcome.page)


def _text(outcome: Outcome, break_mode: str | None) -> str:
    names = ("stream", "law", "suite", "from", "to", "passed", "found")
    rows = [
        (
            found.certificate.stream,
            found.certificate.law,
            found.certificate.suite.value,
            iso(found.certificate.range.from_us),
            iso(found.certificate.range.to_us),
            "yes" if found.certificate.passed else "NO",
            _short(found),
        )
        for found in outcome.found
    ]
    lines = [table(names, rows), ""]
    for found in outcome.found:
        for sentence in found.broken:
            certificate = found.certificate
            lines.append(f"{certificate.stream}, {certificate.law}: {sentence}")
    lines += [f"{stream} was not computed again: {why}" for stream, why in outcome.not_recomputed]
    failed = sum(not found.certificate.passed for found in outcome.found)
    told = f"{failed} of {counted(len(outcome.found), 'check')} failed" if failed else (
        counted(len(outcome.found), "check") + " passed"
    )  # fmt: skip
    if break_mode is not None:
        told = f"on a copy broken by {break_mode}, of which nothing was written down: {told}"
    return "\n".join([*lines, f"{told}; pages: {outcome.page}"])


def _short(found: Found) -> str:
    """The figures of a check that say most, in a few words."""
    figures: Mapping[str, Any] = found.certificate.figures
    match found.certificate.suite.value:
        case "converged":
            engines = sorted({e.partition(":")[0] for e in found.certificate.engines.values()})
            rows = (
                f"{counted(figures['final_rows'], 'row')} and {figures['recomputed_rows']:,} again"
            )
            return rows + (f" by {' and '.join(engines)}" if engines else "")
        case "complete":
            put_aside = sum(figures["in_quarantine"].values())
            return f"{counted(figures['final_rows'], 'row')}, {put_aside:,} in quarantine"
        case "boundaries":
            return counted(figures["versions"], "version")
    delays = [figures["delay_ms_max_final"], figures["delay_ms_max_tentative"]]
    longest = max((d for d in delays if d is not None), default=None)
    bound = figures["bound_ms"]
    told = "no bound declared" if bound is None else f"bound {bound:,} ms"
    return told if longest is None else f"{longest:,} ms at most, {told}"


def _document(outcome: Outcome, break_mode: str | None) -> Mapping[str, Any]:
    return {
        "passed": outcome.passed,
        "broken_by": break_mode,
        "page": str(outcome.page),
        "not_recomputed": dict(outcome.not_recomputed),
        "certificates": [_certificate(found) for found in outcome.found],
    }


def _certificate(found: Found) -> Mapping[str, Any]:
    certificate = found.certificate
    return {
        "number": certificate.number,
        "stream": certificate.stream,
        "producer": str(certificate.producer),
        "version": certificate.version,
        "law": certificate.law,
        "suite": certificate.suite.value,
        "from": iso(certificate.range.from_us),
        "to": iso(certificate.range.to_us),
        "passed": certificate.passed,
        "broken": list(found.broken),
        "figures": dict(certificate.figures),
        "engines": dict(certificate.engines),
        "quarantined": certificate.quarantined,
    }
