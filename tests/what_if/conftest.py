"""Two homes on one server in a folder of their own, emptied before each test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import Engine

from medusa_core.names import Participant
from pipelines.catalog.homes import HomeUrls, create_home, drop_home
from pipelines.catalog.postgres import PostgresCatalog
from pipelines.catalog.server import EmbeddedServer
from pipelines.exchange.in_process import Partner
from tests.agreements.building import ALPHA, BETA, Party, a_key
from tests.catalog.homes_under_test import watcher_of, wipe
from tests.rounds.building import Trader


@pytest.fixture(scope="session")
def asking_urls(postgres_server: EmbeddedServer) -> Iterator[dict[Participant, HomeUrls]]:
    """Two homes for the whole run."""
    admin_url = postgres_server.superuser_url()
    yield {name: create_home(admin_url, name, f"medusa_asking_{name}") for name in (ALPHA, BETA)}
    for name in (ALPHA, BETA):
        drop_home(admin_url, f"medusa_asking_{name}")


@pytest.fixture(scope="session")
def asking_watchers(
    postgres_server: EmbeddedServer, asking_urls: dict[Participant, HomeUrls]
) -> Iterator[dict[Participant, Engine]]:
    """A superuser on each."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(watcher_of(postgres_server.superuser_url(urls.database)))
            for name, urls in asking_urls.items()
        }


@pytest.fixture
def pair(
    postgres_server: EmbeddedServer,
    asking_urls: dict[Participant, HomeUrls],
    asking_watchers: dict[Participant, Engine],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Trader, Trader]]:
    """Alpha and beta, who know each other's keys; commands find them in MEDUSA_DIR."""
    record = {"participants": {name: urls.database for name, urls in asking_urls.items()}}
    (tmp_path / "home.json").write_text(json.dumps(record))
    monkeypatch.setenv("MEDUSA_DIR", str(tmp_path))
    admin_url = postgres_server.superuser_url()
    monkeypatch.setenv("MEDUSA_CATALOG_URL", admin_url.replace("/postgres", "/{participant}"))
    partners = {
        name: Partner(reader_url=urls.reader, storage=Path("/nowhere"))
        for name, urls in asking_urls.items()
    }
    found = []
    for name, urls in asking_urls.items():
        wipe(asking_watchers[name], name)
        party = Party(urls, a_key(name), partners)
        for other in asking_urls:
            party.agreements.learn_key(other, a_key(other).public_key, "a test")
        found.append(Trader(party, asking_watchers[name], PostgresCatalog(urls.job, name)))
    alpha, beta = found
    yield alpha, beta
    for trader in found:
        trader.close()
        trader.party.close()
