"""Metrics as a scraper gets them: over HTTP, from this machine alone, true while the loop hangs."""

from __future__ import annotations

import math
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from medusa_core.decide import DecisionReason, Wait
from medusa_core.errors import Conflict, Unavailable
from medusa_core.grid import Range
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Stability
from medusa_core.states import State, Transition
from pipelines.catalog.memory.memory_catalog import MemoryCatalog
from pipelines.catalog.partner_records import (
    LinkReport,
    LinkSide,
    LinkState,
    LinkStatus,
    PartnerLinks,
)
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.catalog.server.home_databases import HomeUrls, create_home, drop_home
from pipelines.exchange.importer import Imported
from pipelines.sources.live.live_source import Polled
from pipelines.spark.results import Verified
from pipelines.watching.link_facts import OLD_MS
from pipelines.watching.watcher import Watcher
from tests.catalog import building as a
from tests.watching.homes import HOUR_MS, World

CANARY = "kanarienvogel"


class Scraped:
    """What a scrape gave: values by name and labels."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._values = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float | None:
        labels = {"participant": "alpha", **labels}
        return self._values.get((f"medusa_{name}", tuple(sorted(labels.items()))))


def scrape(watcher: Watcher) -> Scraped:
    assert watcher.metrics_url is not None
    with urllib.request.urlopen(watcher.metrics_url, timeout=120) as answer:
        return Scraped(answer.read().decode())


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def watcher(world: World, tmp_path: Path) -> Iterator[Watcher]:
    secrets = [f"postgresql://me:{CANARY}@db/x"]
    with Watcher(
        a.ALPHA, tmp_path, catalog=world.catalog, metrics_at=("127.0.0.1", 0), secrets=secrets
    ) as watching:
        yield watching


def test_links_are_shown_by_partner_and_side(
    watcher: Watcher, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def status(side: LinkSide, reported_ago_ms: int, **given: Any) -> LinkStatus:
        report = LinkReport(
            partner=Participant("shop"), state_ago_ms=0, error=None, failed_ago_ms=None,
            answered_ago_ms=0, requests=7, failures=2, files=3, bytes_received=100, bytes_sent=50,
            answer_ms=4, answer_ms_max=9, delay_ms_max=None, **given,
        )  # fmt: skip
        return LinkStatus(side=side, reported_ago_ms=reported_ago_ms, report=report)

    def links(client_ago_ms: int) -> tuple[PartnerLinks, ...]:
        unreachable, reachable = LinkState.UNREACHABLE, LinkState.REACHABLE
        client = status(LinkSide.CLIENT, client_ago_ms, state=unreachable, delay_ms=250)
        server = status(LinkSide.SERVER, 0, state=reachable, delay_ms=None)
        return (PartnerLinks(partner=Participant("shop"), client=client, server=server),)

    monkeypatch.setattr(MemoryCatalog, "links", lambda self: links(1_000))
    seen = scrape(watcher)
    assert seen("link_reachable", partner="shop") == 0
    assert seen("link_news_delay_seconds", partner="shop") == 0.25
    for side in ("client", "server"):
        assert seen("link_requests_total", partner="shop", side=side) == 7
        assert seen("link_received_bytes_total", partner="shop", side=side) == 100
        assert seen("link_answer_seconds", partner="shop", side=side) == 0.004
    monkeypatch.setattr(MemoryCatalog, "links", lambda self: links(OLD_MS + 1))
    seen = scrape(watcher)
    assert seen("link_reachable", partner="shop") is None, "nobody has asked of late"
    assert seen("link_failures_total", partner="shop", side="client") == 2


def test_verifications_are_counted_by_their_result(watcher: Watcher) -> None:
    agreed = Verified(fragment=a.MAIN, job="the prepared job", range=Range(0, 10), difference=None)
    for verified in (agreed, agreed, replace(agreed, difference="stream sums differs")):
        watcher.verified(verified)
    seen = scrape(watcher)
    assert seen("verifications_total", fragment=a.MAIN, result="agreed") == 2
    assert seen("verifications_total", fragment=a.MAIN, result="differed") == 1
    assert seen("alarm", of=f"the prepared job of {a.MAIN}") == 1


def test_steps_records_commits_and_their_time_are_counted(world: World, watcher: Watcher) -> None:
    closing = world.close()
    computing = world.compute(quarantine=(a.a_bad_record(), a.a_bad_record("other")))
    for applied in (closing, computing):
        watcher.decided(applied.decision)
        watcher.applied(applied)
    seen = scrape(watcher)
    assert seen("steps_total", fragment=a.MAIN, cause="normal") == 1
    assert seen("steps_total", fragment=a.LANDING, cause="landing") == 1
    assert seen("records_in_total", fragment=a.MAIN) == 6
    assert seen("records_out_total", fragment=a.MAIN) == 2
    assert seen("commits_total", fragment=a.MAIN) == 1
    assert seen("quarantined_records_total", stream="src") == 2
    assert seen("step_seconds_count", fragment=a.MAIN) == 1
    assert seen("step_phase_seconds_sum", fragment=a.MAIN, phase="run") == pytest.approx(0.04)
    assert seen("step_phase_seconds_bucket", fragment=a.MAIN, phase="run", le="0.05") == 1
    assert seen("step_phase_seconds_bucket", fragment=a.MAIN, phase="run", le="0.025") == 0


def test_a_commit_that_was_found_made_counts_no_second_step(world: World, watcher: Watcher) -> None:
    first = world.close()
    again = world.catalog.commit(first.commit)
    assert again.again
    watcher.applied(first)
    watcher.applied(a.replace(first, committed=again))
    seen = scrape(watcher)
    assert seen("commits_total", fragment=a.LANDING) == 1
    assert seen("commits_again_total", fragment=a.LANDING) == 1
    assert seen("steps_total", fragment=a.LANDING, cause="landing") == 1


def test_conflicts_errors_waits_and_what_comes_in_are_counted(watcher: Watcher) -> None:
    assert scrape(watcher)("conflicts_total") == 0
    watcher.error(Conflict("somebody was first"))
    watcher.error(Unavailable("away"))
    watcher.decided(Wait(of=a.MAIN, because=DecisionReason("x", {})))
    watcher.decided(Wait(of=a.MAIN, because=DecisionReason("x", {})))
    watcher.polled(a.SRC, Polled(landed=7, quarantined=2, batches=1))
    for problem in (None, "away"):
        stream = StreamName("far")
        watcher.imported(
            Imported(stream=stream, producer="beta/0", segments=4, version=9, problem=problem)
        )
    seen = scrape(watcher)
    assert seen("conflicts_total") == 1
    assert seen("errors_total", kind="Unavailable") == 1
    assert seen("waits_total", fragment=a.MAIN) == 2
    assert seen("landed_records_total", stream="src") == 7
    assert seen("quarantined_records_total", stream="src") == 2
    assert seen("imported_segments_total", stream="far") == 4
    assert seen("failed_imports_total", stream="far") == 1


def test_boundaries_stability_and_lag_are_read_when_they_are_asked_for(
    world: World, watcher: Watcher
) -> None:
    assert scrape(watcher)("boundary_seconds", stream="sums", producer="alpha/0") is None
    world.close()
    world.compute(Stability.TENTATIVE)
    line = {"stream": "sums", "producer": "alpha/0"}
    seen = scrape(watcher)
    assert seen("boundary_seconds", **line) == 20
    assert seen("stable_through_seconds", **line) == 0
    assert seen("lag_seconds", **line) == 100
    assert seen("leases_held") == 3
    assert seen("catalog_reachable") == 1
    world.clock.advance(HOUR_MS)
    seen = scrape(watcher)
    assert seen("lag_seconds", **line) == 100 + HOUR_MS / 1_000, "though nothing was told"
    assert seen("leases_held") == 0


def test_what_is_tentative_what_was_corrected_and_states_are_told(
    world: World, watcher: Watcher
) -> None:
    line = {"stream": "sums", "producer": "alpha/0"}
    seen = scrape(watcher)
    assert seen("tentative_through_seconds", **line) is None
    assert seen("corrected_through_seconds", **line) is None
    world.close()
    world.compute(Stability.TENTATIVE)
    world.catalog.commit(a.a_commit(a.a_segment(0, 1, rows={0: 2})))
    world.catalog.record_transition(
        Transition(fragment=a.MAIN, partition=0, producer=a.ME, state=State.STABILIZATION,
                   because="owed")
    )  # fmt: skip
    seen = scrape(watcher)
    assert seen("stable_through_seconds", **line) == 10
    assert seen("tentative_through_seconds", **line) == 20
    assert seen("corrected_through_seconds", **line) == 10
    of = {"producer": "alpha/0", "partition": "0"}
    states = {
        (fragment, state): seen("fragment_state", fragment=fragment, state=state, **of)
        for fragment in (a.MAIN, a.TAIL)
        for state in ("STABLE", "UP_FAILURE", "STABILIZATION")
    }
    assert [at for at, value in states.items() if value == 1] == [
        (a.MAIN, "STABILIZATION"),
        (a.TAIL, "STABLE"),
    ]
    assert set(states.values()) == {0, 1}


def test_a_stream_that_ended_is_complete_and_has_no_lag(world: World, watcher: Watcher) -> None:
    world.catalog.commit(a.a_commit(a.a_segment(0, 2), ends=True))
    line = {"stream": "sums", "producer": "alpha/0"}
    seen = scrape(watcher)
    assert seen("boundary_seconds", **line) == seen("stable_through_seconds", **line) == math.inf
    assert seen("lag_seconds", **line) is None


@pytest.fixture
def urls(postgres_server: EmbeddedServer) -> Iterator[HomeUrls]:
    admin_url = postgres_server.superuser_url()
    yield create_home(admin_url, a.ALPHA, "medusa_metrics")
    drop_home(admin_url, "medusa_metrics")


@pytest.mark.long
def test_a_catalog_that_is_away_is_a_figure_and_no_failure(
    urls: HomeUrls, postgres_server: EmbeddedServer, tmp_path: Path
) -> None:
    catalog = PostgresCatalog(urls.job, a.ALPHA)
    catalog.deploy(a.a_deployment())
    with Watcher(a.ALPHA, tmp_path, catalog=catalog, metrics_at=("127.0.0.1", 0)) as watcher:
        assert scrape(watcher)("catalog_reachable") == 1
        drop_home(postgres_server.superuser_url(), "medusa_metrics")
        seen = scrape(watcher)
    catalog.close()
    assert seen("catalog_reachable") == 0
    assert seen("leases_held") is None


def test_labels_are_escaped_and_hold_no_password(watcher: Watcher) -> None:
    nasty = 'a"b\\c\nd} 1\nmedusa_fake{x="\ud800'
    watcher.polled(StreamName(nasty), Polled(landed=1, batches=1))
    watcher.polled(StreamName(f"http://u:{CANARY}@h"), Polled(landed=1, batches=1))
    watcher.decided(Wait(of=CANARY, because=DecisionReason("x", {})))
    seen = scrape(watcher)
    assert seen("landed_records_total", stream=nasty.replace("\ud800", "\ufffd")) == 1
    assert seen("landed_records_total", stream="http://u:***@h") == 1
    assert "\nmedusa_fake" not in seen.text
    assert CANARY not in seen.text


def test_a_log_line_that_is_lost_is_counted(world: World, tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("in the way")
    with Watcher(a.ALPHA, tmp_path, metrics_at=("127.0.0.1", 0)) as watcher:
        watcher.applied(world.close())
        assert scrape(watcher)("log_lines_lost_total") == 1


def test_metrics_are_served_to_this_machine_alone(watcher: Watcher) -> None:
    assert watcher.metrics_url is not None
    port = int(watcher.metrics_url.split(":")[2].split("/")[0])
    assert listens_at(port) == {"127.0.0.1"}


def listens_at(port: int) -> set[str]:
    """The addresses at which this process listens on a port."""
    return {
        at.laddr.ip
        for at in psutil.Process().net_connections("inet")
        if at.status == psutil.CONN_LISTEN and at.laddr.port == port
    }


def test_a_port_that_is_taken_is_unavailable_and_says_what_to_do(
    watcher: Watcher, tmp_path: Path
) -> None:
    assert watcher.metrics_url is not None
    port = int(watcher.metrics_url.split(":")[2].split("/")[0])
    with pytest.raises(Unavailable, match="MEDUSA_METRICS_PORT"):
        Watcher(a.ALPHA, tmp_path, metrics_at=("127.0.0.1", port))


def test_a_closed_watcher_gives_its_port_back(tmp_path: Path) -> None:
    watcher = Watcher(a.ALPHA, tmp_path, metrics_at=("127.0.0.1", 0))
    assert watcher.metrics_url is not None
    port = int(watcher.metrics_url.split(":")[2].split("/")[0])
    assert listens_at(port) == {"127.0.0.1"}
    watcher.close()
    # Whether it could be taken again says nothing: any process may be given it meanwhile.
    assert listens_at(port) == set()


def test_a_watcher_listens_where_it_is_told_to(tmp_path: Path) -> None:
    with Watcher(a.ALPHA, tmp_path, metrics_at=("0.0.0.0", 0)) as watcher:
        assert watcher.metrics_url is not None
        assert watcher.metrics_url.startswith("http://127.0.0.1:")
        port = int(watcher.metrics_url.split(":")[2].split("/")[0])
        assert listens_at(port) == {"0.0.0.0"}


@pytest.mark.long
def test_a_server_keeps_no_process_alive_and_prints_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from pipelines.watching.watcher import Watcher\n"
        "watcher = Watcher('alpha', Path(sys.argv[1]), metrics_at=('127.0.0.1', 0))\n"
        "assert watcher.metrics_url.startswith('http://127.0.0.1:')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, timeout=60, check=True
    )
    assert done.stdout + done.stderr == b""


@pytest.mark.long
def test_without_a_port_the_library_is_not_even_loaded(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from pipelines.watching.watcher import Watcher\n"
        "Watcher('alpha', Path(sys.argv[1]))\n"
        "sys.exit('prometheus_client' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
