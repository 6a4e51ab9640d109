"""Handing in repaired records, killed from outside: handed in again, each lands once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipelines.base.failpoints import FILE, POINT
from pipelines.homes.home import open_home
from pipelines.participant.repairs import LANDED_BEFORE
from tests.catalog import building as a
from tests.cli.watched import Watched
from tests.hostile.conftest import Ended
from tests.sweeps import long_but
from tests.waiting import until


def landed(homes: Watched) -> int:
    """How many repaired records have landed."""
    with open_home(homes.settings, a.ALPHA) as home:
        queries = [q for q in home.catalog.landed_queries(a.SRC) if q.startswith("retry-")]
        return sum(sum(home.catalog.landed_batches(a.SRC, q).values()) for q in queries)


@pytest.mark.long
@pytest.mark.parametrize("point", long_but(1, ["land.logged", "land.written"]))
def test_killed_at_a_point_and_handed_in_again_a_record_lands_once(
    point: str, homes: Watched, on: Callable[..., Ended], tmp_path: Path
) -> None:
    file, announced = tmp_path / "repaired.json", tmp_path / "reached"
    assert on("quarantine", "export", "src", str(file)).code == 0
    entry = json.loads(file.read_text().splitlines()[0])
    entry["record"]["at"] = homes.origin_us + 7 * a.WIDTH_US
    file.write_text(json.dumps(entry))
    before = landed(homes)
    words = ("quarantine", "retry", "src", str(file))
    process = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli.main", *words, "--participant", "alpha"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, POINT: point, FILE: str(announced)},
    )
    try:
        until(
            lambda: announced.exists() or process.poll() is not None,
            f"{point} is reached",
            seconds_max=180,
        )
        assert process.poll() is None, "it ended before"
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    is_logged = point == "land.logged"
    assert landed(homes) - before == is_logged
    if not is_logged:
        # Of its ten seconds a busy machine may have taken all by now.
        homes.change("UPDATE medusa.lease SET expires_at = 'infinity' WHERE lane = 'backlog'")
        assert on(*words).code == 3, "the lease of the one that was killed has not run out"
    homes.change("UPDATE medusa.lease SET expires_at = '-infinity' WHERE lane = 'backlog'")
    again = json.loads(on(*words, "--json").output)
    assert landed(homes) - before == 1
    assert again["landed"] == ([] if is_logged else [entry["quarantine"]])
    assert [one["reason"] for one in again["stayed"]] == ([LANDED_BEFORE] if is_logged else [])
