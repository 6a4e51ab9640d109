"""The operation under `medusa simulate faults`: it returns what the command prints."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from medusa_core.errors import Refused
from pipelines.operations.fault_simulation import FaultsRequest, FaultsResult, simulate_faults
from pipelines.simulation.faults import schedule as running
from pipelines.simulation.faults.events import Violation

SEED = 5


@dataclass
class Observed:
    """What an observer was called with."""

    calls: list[tuple[str, Any]] = field(default_factory=list)

    def resumed(self, done: int) -> None:
        self.calls.append(("resumed", done))

    def progressed(self, done: int, violations: int) -> None:
        self.calls.append(("progressed", (done, violations)))

    def began(self, seed: int) -> None:
        self.calls.append(("began", seed))

    def happened(self, event: object) -> None:
        self.calls.append(("happened", event))

    def of(self, name: str) -> list[Any]:
        return [value for called, value in self.calls if called == name]


def simulate(**request: Any) -> tuple[FaultsResult, Observed]:
    observed = Observed()
    return simulate_faults(FaultsRequest(seed=SEED, **request), observed), observed


def test_a_run_returns_its_figures_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    result, observed = simulate(schedules=1, kind="trims", jobs=1)
    assert not result.has_failed
    assert (result.figures["schedules"], result.figures["first_seed"]) == (1, SEED)
    assert result.summary.startswith(f"simulate faults: 1 schedules from seed {SEED}, 0 violations")
    assert observed.calls == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
def test_events_are_reported_in_their_order_and_change_no_figure() -> None:
    result, observed = simulate(schedules=2, kind="trims", observes_events=True)
    assert observed.of("began") == [SEED, SEED + 1]
    assert observed.calls[0] == ("began", SEED)
    assert len(observed.of("happened")) >= sum(result.figures["commits"].values()) > 0
    unobserved, _ = simulate(schedules=2, kind="trims", jobs=1)
    assert result == unobserved


@pytest.mark.long
def test_a_resumed_run_reports_what_was_done_and_returns_the_figures_of_all_of_it(
    tmp_path: Path,
) -> None:
    kept = {"kind": "trims", "jobs": 1, "resume": tmp_path / "run.json"}
    first, observed = simulate(schedules=1, **kept)
    assert observed.calls == [("resumed", 0), ("progressed", (1, 0))]
    second, observed = simulate(schedules=2, **kept)
    assert observed.calls == [("resumed", 1), ("progressed", (2, 0))]
    assert second.figures == simulate(schedules=2, kind="trims", jobs=1)[0].figures
    assert list(second.codes.values()) == [2]
    assert first.codes.keys() == second.codes.keys()


@pytest.mark.long
def test_a_broken_law_is_returned_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise Violation("L2", "a row is missing")

    monkeypatch.setattr(running, "check_outcome", broken)
    result, _ = simulate(schedules=1, kind="replicas", observes_events=True)
    assert result.has_failed
    ((seed, sentence),) = result.violations
    assert seed == SEED
    assert "L2 is broken: a row is missing" in sentence


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"kind": "weather"}, "no kind of schedules 'weather': choose of .*trims"),
        ({"observes_events": True, "resume": Path("x")}, "leave --explain or --resume out"),
    ],
)
def test_a_request_that_cannot_be_run_is_refused_before_anything_is_done(
    request_: dict[str, Any], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused, match=reason):
        simulate(**request_)
    assert list(tmp_path.iterdir()) == []
