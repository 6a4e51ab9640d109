"""Great Expectations: one project in a folder, in which suites are run and Data Docs are written.

The library is imported late, since that takes seconds. GX keeps plain files without locks, so one
process at a time works in a folder. The number of results is bounded, since each run rewrites the
index.
"""

from __future__ import annotations

import logging
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from medusa_core.errors import Unavailable
from medusa_core.suggest import counted
from pipelines.base.files import FileLock
from pipelines.quality.offline import Caption, make_offline
from pipelines.quality.suites import TITLES, Examination, Expected, Table
from pipelines.quality.window_pages import SITE, result_name, window_name

RUNS_KEPT = 50
_RESULTS = Path("gx/uncommitted/validations")
_VARIABLES = Path("gx/uncommitted/config_variables.yml")
"""Holds no setting of ours; while it exists, GX parses it at each access to a setting."""
_LEFT_OUT = ("pyspark.sql.connect", "pyspark.ml")
"""Of Spark, which examines nothing here: to import its remote client ends programs."""
_ON_FIRST_USE = ("altair", "scipy.stats")
"""For expectations about distributions, which no suite has: a third of the time of the import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of one examination, with a sentence for each expectation that failed.

    `suites`: the names of its suites in GX, one for each table.
    """

    passed: bool
    broken: tuple[str, ...]
    suites: tuple[str, ...]


def great_expectations() -> Any:
    """The library, silenced, without the modules that it imports and that no suite uses."""
    logging.getLogger("great_expectations").setLevel(logging.ERROR)  # it logs while it is imported
    with warnings.catch_warnings(), _unused_modules():
        warnings.simplefilter("ignore")
        import great_expectations as gx
    return gx


@contextmanager
def _unused_modules() -> Iterator[None]:
    """Import none of them in this block, but those that are imported already."""
    missing: dict[str, Any] = dict.fromkeys(_LEFT_OUT)  # None: Python raises ImportError
    replaced = {
        name: module
        for name, module in (missing | {name: _deferred(name) for name in _ON_FIRST_USE}).items()
        if name not in sys.modules
    }
    sys.modules.update(replaced)
    try:
        yield
    finally:
        for name in replaced:
            del sys.modules[name]


def _deferred(name: str) -> ModuleType:
    """A module that imports the named one when an attribute of it is read."""
    module = ModuleType(name)
    vars(module)["__getattr__"] = lambda attribute: getattr(import_module(name), attribute)
    return module


@contextmanager
def project(folder: Path) -> Iterator[Project]:
    """Lock and open the project of a folder; Unavailable if another process has locked it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "lock")
    except BlockingIOError:
        raise Unavailable(f"another check writes into {folder}: wait for it to end") from None
    except OSError as error:
        raise Unavailable(f"folder {folder} cannot be written ({error.strerror})") from error
    with lock:
        yield Project(folder)


class Project:
    """Suites, results and Data Docs in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._gx = great_expectations()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _forget_old(folder / _RESULTS)
            self._context = self._gx.get_context(mode="file", project_root_dir=str(folder))
            (folder / _VARIABLES).unlink(missing_ok=True)
            self._context.variables.progress_bars = {"globally": False}
            self._source = self._context.data_sources.add_or_update_pandas(name="medusa")
        # GX writes all of its settings at each change of an asset: once, at the end, is enough.
        self._save_settings = self._context._save_project_config
        self._context._save_project_config = lambda: None
        self._written: list[Any] = []
        self._captions: list[Caption] = []
        self._known = {asset.name for asset in self._source.assets}

    @property
    def index(self) -> Path:
        """The first page of the Data Docs."""
        return self._folder / SITE / "index.html"

    def examine(self, examination: Examination, whose: str) -> Verdict:
        """Check the expectations about the tables."""
        broken: list[str] = []
        suites: list[str] = []
        for table in examination.tables:
            stream, suite = str(examination.facts.stream), examination.suite.value
            name = result_name(whose, stream, suite, table.name)
            result = self._run(name, examination, table)
            suites.append(name)
            broken += _broken(result)
        return Verdict(passed=not broken, broken=tuple(broken), suites=tuple(suites))

    def caption(self, caption: Caption) -> None:
        """Begin the pages of these suites with a sentence."""
        self._captions.append(caption)

    def _run(self, name: str, examination: Examination, table: Table) -> Any:
        gx = self._gx
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            suite = gx.ExpectationSuite(
                name=name,
                expectations=[_expectation(gx, e) for e in table.expected],
                meta={"notes": {"format": "markdown", "content": [TITLES[examination.suite]]}},
            )
            if name in self._known:
                asset = self._source.get_asset(name)
                whole = asset.get_batch_definition("whole")
            else:
                asset = self._source.add_dataframe_asset(name=name)
                whole = asset.add_batch_definition_whole_dataframe("whole")
                self._known.add(name)
            definition = self._context.validation_definitions.add_or_update(
                gx.ValidationDefinition(name=name, data=whole, suite=suite)
            )
            run = gx.RunIdentifier(run_name=window_name(examination.facts.window))
            result = definition.run(
                batch_parameters={"dataframe": table.rows},
                result_format={"result_format": "COMPLETE", "partial_unexpected_count": 20},
                run_id=run,
            )
            self._written += _pages(name, run, result)
            return result

    def finish(self) -> Path:
        """Write the pages of what was examined; the path of the first page."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._save_settings()
            self._context.build_data_docs(resource_identifiers=self._written or None)
        make_offline(self._folder / SITE, self._captions)
        return self.index


def _pages(name: str, run: Any, result: Any) -> list[Any]:
    """What names the pages of a result and of its suite, both called by one name."""
    from great_expectations.data_context.types.resource_identifiers import (
        ExpectationSuiteIdentifier,
        ValidationResultIdentifier,
    )

    suite = ExpectationSuiteIdentifier(name=name)
    of_result = ValidationResultIdentifier(
        expectation_suite_identifier=suite, run_id=run, batch_identifier=result.batch_id
    )
    return [of_result, suite]


def _expectation(gx: Any, expected: Expected) -> Any:
    kind = getattr(gx.expectations, expected.kind)
    return kind(**expected.arguments, description=expected.message)


def _broken(result: Any) -> Iterator[str]:
    """The texts of the expectations that failed."""
    for one in result.results:
        if not one.success:
            config = one.expectation_config
            text = getattr(config, "description", None) or config.type
            found = dict(one.result or {})
            number = found.get("unexpected_count")
            yield f"{text}: failed in {counted(number, 'case')}" if number else f"{text}: failed"


def _forget_old(results: Path) -> None:
    """Remove the results of old runs."""
    runs: dict[str, list[Path]] = {}
    for path in results.glob("*/*/*"):
        if path.is_dir():
            runs.setdefault(str(path.parent), []).append(path)
    for found in runs.values():
        for path in sorted(found, key=lambda p: p.stat().st_mtime)[:-RUNS_KEPT]:
            shutil.rmtree(path, ignore_errors=True)
