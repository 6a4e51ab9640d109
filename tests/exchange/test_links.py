"""Links as a home stores them: what its server and its driver count, and what status shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from sqlalchemy import text

from medusa_core.errors import MedusaError, Refused, Unavailable
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Producer
from pipelines.catalog.partner_records import LinkReport, LinkState, PartnerLinks
from pipelines.catalog.postgres.exchange_home import ExchangeHome
from pipelines.catalog.postgres.home_database import catalog_engine
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls
from pipelines.exchange.link_recorder import LinkRecorder
from pipelines.watching.link_facts import broken_link, link_facts
from tests.exchange.published_home import ALPHA, BETA, GAMMA, ROWS, published_home
from tests.exchange.served import LIMITS, SUMS_FILE, address_of, asking, served
from tests.sweeps import long_but

SUMS = Producer(ALPHA)


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("storage")


@pytest.fixture
def urls(postgres_server: EmbeddedServer, storage: Path) -> Iterator[HomeUrls]:
    with published_home(postgres_server, storage) as found:
        yield found


@pytest.fixture
def home(urls: HomeUrls) -> Iterator[ExchangeHome]:
    with closing(ExchangeHome(urls.exchange, ALPHA)) as found:
        yield found


@pytest.fixture
def catalog(urls: HomeUrls) -> Iterator[PostgresCatalog]:
    with closing(PostgresCatalog(urls.job, ALPHA)) as found:
        yield found


def a_report(partner: Participant = BETA, state: LinkState = LinkState.REACHABLE,
             **given: object) -> LinkReport:  # fmt: skip
    fields = {
        "state_ago_ms": 0, "error": None, "failed_ago_ms": None, "answered_ago_ms": 10,
        "requests": 1, "failures": 0, "files": 0, "bytes_received": 100, "bytes_sent": 10,
        "answer_ms": 4, "answer_ms_max": 9, "delay_ms": None, "delay_ms_max": None,
    } | given  # fmt: skip
    return LinkReport(partner=partner, state=state, **fields)  # type: ignore[arg-type]


def links_with(catalog: PostgresCatalog, partner: Participant) -> PartnerLinks:
    (found,) = [one for one in catalog.links() if one.partner == partner]
    return found


def test_both_sides_count_the_same_of_what_passes(
    home: ExchangeHome, urls: HomeUrls, storage: Path, tmp_path: Path
) -> None:
    links = LinkRecorder()
    client: list[LinkReport] = []
    with (
        served(home, storage, urls.exchange, limits=LIMITS, links=links) as server,
        asking(address_of(server.url)) as beta,
    ):
        beta.line_news(StreamName("sums"), SUMS, Version(0), segments_max=9)
        beta.fetch(ALPHA, SUMS_FILE, tmp_path / "x.parquet")
        beta.acknowledge(ALPHA, StreamName("sums"), 0, 1_000, 0, replica=0, version=Version(0))
        with pytest.raises(Refused):
            beta.line_news(StreamName("big"), SUMS, Version(0), segments_max=9)
        beta.links.report(client.extend)
    links.report(home.report_links)
    (received,) = client
    with closing(PostgresCatalog(urls.job, ALPHA)) as catalog:
        found = links_with(catalog, BETA)
        assert [one.partner for one in catalog.links()] == [BETA, GAMMA]
    assert found.client is None
    assert found.server is not None
    sent = found.server.report
    assert (received.requests, received.failures, received.files) == (4, 1, 1)
    assert (sent.requests, sent.failures, sent.files) == (4, 1, 1)
    assert received.state is LinkState.REACHABLE
    assert sent.error is not None
    assert sent.error in str(received.error)
    assert "nothing of this name for you" in str(sent.error)
    assert sent.bytes_sent > len(ROWS)
    # The client also receives its token and what is said of the problem.
    assert 0 < received.bytes_received - sent.bytes_sent < 5_000
    assert received.bytes_sent == sent.bytes_received > 0
    assert received.answer_ms_max is not None


@pytest.mark.long(quick=True)
def test_a_partner_that_is_not_reached_or_refuses_is_reported_as_such(
    home: ExchangeHome, urls: HomeUrls, storage: Path
) -> None:
    reports: list[LinkReport] = []
    with asking(address_of("http://127.0.0.1:9")) as beta:
        with pytest.raises(Unavailable):
            beta.health(ALPHA)
        beta.links.report(reports.extend)
    assert reports[-1].state is LinkState.UNREACHABLE
    assert "partner alpha at http://127.0.0.1:9 is not available" in str(reports[-1].error)
    with closing(psycopg2.connect(urls.owner.replace("+psycopg2", ""))) as owner:
        owner.autocommit = True
        owner.cursor().execute("SELECT medusa_api.remove_partner('beta')")
    with (
        served(home, storage, urls.exchange, limits=LIMITS) as server,
        asking(address_of(server.url)) as beta,
    ):
        with pytest.raises(MedusaError):
            beta.health(ALPHA)
        assert beta.is_refused(ALPHA)
        beta.links.report(reports.extend)
    assert (reports[-1].state, reports[-1].failures) == (LinkState.REFUSED, 1)


@pytest.mark.long(quick=True)
def test_reports_add_up_over_processes_and_a_state_begins_when_it_changed(
    catalog: PostgresCatalog,
) -> None:
    catalog.report_links([a_report(requests=5), a_report(GAMMA)])
    catalog.report_links(
        [a_report(state=LinkState.UNREACHABLE, error="no route", failed_ago_ms=5, failures=2,
                  state_ago_ms=60_000, answered_ago_ms=None, answer_ms=None, answer_ms_max=None)]
    )  # fmt: skip
    # Another process sees the same state, for less long.
    catalog.report_links(
        [a_report(state=LinkState.UNREACHABLE, delay_ms=3, delay_ms_max=8, state_ago_ms=1)]
    )
    found = links_with(catalog, BETA).client
    assert found is not None
    report = found.report
    assert (report.requests, report.failures, report.bytes_received) == (7, 2, 300)
    assert (report.answer_ms, report.answer_ms_max, report.delay_ms) == (4, 9, 3)
    assert report.error == "no route"
    assert report.state_ago_ms >= 60_000
    catalog.report_links([a_report()])
    again = links_with(catalog, BETA).client
    assert again is not None
    assert (again.report.state, again.report.state_ago_ms < 60_000) == (LinkState.REACHABLE, True)


def test_a_broken_link_is_a_sentence_until_nobody_reports_it_any_more(
    catalog: PostgresCatalog, urls: HomeUrls
) -> None:
    catalog.report_links([a_report(GAMMA)])
    catalog.report_links(
        [a_report(state=LinkState.UNREACHABLE, error="no route to host", state_ago_ms=12_000)]
    )
    beta, gamma = link_facts(catalog.links())
    assert str(broken_link(beta)).startswith("LINK to beta is unreachable for 12 s: no route to ho")
    assert broken_link(gamma) is None
    with catalog_engine(urls.owner_role).connect() as owner:
        owner.execute(
            text("UPDATE medusa_market.link SET reported_at = reported_at - interval '2 minutes'")
        )
    old, _ = link_facts(catalog.links())
    assert (old["state"], old["since_ago_ms"], broken_link(old)) == ("unknown", None, None)


@pytest.mark.long(quick=True)
def test_strangers_add_no_rows(catalog: PostgresCatalog, home: ExchangeHome) -> None:
    catalog.report_links([a_report(Participant("stranger"))])
    home.report_links([a_report(Participant("stranger"))])
    assert {one.partner for one in catalog.links() if one.client or one.server} == set()


@pytest.mark.parametrize("field", long_but(1, ["requests", "bytes_sent", "answer_ms"], quick=True))
def test_a_report_that_takes_something_back_is_refused(home: ExchangeHome, field: str) -> None:
    with pytest.raises(MedusaError):
        home.report_links([a_report(**{field: -5})])
