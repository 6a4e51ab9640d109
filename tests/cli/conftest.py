"""Two replays, kept open for all tests of the reading commands."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from medusa_core.knowledge import Limits
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.cli.main import main
from pipelines.language.load import load_network
from pipelines.sources.generated_files import write_generated
from tests.cli.kept import Kept, kept_replay, nasty_csv, nasty_network
from tests.cli.watched import Watched, watched_homes
from tests.conftest import folder_on_memory


@pytest.fixture(scope="session")
def netmon_kept(spark: Any) -> Iterator[Kept]:
    """netmon over 6,000 generated connections, in several steps."""
    folder = folder_on_memory("medusa-kept-")
    inputs = write_generated(folder / "input", seed=3, records=6_000, files=2, format="csv")
    limits = Limits(records_per_step_max=2_500)
    with kept_replay(folder, load_network("netmon"), inputs, spark, limits) as kept:
        yield kept
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def nasty_kept(spark: Any) -> Iterator[Kept]:
    """Records that hold markup and terminal escapes, and one that is none."""
    folder = folder_on_memory("medusa-kept-")
    inputs = [nasty_csv(folder / "nasty.csv")]
    with kept_replay(folder, nasty_network, inputs, spark, Limits()) as kept:
        yield kept
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def watched(
    postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """Two homes in the middle of their work."""
    with watched_homes(postgres_server, tmp_path_factory.mktemp("watched")) as homes:
        yield homes


@dataclass(frozen=True)
class Ran:
    """What a command printed and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def medusa(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ran]:
    """Run a command in this process against a kept home."""

    def run(kept: Kept, *arguments: str) -> Ran:
        monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
        monkeypatch.setenv("MEDUSA_DIR", str(kept.directory))
        code = main(arguments)
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run
