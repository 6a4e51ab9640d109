"""The homes of the command tests, and their reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.report.page import write_page
from tests.cli.conftest import nasty_kept, netmon_kept
from tests.cli.kept import Kept

__all__ = ["nasty_kept", "netmon_kept"]


@pytest.fixture(scope="session")
def netmon_page(netmon_kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of the netmon replay."""
    return written(netmon_kept, tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="session")
def nasty_page(nasty_kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of records that hold markup."""
    return written(nasty_kept, tmp_path_factory.mktemp("report"))


def written(kept: Kept, folder: Path) -> str:
    path = folder / "report.html"
    write_page(path, home=kept.home, network=kept.network, result=kept.result.document())
    return path.read_text(encoding="utf-8")
