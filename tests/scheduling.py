"""Which process runs which file of tests: two of them begin with those that use a Spark session.

Each session starts a JVM, which loads and compiles Spark's classes again, so that few processes
should have one. The others begin at the other end of the list, with tests that start processes of
their own.

A process imports only the test files that it runs. xdist has each process collect all tests, which
costs as much CPU as some rooms; here an item of xdist is a whole file (`WholeFile`), and the tests
in it are collected when the file is run. Options that choose from the tests of all files (`--lf`)
and arguments that name single tests need all of them at once: there xdist does as usual.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

from tests.conftest import keep_from_collector

SPARK_PROCESSES = 2
LONGEST = (
    "mutation",
    "spark",
    "federation",
    "airflow",
    "hosting",
    "quality",
    "simulation",
    "docs",
    "networks",
)
"""Folders whose files take longest: begun last, they would keep one process while others rest."""

TOGETHER = {
    "tests/layout/": "syntax trees",
    "tests/docs/test_language.py": "syntax trees",
    "tests/docs/test_glossary.py": "syntax trees",
    "tests/docs/test_environment.py": "syntax trees",
    "tests/partners/": "served homes",
    "tests/airflow/": "Airflow's modules",
}
"""What the files below a path share: one process runs all files that share the same, which makes
the syntax trees of all modules, two served homes, or Airflow, once for them."""

CHOOSING = ("lf", "failedfirst", "newfirst", "stepwise", "collectonly")
"""Options that need the tests of all files before the first one is run."""

FUNCTION = re.compile(r"^(?:async )?def (\w+)\(([^)]*)\)", re.MULTILINE)
USED = re.compile(r"usefixtures\(([^)]*)\)")
IMPORTED = re.compile(r"^from (tests\.[\w.]+\.conftest) import", re.MULTILINE)
WORD = re.compile(r"\w+")
ROOT = Path(__file__).resolve().parent


class TestFile(pytest.File):
    """A file that is collected as one item."""

    __test__ = False

    def collect(self) -> Iterator[WholeFile]:
        yield WholeFile.from_parent(self, name="<file>")


class WholeFile(pytest.Item):
    """All tests of a file."""

    def runtest(self) -> None:
        """Nothing: the tests in it are run."""

    def run_tests(self, nextitem: pytest.Item | None) -> None:
        """Collect the file's tests, choose those that the options name, and run them."""
        session = self.session
        module = pytest.Module.from_parent(self.parent.parent, path=self.path)
        tests = list(session.genitems(module))
        self.ihook.pytest_collection_modifyitems(session=session, config=self.config, items=tests)
        keep_from_collector()
        if not tests:
            runtestprotocol(self, log=False, nextitem=nextitem)  # tears down what was before it
        place = session.items.index(self)
        for test, following in pairwise([*tests, nextitem]):
            session.items[place] = test  # xdist compares it with each report
            self.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
            if session.shouldfail or session.shouldstop:
                break
        session.items[place] = self


def runs_whole_files(config: pytest.Config) -> bool:
    """Whether the processes of this run may collect each file when they run it."""
    chooses = any(config.getoption(option, False) for option in CHOOSING)
    names_tests = any("::" in argument for argument in config.args)
    return config.getvalue("dist") == "loadfile" and not chooses and not names_tests


def sort_by_session(items: list[pytest.Item]) -> None:
    """Files that use the Spark session come first; what takes longest is at both ends."""
    of_spark = {path for path in {item.path for item in items} if uses_spark(path)}

    def place(item: pytest.Item) -> tuple[bool, bool]:
        uses = item.path in of_spark
        is_long = item.path.parent.name in LONGEST
        return not uses, is_long != uses

    items.sort(key=place)


def uses_spark(path: Path) -> bool:
    """Whether a test of the file seems to use the session: parameters are read, not fixtures.

    A fixture that is imported from another file than a conftest is not seen: where a process of the
    others runs such a test, it starts one more JVM.
    """
    known, functions, text = {"spark"}, dict[str, set[str]](), ""
    for file in [*_conftests_of(path), path]:
        text = file.read_text(encoding="utf-8")
        functions = {name: set(WORD.findall(given)) for name, given in FUNCTION.findall(text)}
        while more := {name for name, given in functions.items() if given & known} - known:
            known |= more
    named = set(WORD.findall(" ".join(USED.findall(text))))
    return bool(known & (named | set(functions)))


def _conftests_of(path: Path) -> Iterator[Path]:
    """Those of the folders above, each behind those that it imports from."""
    for folder in reversed(path.parents):
        conftest = folder / "conftest.py"
        if folder.is_relative_to(ROOT) and conftest.exists():
            for module in IMPORTED.findall(conftest.read_text(encoding="utf-8")):
                yield ROOT.parent / f"{module.replace('.', '/')}.py"
            yield conftest


class SparkScheduling(LoadFileScheduling):
    """A file goes to one process as a whole: to two of them from the front, to others from the end.

    The scheduler does not know which files use Spark: each process sorts them alike.
    """

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return next((shared for path, shared in TOGETHER.items() if scope.startswith(path)), scope)

    def _assign_work_unit(self, node: WorkerController) -> None:
        if node not in self.nodes[:SPARK_PROCESSES]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)
