"""What many tests share: one real Postgres and one Spark session for the whole run.

Fixtures import what they need when they are used: the core's tests run with the core alone.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.sweeps import examples, is_file_of_turn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling
    from xdist.workermanage import WorkerController

    from pipelines.catalog.server.embedded_server import EmbeddedServer
    from tests.replaying import Replayer

MEMORY = Path("/dev/shm")

WHOLE_FILES = "whole files"
"""What a process is given by the one that started it: it collects a file when it runs it."""

# A JVM of a test lives for seconds: compiling for speed would cost it more than it gives back. What
# is compiled must have room all the same, or the JVM of the whole run compiles it again and again.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m",
)

FEW = 20
"""The examples that `make test` draws of a property that says no number."""

# How long an example takes, to draw or to run, says more about the machine than about the code.
# Who says no number of examples draws a hundred in `make test-long`.
settings.register_profile(
    "medusa",
    deadline=None,
    max_examples=examples(FEW, 100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("medusa")

# Started in the background of a script, a process ignores Ctrl-C, and so would all that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """A process of several may collect the tests of a file when it runs the file."""
    from tests.scheduling import runs_whole_files

    node.workerinput[WHOLE_FILES] = runs_whole_files(node.config)


def _runs_whole_files(config: pytest.Config) -> bool:
    return bool(getattr(config, "workerinput", {}).get(WHOLE_FILES))


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that another turn of `make test-long` runs."""
    is_file = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_file and not is_file_of_turn(collection_path) else None


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    """Collect a file as one item, if this process may."""
    if not _runs_whole_files(parent.config):
        return None
    from tests.scheduling import TestFile

    return TestFile.from_parent(parent, path=module_path)


def pytest_itemcollected(item: pytest.Item) -> None:
    """A property that says no number of examples is a sweep, if more are drawn than otherwise."""
    drawn = getattr(getattr(item, "obj", None), "_hypothesis_internal_use_settings", None)
    if drawn is not None and drawn.max_examples == settings.default.max_examples != FEW:
        item.add_marker(pytest.mark.sweep)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Sort files for the processes that run them; options choose among tests, not files."""
    if not config.pluginmanager.hasplugin("xdist"):
        return (yield)
    from tests.scheduling import WholeFile, sort_by_session

    files = [item for item in items if isinstance(item, WholeFile)]
    items[:] = [item for item in items if item not in files]
    yield
    items += files
    sort_by_session(items)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run the tests of a file."""
    if not _runs_whole_files(item.config):
        return None
    from tests.scheduling import WholeFile

    if not isinstance(item, WholeFile):
        return None
    item.run_tests(nextitem)
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    """Two processes begin with the files that use Spark (`--dist loadfile`)."""
    from tests.scheduling import SparkScheduling

    return SparkScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_finish() -> None:
    keep_from_collector()


def keep_from_collector() -> None:
    """What is there when tests begin stays: looking through it for garbage again costs much."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """No test was run: to several processes a file without one is as good as any."""
    reporter = session.config.pluginmanager.getplugin("terminalreporter")
    is_over = hasattr(session.config, "workerinput") or session.exitstatus != pytest.ExitCode.OK
    if not is_over and not reporter.stats.keys() - {"warnings", "deselected"}:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def folder_on_memory(prefix: str) -> Path:
    """Make a folder where syncing a file costs nothing, if the machine has such a place."""
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2**30
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY if has_room else None))
    folder.chmod(0o711)  # ours; as root, Postgres runs as another user who has to pass
    return folder


LENT_SERVER: pytest.StashKey[EmbeddedServer] = pytest.StashKey()
"""A server that is running already and outlives the tests: `tests/mutation` forks many runs."""


@pytest.fixture(scope="session")
def postgres_server(pytestconfig: pytest.Config) -> Iterator[EmbeddedServer]:
    """The embedded server, started once; tests make databases in it, or are lent homes."""
    from pipelines.catalog.server.embedded_server import EmbeddedServer

    if LENT_SERVER in pytestconfig.stash:
        yield pytestconfig.stash[LENT_SERVER]
        return
    server = EmbeddedServer(folder_on_memory("medusa-tests-"))
    try:
        with server:
            yield server
    finally:
        server.discard()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the run: two cores, the product's own settings."""
    from pipelines.spark.session import close_session, open_session

    folder = folder_on_memory("medusa-spark-")
    session = open_session(folder, cores=2)
    yield session
    close_session(session)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def interpreted(spark: SparkSession) -> Iterator[None]:
    """Spark evaluates expressions without generated code, except in `make test-long`."""
    from tests.generated_code import generated_in_long

    with generated_in_long(spark):
        yield


@pytest.fixture
def replayer(postgres_server: EmbeddedServer, spark: SparkSession, tmp_path: Path) -> Replayer:
    """Replays in the run's one server and session."""
    from tests.replaying import Replayer

    return Replayer(postgres_server, spark, tmp_path)


@pytest.fixture
def server_folder() -> Iterator[Path]:
    """A folder for an embedded server of the test's own, which is stopped and removed."""
    from pipelines.catalog.server.embedded_server import EmbeddedServer

    base = folder_on_memory("medusa-test-")
    yield base / "a catalog"
    EmbeddedServer(base / "a catalog").discard()
    shutil.rmtree(base)
