"""Killed between any two numbered steps, a participant goes on as if nothing had been."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.failpoints import POINTS
from pipelines.streams.generate import write_generated
from tests.federation.processes import Installation, contents, installation

LANDING = tuple(p for p in POINTS if p.startswith(("land.", "close.")))
COMPUTING = tuple(p for kind in ("import.", "step.") for p in POINTS if p.startswith(kind))
SEEDS = range(10)


def write_contracts(folder: Path, file: Path) -> Path:
    """alpha lands, beta imports and computes."""
    for kind in ("participants", "streams"):
        (folder / kind).mkdir(parents=True)
    runs = "runs:\n  - network: netmon\n    bucket: 20s\n"
    (folder / "participants" / "alpha.yaml").write_text(
        f"participant: alpha\n{runs}    sources: [connections]\n"
    )
    (folder / "participants" / "beta.yaml").write_text(
        f"participant: beta\n{runs}    fragments: [main]\n"
    )
    (folder / "streams" / "connections.yaml").write_text(
        "stream: connections\nsource:\n  kind: replay\n"
        f"  paths: ['{file}']\n  speed: 1000000000\n  disorder: 600s\n"
    )
    return folder


@pytest.fixture(scope="module")
def contracts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("crashes")
    (file,) = write_generated(folder / "input", seed=7, records=12_000)
    return write_contracts(folder / "contracts", file)


@pytest.fixture(scope="module")
def undisturbed(contracts: Path) -> Iterator[dict[str, dict[str, object]]]:
    with installation(contracts) as installed:
        yield run(installed)


def run(installed: Installation) -> dict[str, dict[str, object]]:
    """Both participants to the end, and what their homes hold then."""
    for name in ("alpha", "beta"):
        installed.run_to_the_end(name)
    return {name: contents(installed, name) for name in ("alpha", "beta")}


def passed(point: str, seed: int) -> str:
    """At which pass of a point to kill: the first, or a later one that surely comes."""
    often = ("close.", "step.")
    return f"{point}:{1 + seed % 3}" if point.startswith(often) else point


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.crash) for seed in SEEDS[1:])]
)
def test_killed_at_every_gap_the_homes_end_as_if_nothing_had_been(
    contracts: Path,
    undisturbed: dict[str, dict[str, object]],
    seed: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hit: dict[str, bool] = {}
    with installation(contracts) as installed:
        for name, points in (("alpha", LANDING), ("beta", COMPUTING)):
            for point in points:
                hit[point] = installed.kill_at(name, passed(point, seed))
            installed.run_to_the_end(name)
        found = {name: contents(installed, name) for name in ("alpha", "beta")}
    with capsys.disabled():
        print(f"\ngap x seed {seed}")
        for point, was_hit in hit.items():
            print(f"  {point:<20} {'killed' if was_hit else 'NOT HIT'}")
    assert all(hit.values())
    assert found == undisturbed
