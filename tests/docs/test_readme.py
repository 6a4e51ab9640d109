"""The federation of README.md runs as it is typed: four owners, each in a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.base.settings import REPOSITORY
from pipelines.homes.exchange_addresses import read_address
from tests.conftest import folder_on_memory
from tests.contracts.shipped import CONTRACTS, OWNERS
from tests.terminals import install_medusa, terminal
from tests.waiting import until

START_S_MAX, RESULT_S_MAX, END_S_MAX = 300, 600, 60


@pytest.fixture
def repository() -> Iterator[Path]:
    """A folder that is to the reader as the repository: `.venv/bin/medusa` and `contracts/`."""
    folder = folder_on_memory("medusa-readme-")
    install_medusa(folder / ".venv/bin")
    shutil.copytree(CONTRACTS, folder / "contracts")
    yield folder
    until(lambda: is_removed(folder), "what ran in the folder has ended", END_S_MAX)


def is_removed(folder: Path) -> bool:
    """Whether it could be removed: a JVM that ends removes its own files at the same time."""
    with suppress(OSError):
        shutil.rmtree(folder)
    return not folder.exists()


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("MEDUSA_")}
    return {**kept, "PYTHONPATH": str(REPOSITORY)}


@contextmanager
def typed(commands: str, folder: Path) -> Iterator[None]:
    """A terminal in which commands were typed, until the block ends."""
    with terminal(f"{commands}\nwait", folder, environment()) as bash:
        try:
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(bash.pid, signal.SIGTERM)
            bash.wait(60)


def is_served(folder: Path, owner: str) -> bool:
    with suppress(Unavailable):
        directory = folder / ".medusa/owners" / owner / ".medusa"
        return read_address(directory, Participant(owner)).url.startswith("https://localhost:")
    return False


@pytest.mark.long  # four participants, of which one has Spark
def test_four_owners_join_and_delta_has_results(repository: Path) -> None:
    section = (REPOSITORY / "README.md").read_text().partition("\n## A federation\n")[2]
    start, join, read = re.findall(r"```sh\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    variables = start.partition("\n")[0]
    printed = ""

    def run(commands: str) -> str:
        ended = subprocess.run(
            ["bash", "-c", f"set -eo pipefail\n{variables}\n{commands}"], cwd=repository,
            env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def has_results() -> bool:
        nonlocal printed
        printed = run(read)
        return "stable through" in printed and not re.search(r"\b0 rows of", printed)

    with typed(start, repository):
        for owner in OWNERS:
            until(lambda o=owner: is_served(repository, o), f"{owner} is served", START_S_MAX)  # type: ignore[misc]
        assert "delta: applied" in run(join)
        until(has_results, "delta has results", RESULT_S_MAX)
    assert "busy_sources" in printed
