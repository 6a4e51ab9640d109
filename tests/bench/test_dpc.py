"""The papers' experiments: what is measured, planned, kept and told, without a federation."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.dpc import originals
from bench.dpc.command import SIMULATED_S, main, measured_steps, plan_lines, run_cells, todo_of
from bench.dpc.contracts import NETWORK, OUTPUT, lines_of, stream_of, write_contracts
from bench.dpc.history import History, Version, by_bucket
from bench.dpc.keeping import Kept, opened
from bench.dpc.live import start_feeder
from bench.dpc.metrics import Lost, figures_of, measure
from bench.dpc.plots import ticks, write_plots
from bench.dpc.reading import read_history, read_status
from bench.dpc.scenario import (
    BUDGET_MIN,
    DEPTHS,
    X_S,
    Cell,
    Chain,
    ReplicaSet,
    chains,
    federations,
    planned_min,
    single,
)
from bench.dpc.simulated import NOT_SIMULATED, asked
from bench.dpc.simulated_chain import SimulatedCell, simulate
from bench.dpc.table import live_lines, markdown, missed_of, simulated_lines
from bench.dpc.targets import verdicts_of
from bench.federation import shipped_federation
from bench.process_tree import cpu_seconds
from bench.processes import ContenderFailed
from bench.soak import own_folder
from medusa_core.bounds import Bound, Policy
from medusa_core.errors import Refused
from medusa_core.fragments import fragments_of
from medusa_core.names import StreamName
from pipelines.contracts.federation import read_federation
from pipelines.language.load import load_network
from tests.bench.dpc_building import (
    CUT_S,
    EPISODE,
    HEAL_S,
    LATE_MS,
    ORACLE,
    SECOND_US,
    STEP_MS,
    WAIT_MS,
    a_cell,
    a_history,
    a_version,
)
from tests.bench.dpc_replicas_building import a_replica_cell
from tests.waiting import until

# ------------------------------------------------------------ metrics, from a made-up catalog


def test_delay_is_what_a_failure_adds_to_when_the_healthy_inputs_were_complete() -> None:
    figures = measure(a_history(), EPISODE)
    assert figures.end.normal_s == pytest.approx(LATE_MS / 1e3)
    assert figures.end.delay_new_s == pytest.approx(WAIT_MS / 1e3)
    assert figures.end.proc_new_s == pytest.approx(1.1 + (WAIT_MS + LATE_MS) / 1e3)
    assert figures.end.proc_normal_s == pytest.approx(1.1 + LATE_MS / 1e3)


def test_tentative_rows_and_their_correction_are_counted_from_the_heal() -> None:
    end = measure(a_history(corrected_after_ms=700), EPISODE).end
    assert end.tentative_buckets == HEAL_S - CUT_S
    assert end.tentative_rows == 30 * (HEAL_S - CUT_S)
    assert end.first_correction_s == pytest.approx(0.7)
    assert end.reconciliation_s == pytest.approx(0.7)
    assert end.computed_max == 2


def test_a_heal_behind_which_nothing_was_owed_is_none_that_a_correction_is_counted_from() -> None:
    heal_ms = EPISODE.last_heal_ms
    masked = Lost(source="second", from_ms=heal_ms + 3_000, to_ms=heal_ms + 4_000)
    both = replace(EPISODE, lost=(*EPISODE.lost, masked))
    assert measure(a_history(corrected_after_ms=700), both).end.reconciliation_s == pytest.approx(
        0.7
    )


def test_an_input_that_closes_late_delays_nobody_who_waits_for_it() -> None:
    history = a_history()
    late = tuple(
        a_version(v.commit, v.commit, v.committed_ms + 3_000) for v in history.landed["second"]
    )
    slow = History(width_us=SECOND_US, landed={**history.landed, "second": late}, hops=history.hops)
    assert measure(slow, EPISODE).end.delay_new_s < measure(history, EPISODE).end.delay_new_s + 0.1


def test_a_version_that_a_correction_has_cut_in_two_counts_once() -> None:
    whole = Version(commit=1, committed_ms=0, cause="normal", stability="tentative",
                    from_us=0, to_us=4 * SECOND_US)  # fmt: skip
    left = Version(commit=1, committed_ms=0, cause="normal", stability="tentative",
                   from_us=0, to_us=SECOND_US)  # fmt: skip
    assert [len(v) for v in by_bucket([whole, left], SECOND_US).values()] == [1, 1, 1, 1]


def test_nothing_is_measured_where_nothing_was_computed() -> None:
    history = a_history()
    empty = History(width_us=SECOND_US, landed=history.landed, hops=((),))
    with pytest.raises(AssertionError, match="no undisturbed bucket"):
        measure(empty, EPISODE)


# ------------------------------------------------------------ promises and the table


def test_figures_come_back_from_json_as_they_were() -> None:
    figures = measure(a_history(2), EPISODE)
    assert figures_of(a_cell(figures)["figures"]) == figures


def test_promises_that_are_kept_are_met_and_a_late_correction_says_by_how_much() -> None:
    kept = list(verdicts_of(measure(a_history(4), EPISODE), ORACLE))
    assert [v.told for v in kept if not v.is_met] == []
    assert len(kept) == 5
    late = measure(a_history(4, corrected_after_ms=2_000), EPISODE)
    (missed,) = [v for v in verdicts_of(late, ORACLE) if not v.is_met]
    assert missed.told == "first correction: MISSED by 0.80 s (2.00, 1.20 allowed)"


@pytest.mark.parametrize("wrong", [{"lost": 1}, {"extra": 2}, {"rows": 0}])
def test_a_row_unlike_the_oracle_is_a_promise_that_is_missed(wrong: dict[str, int]) -> None:
    found = verdicts_of(measure(a_history(), EPISODE), {**ORACLE, **wrong})
    assert [v.what for v in found if not v.is_met] == ["rows unlike the oracle"]


def test_the_table_tells_what_failed_and_what_was_missed_and_stays_a_table() -> None:
    late = measure(a_history(2, corrected_after_ms=2_000), EPISODE)
    cells = {
        "depth-2-process/F=3X": a_cell(late),
        "depth-2-process/F=6X": {"failed": "hop2 ended with 1: no | memory\nleft"},
        "depth-2-delay/F=3X": a_cell(measure(a_history(2), EPISODE)),
    }
    lines = list(live_lines(cells))
    rows = [line for line in lines if line.startswith("| F=")]
    assert len(rows) == 3
    assert len({row.count("|") for row in rows}) == 1
    assert "FAILED: hop2 ended with 1: no / memory left" in rows[0]
    assert "first correction: MISSED by 0.80 s" in rows[1]
    assert rows[2].endswith("| met |")
    assert [name for name, _ in missed_of(cells)] == ["depth-2-process/F=3X"]
    assert not any("Depth 4" in line for line in lines)


def test_cells_of_markdown_cannot_end_a_row() -> None:
    assert list(markdown(["a"], [["x|y\nz"]]))[-1] == "| x/y z |"


def test_plots_are_pictures_with_a_point_for_each_failure_and_the_originals_lines(
    tmp_path: Path,
) -> None:
    cells = {
        f"depth-1-{policy}/F=3X": a_cell(measure(a_history(), EPISODE))
        for policy in ("process", "delay")
    }
    files = write_plots(cells, tmp_path)
    assert [f.name for f in files] == ["proc_new.svg", "tentative.svg", "reconciliation.svg"]
    for file in files:
        root = ElementTree.fromstring(file.read_text())
        assert root.tag.endswith("svg")
    assert "process, formula" in (tmp_path / "tentative.svg").read_text()
    assert write_plots({}, tmp_path) == []


def test_axes_are_marked_at_round_values() -> None:
    assert ticks(0.0, 11.6) == [0, 5, 10]
    assert ticks(-14.6, 26.8) == [-10, 0, 10, 20]
    assert ticks(0.0, 0.4) == [0, 0.1, 0.2, 0.3, 0.4]


# ------------------------------------------------------------ the originals' formulas


def test_the_formulas_give_what_the_originals_logs_say_within_a_twentieth() -> None:
    assert originals.proc_new_s("process", 2, 2.0, 0.1) == pytest.approx(2.224, rel=0.05)
    assert originals.proc_new_s("delay", 2, 2.0, 0.1) == pytest.approx(3.745, rel=0.05)
    assert originals.tentative_rows("delay", 1.7, 1.0, 100, 2.0) == 0
    assert originals.tentative_rows("process", 10, 1, 100, 2.0) > originals.tentative_rows(
        "delay", 10, 1, 100, 2.0
    )


# ------------------------------------------------------------ the plan, and going on


def test_the_whole_of_it_is_planned_within_its_minutes_and_has_every_cell() -> None:
    planned = list(chains())
    assert planned_min(federations(), SIMULATED_S) <= BUDGET_MIN
    assert {(c.depth, c.policy) for c in planned} == {
        (depth, policy) for depth in DEPTHS for policy in ("process", "delay")
    }
    for chain in planned:
        assert {c.lasts_s / X_S for c in chain.cells if c.name.startswith("F=")} == {0.5, 1.5, 3, 6}
        assert chain.cells[-1].lasts_s == 0.5 * X_S
    several = [c for chain in planned if chain.depth >= 2 for c in chain.cells if len(c.cuts) > 1]
    assert {c.name for c in several} == {"overlapping", "during correction"}


def test_what_is_done_is_not_run_again_and_what_failed_is(tmp_path: Path) -> None:
    kept = opened(tmp_path / "dpc.json", {"cores": 2}, again=False)
    first = next(chains())
    kept.add(f"{first.name}/{first.cells[0].name}", a_cell(measure(a_history(), EPISODE)))
    kept.add(f"{first.name}/{first.cells[1].name}", {"failed": "it did not come"})
    again = opened(tmp_path / "dpc.json", {}, again=False)
    assert again.machine == {"cores": 2}
    left = todo_of(again, None)
    assert [c.name for c in left[0].cells] == [c.name for c in first.cells[1:]]
    assert [one.name for one in left] == [one.name for one in federations()]
    assert set(measured_steps(again)) == {STEP_MS}
    whole = planned_min(federations())
    assert planned_min(left) < whole
    assert list(plan_lines(left, simulated=False))[-1].startswith("plan: ")
    replicas = left[-1]
    assert isinstance(replicas, ReplicaSet)
    again.add(f"{replicas.name}/{replicas.cells[0].name}", a_replica_cell())
    (less,) = todo_of(again, ["replicas"])
    assert less.cells == replicas.cells[1:]
    assert less.planned_s < replicas.planned_s
    again.forget(["depth-2-process", "replicas"])
    assert len(again.cells) == 2
    again.forget([first.name])
    assert again.cells == opened(tmp_path / "dpc.json", {}, again=True).cells == {}


@pytest.mark.parametrize("spoilt", ["", "[]", '{"format": 2}', '{"format": 1, "cells": 3}'])
def test_an_invalid_file_of_figures_is_refused_with_a_remedy(tmp_path: Path, spoilt: str) -> None:
    file = tmp_path / "dpc.json"
    file.write_text(spoilt)
    with pytest.raises(Refused, match="--again"):
        opened(file, {}, again=False)


def test_a_failed_cell_is_reported_and_the_others_continue_while_all_participants_run(
    tmp_path: Path,
) -> None:
    chain = Chain(depth=1, policy="delay", cells=(single(6), single(3), single(0.5)))
    asked: list[str] = []

    def run(cell: Cell) -> dict[str, Any]:
        asked.append(cell.name)
        if cell.name == "F=3X":
            raise ContenderFailed("nothing came")
        return a_cell(measure(a_history(), EPISODE))

    def nobody_left() -> None:
        raise ContenderFailed("hop1 ended with -9")

    kept = Kept(tmp_path / "dpc.json")
    output: list[str] = []
    run_cells(chain, kept, output.append, run=run, check=lambda: None)
    assert kept.cells["depth-1-delay/F=3X"] == {"failed": "nothing came"}
    assert kept.is_done("depth-1-delay/F=0.5X")
    assert "F=3X FAILED: nothing came" in output
    asked.clear()
    with pytest.raises(ContenderFailed, match="-9"):
        run_cells(chain, kept, output.append, run=run, check=nobody_left)
    assert asked == ["F=6X", "F=3X"]


def test_an_unknown_name_is_refused_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "depth-3-process"]) == 2
    assert "depth-4-process" in capsys.readouterr().err


# ------------------------------------------------------------ the chain, and the simulator's cells


@pytest.mark.parametrize("depth", DEPTHS)
def test_contracts_of_a_chain_are_contracts_and_its_hops_read_each_other(
    tmp_path: Path, depth: int
) -> None:
    chain = Chain(depth=depth, policy="delay", cells=())
    folder = write_contracts(chain, tmp_path / "contracts")
    read_federation(folder, tmp_path)
    fragments = {f.name: f for f in fragments_of(load_network(str(folder / NETWORK)))}
    assert set(fragments) == set(chain.hops)
    for at, hop in enumerate(chain.hops, start=1):
        assert set(fragments[hop].outputs) == {StreamName(stream_of(chain, at))}
        if at > 1:
            assert fragments[hop].input_streams == (StreamName(stream_of(chain, at - 1)),)
    assert stream_of(chain, depth) == OUTPUT


@pytest.mark.long
def test_one_process_feeds_all_sources_and_the_catalogs_tell_when_each_bucket_was_there() -> None:
    chain = Chain(depth=1, policy="process", cells=())
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder())
        contracts = write_contracts(chain, folder / "contracts")
        federation = stack.enter_context(shipped_federation(folder / "homes", contracts))
        start_feeder(federation)
        until(
            lambda: all(len(v) > 2 for v in read_history(federation, chain).landed.values()),
            "every source has closed three times",
            seconds_max=90,
        )
        history, current = (
            read_history(federation, chain),
            read_status(federation, lines_of(chain)),
        )
        federation.check_all_run()
        (feeder,) = federation.running.values()
    assert feeder.returncode == 0
    assert history.hops == ((),)
    assert (current.tentative, current.commits) == (0, 0)
    for versions in history.landed.values():
        assert {v.stability for v in versions} == {"stable"}
        assert all(v.committed_ms * 1_000 >= v.to_us for v in versions), "none before it is over"
        assert sum(sum(v.rows.values()) for v in versions) > 0


def test_computing_is_counted_for_who_computes_and_nothing_for_who_is_gone() -> None:
    # A process of the test's own: below this one a session of Postgres may end at any time, and
    # what it has computed is not counted any more.
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            until(lambda: cpu_seconds([busy.pid]) > 0.1, "it is counted")
            before_s = cpu_seconds([busy.pid])
            until(lambda: cpu_seconds([busy.pid]) > before_s, "more is counted")
        finally:
            busy.kill()
    assert cpu_seconds([busy.pid]) == 0


def test_every_experiment_is_asked_of_the_simulator_or_said_to_be_left_out() -> None:
    cells = list(asked())
    assert len({one.key for one in cells}) == len(cells)
    assert {one.id for one in cells} | set(NOT_SIMULATED) == {f"D{n}" for n in range(1, 14)}


@pytest.mark.long
def test_a_simulated_chain_answers_within_its_bound_and_is_whole_in_the_end() -> None:
    cell = SimulatedCell(
        depth=2, bucket_ms=500, lost=(("first", 0, 4), ("second", 2, 6)),
        bound=Bound(bound_ms=2_000, during_failure=Policy.PROCESS),
    )  # fmt: skip
    found = simulate(cell, [60, 90])
    assert found.is_whole
    assert len(found.figures.hops) == 2
    assert found.figures.end.tentative_buckets > 0
    assert found.figures.end.delay_new_s <= 2
    assert found.figures.end.computed_max == 2
    masked = simulate(
        SimulatedCell(depth=1, bucket_ms=500, lost=(("first", 0, 1),), bound=Bound(bound_ms=8_000)),
        [60],
    )
    assert masked.figures.end.tentative_buckets == 0
    lines = list(simulated_lines({"simulated/D1/F=1s": {"failed": "Violation: S6"}}))
    assert lines[-1] == "FAILED simulated/D1/F=1s: Violation: S6"
