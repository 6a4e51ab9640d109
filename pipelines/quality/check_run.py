"""A run of the checks: choose windows, read facts, recompute, examine, record certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core.certificates import Certificate
from pipelines.homes.deployed_fragments import fragments_in_force
from pipelines.homes.home import Home
from pipelines.quality.certificate_text import certificate_line
from pipelines.quality.gx_project import Project, project
from pipelines.quality.offline import Caption
from pipelines.quality.planted_faults import broken
from pipelines.quality.spark_boxes import spark_batch
from pipelines.quality.suites import examinations
from pipelines.quality.window_facts import Facts, gather
from pipelines.quality.window_pages import FOLDER
from pipelines.quality.windows import WindowRequest, subjects_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Session = Callable[[Home], "AbstractContextManager[SparkSession]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a check: the certificate, and a sentence for each expectation that failed."""

    certificate: Certificate
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run; the first page; why some streams could not be recomputed."""

    found: tuple[Found, ...]
    not_recomputed: tuple[tuple[str, str], ...]
    page: Path

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(found.certificate.passed for found in self.found)


def run_checks(
    home: Home,
    request: WindowRequest,
    *,
    break_mode: str | None = None,
    session: Session | None = None,
) -> Outcome:
    """Check the requested windows and record a certificate of each check.

    `break_mode` breaks a copy of the facts: its pages are written to a folder apart, and no
    certificate is recorded. `session` opens a Spark session for boxes that DuckDB cannot compute
    (default: a session of its own). Raises Refused if the windows cannot be checked, Unavailable if
    a file is missing or damaged.
    """
    fragments = fragments_in_force(home.catalog)
    subjects = subjects_of(request, home.catalog.lines(), fragments, home.participant)
    with ExitStack() as stack:
        opened = _Opening(home, session or own_session, stack)
        facts = gather(home, subjects, spark_batch(opened), is_default=request.from_us is None)
    folder = home.directory / FOLDER
    if break_mode is not None:
        facts = broken(break_mode, facts)
        folder = folder / "broken" / break_mode
    with project(folder) as pages:
        found = [found for one in facts for found in _examined(pages, home, one)]
        page = pages.finish()
    if break_mode is None:
        found = [_written(home, one) for one in found]
    not_recomputed = tuple((str(one.stream), one.reason) for one in facts if one.reason)
    return Outcome(found=tuple(found), not_recomputed=not_recomputed, page=page)


class _Opening:
    """Opens a Spark session at the first call; a stack ends it."""

    def __init__(self, home: Home, session: Session, stack: ExitStack) -> None:
        self._home, self._session, self._stack = home, session, stack
        self._opened: SparkSession | None = None

    def __call__(self) -> SparkSession:
        if self._opened is None:
            self._opened = self._stack.enter_context(self._session(self._home))
        return self._opened


@contextmanager
def own_session(home: Home) -> Iterator[SparkSession]:
    """A Spark session apart from those of the home's drivers."""
    from pipelines.spark.session import close_session, open_session

    session = open_session(home.directory / FOLDER)
    try:
        yield session
    finally:
        close_session(session)


def _examined(pages: Project, home: Home, facts: Facts) -> Iterator[Found]:
    status = facts.subject.status
    for examination in examinations(facts):
        verdict = pages.examine(examination, home.participant)
        certificate = Certificate(
            stream=facts.stream,
            producer=status.producer,
            version=status.version,
            suite=examination.suite,
            range=facts.window,
            passed=verdict.passed,
            figures=examination.figures,
            engines=examination.engines,
            quarantined=sum(facts.quarantine.values()),
        )
        found = Found(certificate=certificate, broken=verdict.broken)
        sentence = certificate_line(found)
        pages.caption(Caption(suites=verdict.suites, sentence=sentence, passed=verdict.passed))
        yield found


def _written(home: Home, found: Found) -> Found:
    """Record the certificate; the result with its number in the catalog."""
    number = home.catalog.record_certificate(found.certificate)
    return replace(found, certificate=replace(found.certificate, number=number))
