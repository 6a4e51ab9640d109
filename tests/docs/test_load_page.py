"""The SQL of the page on load runs as printed there, by the owner of a home over TCP."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg2
import pytest

from medusa_core.errors import Refused
from medusa_core.market.costs import PiecewiseLinear
from pipelines.catalog.postgres.database_errors import error_of
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home
from tests.catalog import building as a
from tests.docs.pages import page

BLOCK = re.compile(r"(?:<!-- refused: (.*?) -->\n)?```sql\n(.*?)```\n", re.DOTALL)
DATABASE = "medusa_page"


@pytest.fixture
def urls(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    admin_url = postgres_server.superuser_url()
    yield create_home(admin_url, a.ALPHA, DATABASE)
    drop_home(admin_url, DATABASE)


def test_every_statement_of_the_page_does_what_the_page_says(urls: HomeUrls) -> None:
    blocks = BLOCK.findall(page("load"))
    assert len(blocks) >= 5
    owner = psycopg2.connect(urls.owner.replace("+psycopg2", ""))
    owner.autocommit = True
    try:
        for refused, statements in blocks:
            with owner.cursor() as cursor:
                if not refused:
                    cursor.execute(statements)
                    continue
                with pytest.raises(psycopg2.Error) as raised:
                    cursor.execute(statements)
                error = error_of(raised.value)
                assert isinstance(error, Refused)
                assert str(error).startswith(refused)
    finally:
        owner.close()
    catalog = PostgresCatalog(urls.job, a.ALPHA)
    try:
        declared = catalog.declared_cost()
    finally:
        catalog.close()
    assert declared is not None
    assert isinstance(declared.cost, PiecewiseLinear)
    assert (declared.threshold, declared.number) == (1.5, 3)
