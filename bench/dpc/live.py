"""One federation on real processes: started, its cells one after the other, ended.

A cell waits on conditions read from the catalogs: that the chain is steady before it, and that all
is final again after its last heal.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench.apart import apart
from bench.dpc.contracts import NETWORK, lines_of, write_contracts
from bench.dpc.cutting import cut_off
from bench.dpc.loading import Load
from bench.dpc.metrics import Episode, Lost, measure
from bench.dpc.oracle import compare
from bench.dpc.reading import Line, read_history, read_status
from bench.dpc.scenario import (
    BETWEEN_S,
    BUCKET_S,
    LANDING,
    SOURCE_OF,
    STEADY_STEPS,
    Cell,
    Chain,
    Planned,
)
from bench.dpc.waiting import until, wait_until
from bench.federation import Federation, shipped_federation
from bench.processes import REPOSITORY, ContenderFailed
from bench.soak import own_folder
from medusa_core.grid import Range
from medusa_core.network import Network
from pipelines.language.load import load_network

FEEDER = "feeder"
START_S_MAX = 420.0

Document = dict[str, object]
Say = Callable[[str], None]


@contextmanager
def running(chain: Chain, say: Say) -> Iterator[Federation]:
    """The chain at work; every process is gone at the end, whatever happens."""
    write = partial(write_contracts, chain)
    with at_work(chain, write, lines_of(chain), say) as federation:
        yield federation


@contextmanager
def at_work(
    planned: Planned, write: Callable[[Path], Path], lines: Sequence[Line], say: Say
) -> Iterator[Federation]:
    """Homes with the contracts that `write` writes, the feeder, and whoever writes one of `lines`,
    once each of them is steady; every process is gone at the end, whatever happens."""
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder())
        contracts = write(folder / "contracts")
        federation = stack.enter_context(shipped_federation(folder / "homes", contracts))
        names = [FEEDER, *(participant for participant, _ in lines)]
        if planned.delay_ms:
            stack.enter_context(apart(federation, names, planned.delay_ms))
        start_feeder(federation)
        for participant in names[1:]:
            federation.start(participant)
        say("started; waits until it is steady")
        _wait_until_steady(federation, planned.name, lines)
        yield federation


def _wait_until_steady(federation: Federation, name: str, lines: Sequence[Line]) -> None:
    try:
        until(
            lambda: read_status(federation, lines).commits >= STEADY_STEPS,
            f"everybody of {name} has made {STEADY_STEPS} steps",
            federation,
            START_S_MAX,
        )
    except ContenderFailed as error:
        made = ", ".join(
            f"{line[0]} has made {read_status(federation, [line]).commits}" for line in lines
        )
        raise ContenderFailed(f"{error}; {made}") from error


def run_cell(federation: Federation, chain: Chain, cell: Cell, say: Say) -> Document:
    """Let it happen and measure it; raises ContenderFailed if it does not come to its end."""
    load = Load.of(process.pid for process in federation.running.values())
    lines, began_s = lines_of(chain), time.time()
    lost: list[Lost] = []
    for cut in sorted(cell.cuts, key=lambda cut: cut.from_s):
        wait_until(began_s + cut.from_s, federation)
        from_s, to_s = cut_off(
            federation.settings.directory, [cut.lander], chain.hops[0], cut.to_s - cut.from_s
        )
        lost.append(Lost(source=SOURCE_OF[cut.lander], from_ms=from_s * 1e3, to_ms=to_s * 1e3))
    heal_s = max(one.to_ms for one in lost) / 1_000
    wait_until(heal_s, federation)
    wait_until_whole(federation, lines, heal_s)
    final_us, settled_s = read_status(federation, lines).final_us, time.time()
    machine = load.document()
    episode = Episode(began_ms=began_s * 1e3, settled_ms=settled_s * 1e3, lost=tuple(lost))
    figures = measure(read_history(federation, chain), episode)
    found = compare(
        federation, chain.hops[-1], network_of(federation), Range(bucket_us(began_s), final_us)
    )
    wait_for_peace(federation, lines, settled_s)
    say(
        f"{cell.name}: delay {figures.end.delay_new_s:.2f} s, "
        f"{figures.end.tentative_buckets} tentative buckets, whole {settled_s - heal_s:.1f} s "
        "after the heal"
    )
    return {"figures": figures.document(), "oracle": found.document(), "machine": machine}


def start_feeder(federation: Federation) -> None:
    """Start the one process that generates and lands all inputs."""
    with federation.log(FEEDER).open("ab") as log:
        federation.running[FEEDER] = subprocess.Popen(
            [*federation.prefix(FEEDER), sys.executable, "-m", "bench.dpc.feeding", *LANDING],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            cwd=REPOSITORY, env=federation.environment(),
        )  # fmt: skip


def wait_until_whole(
    federation: Federation, lines: Sequence[Line], heal_s: float, home: str | None = None
) -> None:
    """Until nothing is tentative and every line, or a home's copy of it, is final up to behind the
    heal."""

    def is_whole() -> bool:
        current = read_status(federation, lines, home)
        return current.final_us >= (heal_s + BUCKET_S) * 1e6 and current.tentative == 0

    until(is_whole, "all is final again", federation)


def wait_for_peace(federation: Federation, lines: Sequence[Line], settled_s: float) -> None:
    """Let so much pass without a failure that the next cell has something to compare with."""
    until(
        lambda: read_status(federation, lines).final_us / 1e6 >= settled_s + BETWEEN_S,
        f"{BETWEEN_S:g} s without a failure",
        federation,
    )


def bucket_us(at_s: float) -> int:
    """The start of the bucket in which a time lies."""
    return int(at_s / BUCKET_S) * int(BUCKET_S * 1e6)


def network_of(federation: Federation) -> Network:
    """What a federation that `at_work` made runs."""
    return load_network(str(federation.settings.directory.parent / "contracts" / NETWORK))
