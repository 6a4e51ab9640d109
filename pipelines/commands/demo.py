"""`medusa demo`: made-up connections through netmon on Spark, with the answer checked.

Everything lies in MEDUSA_DIR/demo: `input` (generated, from a seed), `home` (catalog and storage of
the replay, kept to be looked at), `out` (the outputs as CSV) and `report.html`. A folder of that
name that no demo made is left alone. It needs no test data and no network.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from medusa_core.errors import Conflict, MedusaError, Refused, Unavailable
from medusa_core.grid import parse_duration_us
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from pipelines.catalog.homes import drop_home
from pipelines.catalog.server import EmbeddedServer
from pipelines.commands.replay import SOLO
from pipelines.commands.tables import Progress, facts, table
from pipelines.home import SERVER, Home, known_homes, make_home
from pipelines.networks.load import load_network
from pipelines.replay import ReplayOrder, ReplayResult, replay
from pipelines.report.next_steps import near, next_commands
from pipelines.report.page import write_page
from pipelines.report.recount import can_recount, recount
from pipelines.report.times import counted, duration
from pipelines.settings import Settings

NETWORK = "netmon"
MARK = "made-by-medusa-demo"
BUSIEST = 10
RECORDS_PER_STEP = 20_000
"""Smaller steps than a replay would take, so that there are several to look at."""
CHECK_FAILED, INTERRUPTED = 1, 130


def demo(settings: Settings, *, records: int, seed: int) -> int:
    """Run the demo and print what came of it; 1 if the answer is not what DuckDB counts."""
    try:
        with _folder(settings.directory / "demo") as folder:
            return _run(settings, folder, records=records, seed=seed)
    except KeyboardInterrupt:
        left = _children()
        state = "no process is left" if not left else f"processes {left} are still ending"
        print(f"medusa: demo interrupted; {state}", file=sys.stderr)
        return INTERRUPTED


def _run(settings: Settings, folder: Path, *, records: int, seed: int) -> int:
    started_s = time.monotonic()
    network = load_network(NETWORK)
    own = replace(settings, directory=folder / "home")
    say = Progress("  ")
    _tell("Medusa demo: who scans the network?", "")
    _tell(f"1  generate {records:,} connections (seed {seed}) into {near(folder / 'input')}")
    inputs = _generated(folder / "input", records=records, seed=seed)
    _remove_home(own)
    _tell(
        f"2  replay the query network {NETWORK} over them: windows of 60 s, on Spark (which takes "
        "seconds to start)"
    )
    order = ReplayOrder(
        network=network,
        inputs={StreamName(network.sources[0].name): tuple(inputs)},
        width_us=parse_duration_us(network.bucket),
        limits=Limits(records_per_step_max=RECORDS_PER_STEP),
    )
    with make_home(own, SOLO, keep=True) as home:
        result = replay(order, home, folder / "out", say=say)
        say.end()
        _tell(f"3  write the report from the catalog to {near(folder / 'report.html')}")
        write_page(folder / "report.html", home=home, network=network, result=result.document())
        steps_ms = [sum(s.metrics.phases_ms.values()) for s in home.catalog.steps()]
        busiest = _busiest(home)
    is_right, checked = _check(inputs, result)
    _tell(f"4  {checked}", "")
    _tell(f"The {len(busiest)} busiest scanning sources (distinct ports in 60 s > 10):", "", table(
        ("source", "windows", "connections", "most ports in 60 s"), busiest), "")  # fmt: skip
    _tell(_totals(result, steps_ms, time.monotonic() - started_s), "")
    _tell(f"Report, with pictures: {(folder / 'report.html').resolve().as_uri()}", "")
    _tell("What to type next:", "")
    for command in next_commands(own.directory, stream="scanning_sources"):
        _tell(f"  {command}")
    return 0 if is_right else CHECK_FAILED


def _tell(*lines: str) -> None:
    print("\n".join(lines), flush=True)


# ------------------------------------------------------------ what the demo owns


@contextmanager
def _folder(folder: Path) -> Iterator[Path]:
    """The demo's own folder, held alone; Refused if somebody else's things lie there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / MARK
        if not mark.exists() and any(folder.iterdir()):
            raise Refused(
                f"{folder} holds what no demo made: move it away, or set MEDUSA_DIR to another "
                "folder"
            )
        # Postgres may have to pass through as another user.
        file = mark.open("a")
    except OSError as error:
        raise Unavailable(
            f"{error.filename or folder} cannot be made ({error.strerror}): set MEDUSA_DIR to a "
            "folder of yours"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise Conflict(f"another demo works in {folder}: wait for it to end") from error
        yield folder


def _remove_home(settings: Settings) -> None:
    """Remove the home of an earlier demo with its database, wherever the server keeps it."""
    directory = settings.directory
    if not directory.exists():
        return
    if settings.catalog_url is not None:
        database = known_homes(directory).get(SOLO)
        if database is not None:
            drop_home(settings.catalog_url_of("postgres") or "", database)
    if (directory / SERVER).exists():
        _discard(EmbeddedServer(directory / SERVER))
    try:
        shutil.rmtree(directory)
    except OSError as error:
        raise Unavailable(
            f"{error.filename} of the last demo cannot be removed ({error.strerror}): remove "
            f"{directory}, then try again"
        ) from error


def _discard(server: EmbeddedServer) -> None:
    """Remove the last demo's server; Conflict if somebody reads from it just now."""
    if (server.directory / "cluster" / "data" / "postmaster.pid").exists():
        try:
            with server:
                is_free = server.owns_server
        except MedusaError:
            is_free = True  # it does not start any more, so nobody can be reading from it
        if not is_free:
            raise Conflict(
                f"another command reads the last demo's home in {server.directory.parent}: let it "
                "end, then try again"
            )
    server.discard()


def _generated(folder: Path, *, records: int, seed: int) -> list[Path]:
    from pipelines.streams.generate import write_generated

    if folder.exists():
        shutil.rmtree(folder)
    return write_generated(folder, seed=seed, records=records, files=1, format="csv")


def _children() -> list[int]:
    """Processes that this one started and that have not ended; none where there is no /proc."""
    found: list[int] = []
    for path in Path(f"/proc/{os.getpid()}/task").glob("*/children"):
        try:
            found += [int(word) for word in path.read_text().split()]
        except OSError:
            continue
    return found


# ------------------------------------------------------------ what came out


def _busiest(home: Home) -> list[tuple[str, int, int, int]]:
    """Source, windows, connections, most distinct ports in a window; by connections."""
    import pyarrow as pa

    from pipelines.exporting import columns_of, read_segments, stream_record

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
    if not can_recount():
        return True, "not checked: DuckDB, which would count again, is not installed"
    compared = recount(inputs, {name: Path(path) for name, path in result.exported.items()})
    wrong = [c for c in compared if c.differing]
    rows = sum(c.rows for c in compared)
    if not wrong:
        told = f"checked: all {rows:,} rows of {len(compared)} outputs are equal to DuckDB"
        return True, f"{told}, row for row"
    told = "; ".join(
        f"{c.output} has {c.rows:,} rows, DuckDB {c.rows_recounted:,}, {c.differing:,} of them in "
        "one only"
        for c in wrong
    )
    return False, f"WRONG: not equal to DuckDB: {told}"


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
