"""Commands as the attacker starts them: in this process, in time, with all that they print."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.cli.main import main
from tests.cli.watched import Watched, watched_homes
from tests.hostile.judging import SECONDS_MAX, fit_for_a_terminal, in_time


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    output: str
    errors: str


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Run a command in a folder of its own; what it prints is fit to be shown."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path / "home"))
    for name in ("MEDUSA_CATALOG_URL", "MEDUSA_METRICS_PORT"):
        monkeypatch.delenv(name, raising=False)

    def once(*words: str, seconds_max: int = SECONDS_MAX) -> Ended:
        with in_time(seconds_max):
            try:
                code = main(list(words))
            except SystemExit as ending:  # argparse's own way
                code = int(ending.code or 0)
        printed = capsys.readouterr()
        ended = Ended(code, printed.out, printed.err)
        for text in (ended.output, ended.errors):
            fit_for_a_terminal(text)
            assert "Traceback" not in text
        return ended

    return once


@pytest.fixture(scope="module")
def homes(
    postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """alpha: `src` has landed and promised four buckets; four records are in quarantine."""
    with watched_homes(postgres_server, tmp_path_factory.mktemp("quarantine")) as found:
        yield found


@pytest.fixture
def on(
    homes: Watched, run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ended]:
    """Run a command on alpha's home."""
    for name, value in homes.environment().items():
        monkeypatch.setenv(name, value)

    def once(*words: str) -> Ended:
        return run(*words, "--participant", "alpha")

    return once
