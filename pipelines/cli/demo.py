"""`medusa demo`: scenes, each with its answer checked and a page that shows it.

First made-up connections go through netmon on Spark, and DuckDB counts them again. Then three
participants run as processes; one of them is cut off and is connected again (`demo_scene.py`).
With `--scene load`, which is not part of the others, a participant hands a fragment over to a
partner and takes it back (`demo_move_scene.py`).

Everything is stored in MEDUSA_DIR/demo: `input` (generated, from a seed), `home` (catalog and
storage of the replay, kept for inspection), `out` (the outputs as CSV), `report.html`;
`federation` (a folder for each of three participants) and `federation.html`; `load` (a folder for
each of two) and `load.html`. A folder of that name that was not made by a demo is left alone. It
needs no test data and no network.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.grid import parse_duration_us
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.suggest import counted
from pipelines.base import clock
from pipelines.base.exit_codes import INTERRUPTED
from pipelines.base.settings import Settings
from pipelines.base.text_table import facts, table
from pipelines.base.time_text import duration
from pipelines.cli.arguments import positive
from pipelines.cli.terminal_progress import Progress

if TYPE_CHECKING:
    from pipelines.homes.home import Home
    from pipelines.participant.replay import ReplayResult

NETWORK = "netmon"
BUSIEST = 10
RECORDS_PER_STEP = 20_000
"""Smaller steps than a replay would take, so that there are several to look at."""
CHECK_FAILED = 1
REPLAY, FEDERATION, LOAD = "replay", "federation", "load"


def demo(settings: Settings, *, records: int, seed: int, scene: str | None = None) -> int:
    """Run the first two scenes, or one, and print what came of it; 1 if something is not right."""
    from pipelines.cli.demo_folder import own_folder

    started_s = clock.monotonic_s()
    try:
        with own_folder(settings.directory / "demo") as folder:
            code = 0
            if scene in (None, REPLAY):
                code = _replay(settings, folder, records=records, seed=seed)
            if scene in (None, FEDERATION):
                _print("" if scene is None else "Medusa demo")
                code = max(code, _federation(settings, folder))
            if scene == LOAD:
                _print("Medusa demo")
                code = _load(settings, folder)
            _print("", f"The demo took {clock.monotonic_s() - started_s:.0f} s.")
            if scene is None:
                _print(f"Another scene, of load that moves: medusa demo --scene {LOAD}")
            return code
    except KeyboardInterrupt:
        left = _children()
        state = "no process is left" if not left else f"processes {left} are still ending"
        print(f"medusa: demo interrupted; {state}", file=sys.stderr)
        return INTERRUPTED


def _federation(settings: Settings, folder: Path) -> int:
    """The scene of the federation."""
    from pipelines.cli.demo_federation import ALL, COMPUTES
    from pipelines.cli.demo_folder import remove_homes
    from pipelines.cli.demo_scene import STREAM, show_scene
    from pipelines.report.next_steps import next_commands

    homes, page = folder / "federation", folder / "federation.html"
    for participant in ALL:
        remove_homes(replace(settings, directory=homes / participant))
    remove_homes(replace(settings, directory=homes))
    _print(
        "A partner is cut off: three participants, one stream of answers, promised within 5 s", ""
    )
    is_right = show_scene(settings, homes, page, say=_print)
    _print("", f"Report, with pictures: {page.resolve().as_uri()}", "", "What to type next:", "")
    for command in next_commands(homes / COMPUTES, stream=STREAM):
        _print(f"  {command}")
    return 0 if is_right else CHECK_FAILED


def _load(settings: Settings, folder: Path) -> int:
    """The scene of a spike of load."""
    from pipelines.cli.demo_folder import remove_homes
    from pipelines.cli.demo_move_homes import MOVING, PAYER
    from pipelines.cli.demo_move_scene import show_move
    from pipelines.report.next_steps import next_commands

    homes, page = folder / "load", folder / "load.html"
    for participant in MOVING.all:
        remove_homes(replace(settings, directory=homes / participant))
    remove_homes(replace(settings, directory=homes))
    _print("A spike of load: a fragment moves to a partner, is paid for, and comes back", "")
    is_right = show_move(settings, homes, page, say=_print)
    _print("", f"Report, with pictures: {page.resolve().as_uri()}", "", "What to type next:", "")
    for command in next_commands(homes / PAYER, commands=("move", "statement", "ledger")):
        _print(f"  {command}")
    return 0 if is_right else CHECK_FAILED


def _replay(settings: Settings, folder: Path, *, records: int, seed: int) -> int:
    """The scene of the replay."""
    from pipelines.cli.demo_folder import remove_homes
    from pipelines.homes.home import make_home
    from pipelines.language.load import load_network
    from pipelines.operations.recorded_replay import SOLO
    from pipelines.participant.replay import StartingSession, replay
    from pipelines.participant.replay_order import ReplayOrder
    from pipelines.report.next_steps import near, next_commands
    from pipelines.report.page import write_page

    started_s = clock.monotonic_s()
    network = load_network(NETWORK)
    own = replace(settings, directory=folder / "home")
    say = Progress("  ")
    _print("Medusa demo: who scans the network?", "")
    _print(f"1  generate {records:,} connections (seed {seed}) into {near(folder / 'input')}")
    inputs = _generated(folder / "input", records=records, seed=seed)
    remove_homes(own)
    _print(
        f"2  replay the query network {NETWORK} over them: windows of 60 s, on Spark (which takes "
        "seconds to start)"
    )
    order = ReplayOrder(
        network=network,
        inputs={StreamName(network.sources[0].name): tuple(inputs)},
        width_us=parse_duration_us(network.bucket),
        limits=Limits(records_per_step_max=RECORDS_PER_STEP),
    )
    with (
        closing(StartingSession()) as session,
        make_home(own, SOLO, keep=True, meanwhile=session.start) as home,
    ):
        result = replay(order, home, folder / "out", say=say, sessions=session.of_home)
        say.end()
        _print(f"3  write the report from the catalog to {near(folder / 'report.html')}")
        write_page(folder / "report.html", home=home, network=network, result=result.document())
        steps_ms = [s.metrics.step_ms for s in home.catalog.steps()]
        busiest = _busiest(home)
    is_right, checked = _check(inputs, result)
    _print(f"4  {checked}", "")
    _print(
        f"The {len(busiest)} busiest scanning sources (distinct ports in 60 s > 10):",
        "",
        table(("source", "windows", "connections", "most ports in 60 s"), busiest),
        "",
    )
    _print(_totals(result, steps_ms, clock.monotonic_s() - started_s), "")
    _print(f"Report, with pictures: {(folder / 'report.html').resolve().as_uri()}", "")
    _print("What to type next:", "")
    for command in next_commands(own.directory, stream="scanning_sources"):
        _print(f"  {command}")
    return 0 if is_right else CHECK_FAILED


def _print(*lines: str) -> None:
    print("\n".join(lines), flush=True)


def _generated(folder: Path, *, records: int, seed: int) -> list[Path]:
    from pipelines.sources.generated_files import write_generated

    if folder.exists():
        shutil.rmtree(folder)
    return write_generated(folder, seed=seed, records=records, files=1, format="csv")


def _children() -> list[int]:
    """Processes that this one started and that have not ended."""
    import psutil

    return [child.pid for child in psutil.Process().children()]


# ------------------------------------------------------------ what came out


def _busiest(home: Home) -> list[tuple[str, int, int, int]]:
    """Source, windows, connections, most distinct ports in a window; by connections."""
    import pyarrow as pa

    from pipelines.storage.segment_rows import columns_of, read_segments, stream_record

    stream = StreamName("scanning_sources")
    columns = columns_of(stream_record(home.catalog, stream))
    segments = [s for s in home.catalog.segments(stream) if s.stability.is_final]
    tables = list(read_segments(home.storage, segments, columns))
    if not tables:
        return []
    sums = pa.concat_tables(tables).group_by("orig_h").aggregate(
        [("connections", "count"), ("connections", "sum"), ("distinct_ports", "max")]
    )  # fmt: skip
    rows = [
        (r["orig_h"], r["connections_count"], r["connections_sum"], r["distinct_ports_max"])
        for r in sums.to_pylist()
    ]
    return sorted(rows, key=lambda row: (-row[2], row[0]))[:BUSIEST]


def _check(inputs: Sequence[Path], result: ReplayResult) -> tuple[bool, str]:
    """Whether the outputs are right, and the sentence that says so."""
    from pipelines.report.recount import can_recount, recount

    if not can_recount():
        return True, "not checked: DuckDB, which would count again, is not installed"
    compared = recount(inputs, {name: Path(path) for name, path in result.exported.items()})
    wrong = [c for c in compared if c.differing]
    rows = sum(c.rows for c in compared)
    if not wrong:
        streams = f"checked: all {rows:,} rows of {len(compared)} outputs are equal to DuckDB"
        return True, f"{streams}, row for row"
    streams = "; ".join(
        f"{c.output} has {c.rows:,} rows, DuckDB {c.rows_recounted:,}, {c.differing:,} of them in "
        "one only"
        for c in wrong
    )
    return False, f"WRONG: not equal to DuckDB: {streams}"


def _totals(result: ReplayResult, steps_ms: Sequence[float], seconds: float) -> str:
    streams: Mapping[str, Mapping[str, Any]] = result.streams
    outputs = ", ".join(f"{f['rows']:,} {name}" for name, f in streams.items()
                        if name in result.exported)  # fmt: skip
    records = sum(f["rows"] for name, f in streams.items() if name not in result.exported)
    steps = f"{counted(len(steps_ms), 'commit')}, {counted(result.spark_jobs, 'Spark job')}"
    return facts(
        [
            ("records in", f"{records:,} ({result.quarantined:,} in quarantine)"),
            ("rows out", outputs),
            ("steps", f"{steps}, {duration(sum(steps_ms) * 1_000)} in steps"),
            ("plan", result.plan),
            ("time", f"{seconds:.1f} s in all"),
        ]
    )


HELP = "a replay that is checked, a partner that is cut off and comes back, load that moves"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa demo`."""
    parser.add_argument("--records", type=positive, default=200_000, help="how many to generate")
    parser.add_argument("--seed", type=int, default=1)
    scene = "only this one (default: replay and federation)"
    parser.add_argument("--scene", choices=(REPLAY, FEDERATION, LOAD), help=scene)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run the demo or one of its scenes."""
    return demo(settings, records=options.records, seed=options.seed, scene=options.scene)
