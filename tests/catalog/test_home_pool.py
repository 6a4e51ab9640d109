"""A home that is lent to a test is as if it had just been made."""

from __future__ import annotations

from pathlib import Path

from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.homes.home import known_homes, open_home
from tests.catalog import building as a
from tests.catalog.homes_under_test import rows_of, watcher_of
from tests.home_pool import home_pool

BETA = Participant("beta")


def test_who_is_lent_a_home_finds_the_rows_of_a_new_one(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    def rows_in(settings: Settings, participant: Participant) -> dict[str, list[object]]:
        database = known_homes(settings.directory)[participant]
        with watcher_of(postgres_server.superuser_url(database)) as watcher:
            return rows_of(watcher)

    with home_pool(postgres_server, tmp_path / "first", BETA) as settings:
        database = known_homes(settings.directory)[BETA]
        as_made = rows_in(settings, BETA)
    with home_pool(postgres_server, tmp_path / "second", a.ALPHA) as settings:
        assert known_homes(settings.directory)[a.ALPHA] == database
        with open_home(settings, a.ALPHA) as home:
            home.catalog.deploy(a.a_deployment())
        lived_in = rows_in(settings, a.ALPHA)
        assert lived_in["medusa.stream"]
        assert lived_in["medusa.home"] != as_made["medusa.home"]
    with home_pool(postgres_server, tmp_path / "third", BETA) as settings:
        assert known_homes(settings.directory)[BETA] == database
        assert rows_in(settings, BETA) == as_made


def test_a_session_that_was_left_in_a_home_does_not_hold_up_the_next(
    postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    with home_pool(postgres_server, tmp_path / "first", BETA) as settings:
        database = known_homes(settings.directory)[BETA]
    with (
        watcher_of(postgres_server.superuser_url(database)) as left,
        left.execution_options(isolation_level="READ COMMITTED").connect() as connection,
    ):
        connection.exec_driver_sql("LOCK TABLE medusa.stream")
        with home_pool(postgres_server, tmp_path / "second", BETA) as settings:
            assert known_homes(settings.directory)[BETA] == database
        connection.invalidate()
