"""What a trigger of a stream's asset tells, and what it keeps with the asset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.airflow.runner import ROOT

TOLD = """
import asyncio, json, sys
from pipelines.airflow.stream_assets import StablePrefix, stream_asset

class Kept:
    def __init__(self, value): self.value = value
    async def aget(self, key): return self.value
    async def aset(self, key, value): self.value = value

async def told(looks, kept):
    async def shared():
        for one in looks: yield one
    trigger = StablePrefix("alpha", "busy")
    trigger.asset_state_store = kept
    return [e.payload["stable_through"] async for e in trigger.filter_shared_stream(shared())]

asked = json.loads(sys.argv[1])
kept = Kept(asked["kept"])
events = asyncio.run(told(asked["looks"], kept))
keys = {
    StablePrefix("alpha", name).shared_stream_key() for name in ("busy", "lower", "beta/sums")
}
asset = stream_asset("alpha", "beta/sums")
refused = []
for names in (("alpha", "x; DROP TABLE"), ("../alpha", "busy"), ("alpha", "a/b/c")):
    try: stream_asset(*names)
    except Exception as error: refused.append(str(error))
print(json.dumps({"events": events, "kept": kept.value, "share": len(keys) == 1,
                  "asset": [asset.name, asset.uri], "refused": refused}))
"""


def told(tmp_path: Path, looks: list[dict[str, int]], kept: int | None) -> dict[str, Any]:
    """Of a process with Airflow in it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TOLD, json.dumps({"looks": looks, "kept": kept})],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"AIRFLOW_HOME": str(tmp_path / "airflow"), "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_each_move_of_the_stable_prefix_is_one_event_and_what_was_told_is_kept(
    tmp_path: Path,
) -> None:
    second = 1_000_000
    looks = [*[{"busy": second}] * 2, {"lower": 9}, {"busy": 3 * second}, {"busy": 2 * second}]
    assert told(tmp_path, looks, kept=second)["kept"] == 3 * second, "the last one may be repeated"
    looks.append({})
    found = told(tmp_path, looks, kept=second)
    assert found["events"] == ["1970-01-01T00:00:03Z", "1970-01-01T00:00:02Z"], "a recall, too"
    assert found["kept"] == 2 * second
    assert found["share"], "one look at a home serves all of its streams"
    assert found["asset"] == ["alpha/beta/sums", "medusa://streams/alpha/beta/sums"]
    assert len(found["refused"]) == 3
    assert all("is not a name" in sentence for sentence in found["refused"])


@pytest.mark.long
def test_without_anything_kept_the_first_look_is_an_event(tmp_path: Path) -> None:
    found = told(tmp_path, [{"busy": 5}, {"busy": 5}], kept=None)
    assert len(found["events"]) == 1
