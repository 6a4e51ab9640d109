"""Check closed windows of a home's streams against the laws, and record certificates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.errors import CheckFailed, Refused
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso
from pipelines.homes.home import Home, chosen_participant, open_home
from pipelines.quality.certificate_text import certificate_line
from pipelines.quality.check_run import Found, run_checks
from pipelines.quality.windows import WindowRequest

SOURCE = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificationRequest:
    """Which windows to check.

    `participant`: None for the only one of the folder. `stream`: None for all. `from_us`, `to_us`:
    event times, on the bucket grid, None for all that has closed and is kept. `break_mode`: a fault
    to plant in a copy of the rows; then no certificate is recorded. `report`: the file to which the
    page of answers is written.
    """

    participant: str | None = None
    stream: str | None = None
    from_us: int | None = None
    to_us: int | None = None
    break_mode: str | None = None
    report: Path | None = None

    def check(self) -> None:
        """Refused for a page of the home together with a broken copy of it."""
        if self.report is not None and self.break_mode is not None:
            raise Refused(
                "--report shows the home and --break a broken copy of it: leave one of them out"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificationResult:
    """What each check found.

    `not_recomputed`: streams without an independent recomputation, with the reason. `page`: the
    first page of the checks. `report`: the page of answers, None if none was requested.
    """

    participant: Participant
    found: tuple[Found, ...]
    not_recomputed: tuple[tuple[str, str], ...]
    page: Path
    break_mode: str | None = None
    report: Path | None = None

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(one.certificate.passed for one in self.found)

    def failures(self) -> list[tuple[str, str]]:
        """The law and a sentence for each check that failed."""
        return [
            (one.certificate.law, _failure(one)) for one in self.found if not one.certificate.passed
        ]

    def lines(self) -> list[str]:
        """A sentence for each check, those that failed first."""
        found = sorted(self.found, key=lambda one: one.certificate.passed)
        skipped = (f"{name} was not recomputed: {why}" for name, why in self.not_recomputed)
        return [*map(certificate_line, found), *skipped]

    def check_passed(self) -> None:
        """Raises CheckFailed, naming the laws that were broken."""
        check_no_failures([sentence for _, sentence in self.failures()])


def certify(settings: Settings, request: CertificationRequest) -> CertificationResult:
    """Check windows and record a certificate of each check, whether it passed or not.

    Raises Refused if the windows cannot be checked, Unavailable if a file is missing or damaged.
    """
    request.check()
    window = WindowRequest(stream=request.stream, from_us=request.from_us, to_us=request.to_us)
    with open_home(settings, chosen_participant(settings, request.participant)) as home:
        outcome = run_checks(home, window, break_mode=request.break_mode)
        result = CertificationResult(
            participant=home.participant,
            found=outcome.found,
            not_recomputed=outcome.not_recomputed,
            page=outcome.page,
            break_mode=request.break_mode,
            report=request.report,
        )
        if request.report is not None:
            _write_report(request.report, home, window, result)
    return result


def check_no_failures(failures: list[str]) -> None:
    """Raises CheckFailed with these sentences, if there are any."""
    if failures:
        raise CheckFailed(f"{'; '.join(failures)}: see docs/quality.md, and docs/recover.md")


def document(result: CertificationResult) -> Mapping[str, Any]:
    """The result for JSON."""
    return {
        "passed": result.passed,
        "broken_by": result.break_mode,
        "page": str(result.page),
        "not_recomputed": dict(result.not_recomputed),
        "certificates": [*map(_certificate_document, result.found)],
    }


def _certificate_document(found: Found) -> Mapping[str, Any]:
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


def _failure(found: Found) -> str:
    one = found.certificate
    window = f"from {iso(one.range.from_us)} to {iso(one.range.to_us)}"
    why = "; ".join(found.broken) or "see its page"
    return f"{one.stream} broke {one.law} ({one.suite.value}) {window}: {why}"


def _write_report(
    path: Path, home: Home, window: WindowRequest, result: CertificationResult
) -> None:
    """Write the page of answers, with every checked stream that is computed from others."""
    from pipelines.report.answer_figures import AnswerFigures, read_answers
    from pipelines.report.answer_page import write_answer_page

    computed = {line.stream.name for line in home.catalog.lines() if line.stream.kind != SOURCE}

    def figures() -> Iterator[AnswerFigures]:
        for name in dict.fromkeys(one.certificate.stream for one in result.found):
            if name in computed:
                yield read_answers(home, name, window.from_us, window.to_us)

    write_answer_page(path, home=home, streams=[*figures()], docs=result.page)
