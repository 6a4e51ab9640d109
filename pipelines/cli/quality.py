"""`medusa quality run`: certificates for closed windows, and pages that show them.

The command prints one line for each stream and law, as in the catalog and on the pages. The exit
code is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from medusa_core.certificates import Suite
from medusa_core.errors import CheckFailed, Refused
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import counted, iso, parse_time_us
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.quality.windows import Asked

if TYPE_CHECKING:
    from pipelines.homes.home import Home
    from pipelines.quality.check_run import Found, Outcome

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
    """Check closed windows of a home's streams and print the result; 1 if a check failed.

    `report` is the file to which the page of answers is written (None: it is not).
    """
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.quality.check_run import run_checks
    from pipelines.quality.windows import Asked

    if report is not None and break_mode is not None:
        raise Refused(
            "--report shows the home and --break a broken copy of it: leave one of them out"
        )
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
    """Write the page of answers, with every checked stream that is computed from others."""
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
    lines += [f"{stream} was not recomputed: {why}" for stream, why in outcome.not_recomputed]
    failed = sum(not found.certificate.passed for found in outcome.found)
    checks = counted(len(outcome.found), "check")
    result = f"{failed} of {checks} failed" if failed else f"{checks} passed"
    if break_mode is not None:
        result = f"on a copy broken by {break_mode}, without a certificate: {result}"
    return "\n".join([*lines, f"{result}; pages: {outcome.page}"])


def _short(found: Found) -> str:
    """The most important figures of a check, in a few words."""
    figures: Mapping[str, Any] = found.certificate.figures
    match found.certificate.suite:
        case Suite.CONVERGED:
            engines = sorted({e.partition(":")[0] for e in found.certificate.engines.values()})
            rows = (
                f"{counted(figures['final_rows'], 'row')} and {figures['recomputed_rows']:,} again"
            )
            return rows + (f" by {' and '.join(engines)}" if engines else "")
        case Suite.COMPLETE:
            in_quarantine = sum(figures["in_quarantine"].values())
            return f"{counted(figures['final_rows'], 'row')}, {in_quarantine:,} in quarantine"
        case Suite.BOUNDARIES:
            return counted(figures["versions"], "version")
        case Suite.AVAILABILITY:
            delays = [figures["delay_ms_max_final"], figures["delay_ms_max_tentative"]]
            longest = max((d for d in delays if d is not None), default=None)
            bound = figures["bound_ms"]
            text = "no bound declared" if bound is None else f"bound {bound:,} ms"
            return text if longest is None else f"{longest:,} ms at most, {text}"
    assert_never(found.certificate.suite)


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


HELP = "check closed windows against the laws, write certificates"
BREAK_MODES = (
    "lose-row",
    "duplicate-row",
    "change-value",
    "change-type",
    "skip-correction",
    "boundary-back",
    "late",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa quality`."""
    parser.add_argument("what", choices=("run",), metavar="run")
    parser.add_argument("stream", metavar="STREAM", nargs="?", help="which (default: all)")
    begins = "where the window begins, a bucket: ISO 8601 or Unix seconds (default: all kept)"
    parser.add_argument("--from", dest="from_", metavar="TIME", help=begins)
    ends = "where it ends, exclusive (default: as far as it is closed)"
    parser.add_argument("--to", metavar="TIME", help=ends)
    breaks = f"break a copy of it first, to see the check fail: {', '.join(BREAK_MODES)}"
    parser.add_argument(
        "--break", dest="break_mode", choices=BREAK_MODES, metavar="MODE", help=breaks
    )
    page = "write a page there: how late answers came, what was tentative and corrected"
    parser.add_argument("--report", type=Path, metavar="FILE", help=page)
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Check closed windows and write their certificates."""
    return quality_run(
        settings,
        options.participant,
        options.stream,
        from_=options.from_,
        to=options.to,
        break_mode=options.break_mode,
        report=options.report,
        as_json=options.json,
    )
