"""A DAG of the user's own is scheduled by a stream of a federation that runs; minutes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.base.settings import REPOSITORY
from tests.hosting.live import BETA, Live, live_federation
from tests.waiting import until

pytestmark = pytest.mark.airflow_long
DAG, TASK, STREAM = "lower_report", "count", "beta/lower"
SEEN_S_MAX = 180
EVENTS = 4
EVERY_S = 10.0


@pytest.fixture(scope="module")
def live() -> Iterator[Live]:
    with live_federation() as made:
        (example,) = re.findall(
            r"```python\n(.*?)```", Path(REPOSITORY / "docs" / "airflow.md").read_text(), re.DOTALL
        )
        (made.platform.home / "dags" / "lower_report.py").write_text(example)
        yield made


def runs(live: Live) -> list[dict[str, object]]:
    """The runs of the example that succeeded; none before the DAG is known."""
    try:
        found = live.ask(f"dags/{DAG}/dagRuns?limit=100")["dag_runs"]
    except OSError:
        return []
    return [run for run in found if run["state"] == "success"]


def events(live: Live) -> list[dict[str, object]]:
    """The events of the stream's asset, oldest first."""
    found = live.ask("assets?limit=100")["assets"]
    (asset,) = [one["id"] for one in found if one["name"] == STREAM]
    answer = live.ask(f"assets/events?asset_id={asset}&limit=100&order_by=timestamp")
    return list(answer["asset_events"])


def through(event: dict[str, object]) -> str:
    extra = event["extra"]
    assert isinstance(extra, dict)
    return str(extra["payload"]["stable_through"])


def test_the_dag_of_the_docs_runs_each_time_the_stream_is_stable_further(live: Live) -> None:
    until(lambda: len(runs(live)) >= 2, "the example has run twice", SEEN_S_MAX)
    run = str(runs(live)[0]["dag_run_id"])
    assert "lower is stable through 20" in live.log(DAG, run, TASK)
    until(lambda: len(events(live)) >= EVENTS, f"{EVENTS} events", SEEN_S_MAX)
    told = [through(event) for event in events(live)]
    assert told == sorted(set(told)), "each event tells of more than the one before"
    assert told[-1] <= _stable(live)


def _stable(live: Live) -> str:
    from pipelines.base.time_text import iso

    return iso(live.stable_us(BETA, "lower") or 0)


def test_a_restart_of_the_triggerer_repeats_no_event(live: Live) -> None:
    pid = live.platform.pid("triggerer")
    before = [through(event) for event in events(live)]
    live.platform.kill("triggerer")
    live.platform.heals(lambda: live.platform.pid("triggerer") not in (0, pid))
    until(lambda: len(events(live)) > len(before), "events go on", SEEN_S_MAX)
    told = [through(event) for event in events(live)]
    assert told[: len(before)] == before
    assert len(set(told)) == len(told), json.dumps(told)
