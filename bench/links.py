"""Links between two machines with faults: what is lost or doubled, and how long a poll takes.

    python -m bench links [--only FAULT …] [--tries N] [--json FILE]

Two network namespaces and a cable between them whose packets are delayed, lost, cut or reset; or
a fault at one of its ends. The homes, the exchange server and the importer are the product's
(`tests/networks`, root on Linux).
Exit code 1 where a row is lost or doubled.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from pipelines.catalog.server.embedded_server import EmbeddedServer
from tests.conftest import folder_on_memory
from tests.networks.cable import Conditions
from tests.networks.linked_homes import LinkedHomes, Load, linked_homes
from tests.networks.namespaces import why_not
from tests.networks.server_faults import (
    clocks_apart,
    expired_certificate,
    never_ending,
    one_byte_a_second,
    server_instead,
)

LOAD = Load(buckets=12, bytes_each=40_000)
HEALTHY, CUT = Conditions(), Conditions(is_cut=True)


@dataclass(frozen=True)
class Cell:
    """A fault: the conditions of both directions, or of one, or what it is at an end.

    `until`: words of the problem that beta reports before the fault is healed; None: it stays.
    """

    name: str
    conditions: Conditions = HEALTHY
    receivers: tuple[str, ...] = ("alpha", "beta")
    at_an_end: Callable[[LinkedHomes], AbstractContextManager[None]] = nullcontext
    until: str | None = None


CELLS = (
    Cell("none"),
    Cell("cut, both ways", CUT, until="answer"),
    Cell("cut, requests alone", CUT, ("alpha",), until="answer"),
    Cell("cut, answers alone", CUT, ("beta",), until="answer"),
    Cell("connections forgotten", Conditions(is_forgotten=True)),
    Cell("reset after 25 kB", Conditions(reset_after=25_000), ("beta",)),
    Cell("1 % lost", Conditions(loss=0.01)),
    Cell("10 % lost", Conditions(loss=0.1)),
    Cell("50 ms", Conditions(delay_ms=50)),
    Cell("300 ms", Conditions(delay_ms=300)),
    Cell("1 Mbit/s", Conditions(bits_per_s=1e6)),
    Cell("clocks 5 minutes apart", at_an_end=clocks_apart),
    Cell("certificate expired", at_an_end=expired_certificate, until="certificate"),
    Cell(
        "one byte a second",
        until="bytes a second",
        at_an_end=partial(server_instead, answer=one_byte_a_second),
    ),
    Cell(
        "an answer that never ends",
        until="more than",
        at_an_end=partial(server_instead, answer=never_ending),
    ),
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Of one try: buckets of the two homes, the longest poll, and the time after the heal, or
    after the last bucket was landed, until all was imported."""

    fault: str
    buckets: int
    lost: int
    doubled: int
    longest_poll_s: float
    complete_s: float


def measured(server: EmbeddedServer, folder: Path, cell: Cell) -> Measured:
    """One try."""
    with linked_homes(server, folder, LOAD) as homes:
        homes.import_more()
        others = {"alpha": "beta", "beta": "alpha"}
        for receiver in cell.receivers:
            homes.network.cable.toward(receiver, others[receiver], cell.conditions)
        with cell.at_an_end(homes):
            homes.work(homes.has_landed, "all is landed")
            if cell.until is not None:
                homes.until_problem(cell.until)
                homes.network.cable.heal()
        began_s = time.monotonic()
        homes.work(homes.is_copied, "all is imported")
        complete_s = time.monotonic() - began_s
        theirs, ours = (
            Counter(at for s in homes.segments(one) for at in s.buckets)
            for one in (homes.alpha, homes.beta)
        )
        return Measured(
            fault=cell.name,
            buckets=theirs.total(),
            lost=(theirs - ours).total(),
            doubled=(ours - theirs).total(),
            longest_poll_s=round(max(homes.polls_s), 2),
            complete_s=round(complete_s, 1),
        )


def tried(
    cells: Sequence[Cell], tries: int, on_measured: Callable[[Measured], None]
) -> list[Measured]:
    """Some cells, each so many times."""
    found = []
    server = EmbeddedServer(folder_on_memory("medusa-links-"))
    try:
        with server:
            for number in range(tries):
                for cell in cells:
                    folder = Path(tempfile.mkdtemp(prefix="medusa-links-"))
                    folder.chmod(0o711)
                    try:
                        found.append(measured(server, folder / str(number), cell))
                    finally:
                        shutil.rmtree(folder, ignore_errors=True)
                    on_measured(found[-1])
    finally:
        server.discard()
    return found


def table_of(found: Sequence[Measured]) -> list[str]:
    """The table, as Markdown: the worst of all tries."""
    lines = [
        "| fault | tries | buckets | lost | doubled | longest poll | all imported after |",
        "|---|---|---|---|---|---|---|",
    ]
    for cell in CELLS:
        rows = [one for one in found if one.fault == cell.name]
        if rows:
            lines.append(
                f"| {cell.name} | {len(rows)} | {sum(r.buckets for r in rows)} "
                f"| {sum(r.lost for r in rows)} | {sum(r.doubled for r in rows)} "
                f"| {max(r.longest_poll_s for r in rows)} s "
                f"| {max(r.complete_s for r in rows)} s |"
            )
    return lines


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and write all as JSON."""
    parser = argparse.ArgumentParser(prog="bench links", description=__doc__)
    parser.add_argument("--tries", type=int, default=3, help="of each fault (default: 3)")
    names = [cell.name for cell in CELLS]
    parser.add_argument("--only", nargs="+", choices=names, metavar="FAULT", default=names,
                        help=", ".join(names).replace("%", "%%"))  # fmt: skip
    parser.add_argument("--json", type=Path, help="where the document goes")
    options = parser.parse_args(arguments)
    if reason := why_not():
        print(reason, file=sys.stderr)
        return 4
    cells = [cell for cell in CELLS if cell.name in options.only]
    found = tried(cells, options.tries, lambda one: print(one, file=sys.stderr, flush=True))
    print("\n".join(table_of(found)))
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n")
    return 1 if any(one.lost or one.doubled for one in found) else 0
