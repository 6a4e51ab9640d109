"""`medusa quality run`: check closed windows of a home's streams, and record certificates.

The exit code is 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core.errors import CheckFailed
from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso, parse_time_us
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.operations.certification import CertificationResult

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
    """Check windows and print what was found; 1 if a check failed."""
    from pipelines.operations.certification import CertificationRequest, certify, document

    from_, to = options.from_, options.to
    request = CertificationRequest(
        participant=options.participant,
        stream=options.stream,
        from_us=None if from_ is None else parse_time_us("--from", from_),
        to_us=None if to is None else parse_time_us("--to", to),
        break_mode=options.break_mode,
        report=options.report,
    )
    result = certify(settings, request)
    if options.json:
        print(json.dumps(document(result), indent=1, allow_nan=False))
    else:
        print(render(result))
    return 0 if result.passed else CheckFailed.exit_code


def render(result: CertificationResult) -> str:
    """The result for people: a line for each stream and law."""
    from pipelines.quality.certificate_text import figures_text

    names = ("stream", "law", "suite", "from", "to", "passed", "found")
    rows = [
        (
            found.certificate.stream,
            found.certificate.law,
            found.certificate.suite.value,
            iso(found.certificate.range.from_us),
            iso(found.certificate.range.to_us),
            "yes" if found.certificate.passed else "NO",
            figures_text(
                found.certificate.suite, found.certificate.figures, found.certificate.engines
            ),
        )
        for found in result.found
    ]
    lines = [table(names, rows), ""]
    for found in result.found:
        for sentence in found.broken:
            certificate = found.certificate
            lines.append(f"{certificate.stream}, {certificate.law}: {sentence}")
    lines += [f"{stream} was not recomputed: {why}" for stream, why in result.not_recomputed]
    failed = sum(not found.certificate.passed for found in result.found)
    checks = counted(len(result.found), "check")
    summary = f"{failed} of {checks} failed" if failed else f"{checks} passed"
    if result.break_mode is not None:
        summary = f"on a copy broken by {result.break_mode}, without a certificate: {summary}"
    lines.append(f"{summary}; pages: {result.page}")
    if result.report is not None:
        lines.append(f"how answers came: {result.report}")
    return "\n".join(lines)
