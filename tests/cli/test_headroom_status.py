"""`medusa status` says that a bound may not be kept before an answer is late."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest

from medusa_core.bound_headroom import Headroom
from medusa_core.bounds import Bound
from medusa_core.names import StreamName
from medusa_core.step_costs import Cost
from pipelines.cli.main import main
from pipelines.homes.headroom_file import HeadroomFile
from pipelines.homes.home import open_home
from tests.catalog import building as a
from tests.cli.watched import Watched

Status = Callable[..., str]
WIDTH_MAX = 100
STREAMS = (StreamName(a.SUMS), StreamName(a.BIG))


@pytest.fixture
def status(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Status:
    def run(*arguments: str) -> str:
        for name, value in watched.environment().items():
            monkeypatch.setenv(name, value)
        assert main(["status", "--participant", "alpha", *arguments]) == 0
        return capsys.readouterr().out

    return run


def write_headroom(watched: Watched, cost: Cost) -> None:
    found = Headroom(
        fragment=a.MAIN, streams=STREAMS, bound_ms=5_000, cost=cost, rest_ms=0, wait_ms=500
    )
    HeadroomFile(watched.settings.directory, a.ALPHA).write([found], time.time())


def test_a_bound_with_headroom_is_a_line_of_figures(status: Status, watched: Watched) -> None:
    write_headroom(watched, Cost(step_ms=300, slow_step_ms=500))
    text = status()
    (line,) = [line for line in text.splitlines() if line.startswith("sums, big ")]
    assert line.split()[2:] == ["5.0", "s", "0.6", "s", "0.5", "s", "4.4", "s"]
    assert "may not be kept" not in text


def test_a_bound_that_may_not_be_kept_is_a_sentence_with_figures(
    status: Status, watched: Watched
) -> None:
    write_headroom(watched, Cost(step_ms=3_000, slow_step_ms=6_000))
    text = status()
    words = " ".join(text.split())
    assert (
        "sums, big: the bound of 5 s may not be kept on this machine now: an answer without an "
        "input may take 6.1 s (a step up to 6 s, the work around it 100 ms; load"
    ) in words
    assert max(len(ln) for ln in text.splitlines() if not ln.startswith("folder")) <= WIDTH_MAX
    (home,) = json.loads(status("--json"))["homes"]
    (fact,) = home["bounds"]
    assert (fact["is_kept"], fact["needed_ms"], fact["wait_ms"]) == (False, 6_100, 500)


def test_of_a_driver_on_another_machine_the_steps_in_the_catalog_tell(
    status: Status, watched: Watched
) -> None:
    (watched.settings.directory / "logs" / "alpha.headroom.json").unlink(missing_ok=True)
    assert "bound of" not in status(), "nothing is promised"
    with open_home(watched.settings, a.ALPHA) as home:
        home.catalog.declare_bound(StreamName(a.SUMS), Bound(bound_ms=5_000), 0)
    (home_facts,) = json.loads(status("--json"))["homes"]
    (fact,) = home_facts["bounds"]
    assert fact["is_kept"]
    assert fact["load"] is None
    watched.change(
        "SET session_replication_role = replica; "
        """UPDATE medusa.step_metrics SET phases_ms = '{"run": 4000}'; """
        "SET session_replication_role = DEFAULT"
    )
    words = " ".join(status().split())
    assert "sums: the bound of 5 s may not be kept on this machine now" in words
    assert (
        "an answer without an input may take 8.7 s (a step up to 8 s, the work around it 100 ms, "
        "the rest of the path 600 ms)"
    ) in words
