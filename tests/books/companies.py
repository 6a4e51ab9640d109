"""The two homes of a trade as a folder in which commands are typed, with their exchange servers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import storage_of
from pipelines.homes.signing_keys import make_key, replace_key
from tests.agreements.homes import Urls
from tests.exchange.served import served_home
from tests.home_pool import record_homes


@contextmanager
def companies(
    folder: Path, urls: Urls, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The homes, with the keys that the parties of a trade have, each served."""
    record_homes(folder, urls)
    for name in urls:
        make_key(folder, name)
        replace_key(folder, name, (f"{name} 0 " + "x" * 32).encode()[:32])
        storage_of(folder, name).mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("MEDUSA_DIR", str(folder))
    monkeypatch.setenv("MEDUSA_CATALOG_URL", server.superuser_url())
    monkeypatch.chdir(folder)
    settings = Settings.from_environment()
    first, second = urls
    with served_home(settings, first), served_home(settings, second):
        yield
