"""A large federation: what is read and what is sent does not grow with it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bench.page import fill
from pipelines.base.settings import Settings
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import drop_home
from pipelines.homes.home import known_homes, make_home
from pipelines.pages.federation_document import ROWS_MAX
from pipelines.pages.federation_figures import read_federation
from pipelines.pages.page_home import PageHome
from pipelines.pages.to_do_figures import read_to_do
from tests.pages.pages_under_test import ALPHA, Shown

STREAMS, PARTICIPANTS = 600, 40
STATEMENTS_MAX = 14
BYTES_MAX = 300_000


@pytest.fixture(scope="module")
def large(
    postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shown]:
    """A home with many streams, participants and segments."""
    folder: Path = tmp_path_factory.mktemp("large")
    settings = Settings.from_environment(
        {"MEDUSA_DIR": str(folder), "MEDUSA_CATALOG_URL": postgres_server.superuser_url()}
    )
    with make_home(settings, ALPHA, keep=True):
        pass
    database = known_homes(folder)[ALPHA]
    numbers = {"streams": STREAMS, "participants": PARTICIPANTS, "segments": 6_000}
    fill(postgres_server, database, argparse.Namespace(**numbers))
    made = Shown(settings, postgres_server)
    with closing(made.readings):
        yield made
    drop_home(str(settings.catalog_url), database)


def test_the_number_of_statements_does_not_grow_with_the_federation(large: Shown) -> None:
    with closing(PageHome(large.settings, ALPHA)) as home, home.snapshot() as snapshot:
        figures = read_federation(snapshot)
        assert len(figures.fragments) == STREAMS
        read_to_do(snapshot)
        assert snapshot.statements <= STATEMENTS_MAX


@pytest.mark.parametrize("page", ["federation", "to-do"])
def test_what_is_sent_is_bounded_and_says_how_much_there_is(large: Shown, page: str) -> None:
    text, document = large.part(page), large.document(f"{page}.json")
    assert len(text) < BYTES_MAX
    if page == "federation":
        assert len(document["fragments"]) == len(document["streams"]) == ROWS_MAX
        assert document["fragments_in_all"] == document["streams_in_all"] == STREAMS
        assert f"{ROWS_MAX} of {STREAMS} are shown" in text
        assert document["fragments"][0]["state"] == "up_failure", "the worst come first"


def test_many_participants_are_cards_and_the_chosen_one_is_a_picture(large: Shown) -> None:
    whole = large.part("federation")
    assert whole.count('class="card elsewhere"') == PARTICIPANTS
    assert 'class="lane' not in whole
    chosen = large.part("federation?participant=p2")
    assert 'class="lane' in chosen
    assert "Show all" in chosen
