"""One federation on real processes: started, its cells one after the other, ended.

A cell waits on conditions read from the catalogs: that the chain is steady before it, and that all
is final again after its last heal. What a failure is, is the product's drill: a line in
`drills.json`, which ends by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.dpc.contracts import NETWORK, write_contracts
from bench.dpc.metrics import Episode, Lost, measure
from bench.dpc.oracle import compare
from bench.dpc.reading import read_history, read_standing
from bench.dpc.scenario import BETWEEN_S, BUCKET_S, LANDING, SOURCE_OF, STEADY_STEPS, Cell, Chain
from bench.federation import Federation, shipped_federation
from bench.process_tree import cpu_seconds
from bench.processes import REPOSITORY, ContenderFailed
from bench.soak import own_folder
from medusa_core.grid import Range
from medusa_core.names import Participant
from pipelines.drills import links
from pipelines.networks.load import load_network

FEEDER = "feeder"
START_S_MAX = 420.0
SETTLE_S_MAX = 180.0
LOOK_AGAIN_S = 0.5

Document = dict[str, object]
Say = Callable[[str], None]


@contextmanager
def running(chain: Chain, say: Say) -> Iterator[Federation]:
    """The chain at work; every process is gone at the end, whatever happens."""
    with own_folder() as folder:
        contracts = write_contracts(chain, folder / "contracts")
        with shipped_federation(folder / "homes", contracts) as federation:
            start_feeder(federation)
            for hop in chain.hops:
                federation.start(hop)
            say("started; waits until it is steady")
            _until(
                lambda: read_standing(federation, chain).commits >= STEADY_STEPS,
                f"every hop of {chain.name} has made {STEADY_STEPS} steps",
                federation,
                START_S_MAX,
            )
            yield federation


def run_cell(federation: Federation, chain: Chain, cell: Cell, say: Say) -> Document:
    """Let it happen and measure it; raises ContenderFailed if it does not come to its end."""
    pids = [process.pid for process in federation.running.values()]
    load_before, cpu_before, began_s = os.getloadavg(), cpu_seconds(pids), time.time()
    lost: list[Lost] = []
    for cut in sorted(cell.cuts, key=lambda cut: cut.from_s):
        _wait_until(began_s + cut.from_s, federation)
        lost.append(_cut(federation, chain, cut.lander, cut.to_s - cut.from_s))
    heal_s = max(one.to_ms for one in lost) / 1_000
    _wait_until(heal_s, federation)
    _until(lambda: _is_whole(federation, chain, heal_s), "all is final again", federation)
    final_us, settled_s = read_standing(federation, chain).final_us, time.time()
    passed_s = settled_s - began_s
    cpu_s = cpu_seconds(pids) - cpu_before
    episode = Episode(began_ms=began_s * 1e3, settled_ms=settled_s * 1e3, lost=tuple(lost))
    figures = measure(read_history(federation, chain), episode)
    network = load_network(str(_contracts(federation) / NETWORK))
    found = compare(federation, chain, network, Range(_bucket_us(began_s), final_us))
    _until(
        lambda: read_standing(federation, chain).final_us / 1e6 >= settled_s + BETWEEN_S,
        f"{BETWEEN_S:g} s without a failure",
        federation,
    )
    say(
        f"{cell.name}: delay {figures.end.delay_new_s:.2f} s, "
        f"{figures.end.tentative_buckets} tentative buckets, whole {settled_s - heal_s:.1f} s "
        "after the heal"
    )
    return {
        "figures": figures.document(),
        "oracle": {"rows": found.rows, "lost": found.lost, "extra": found.extra},
        "machine": {
            "load_before": load_before,
            "load_after": os.getloadavg(),
            "own_cores": round(cpu_s / passed_s, 3),
            "seconds": round(passed_s, 1),
        },
    }


def start_feeder(federation: Federation) -> None:
    """Start the one process that generates and lands all inputs."""
    with federation.log(FEEDER).open("ab") as log:
        federation.running[FEEDER] = subprocess.Popen(
            [sys.executable, "-m", "bench.dpc.feeding", *LANDING],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            cwd=REPOSITORY, env=federation.environment(),
        )  # fmt: skip


def _cut(federation: Federation, chain: Chain, lander: str, lasts_s: float) -> Lost:
    """Cut a lander off from the head of the chain, from now on for so long."""
    directory = federation.settings.directory
    one, head = Participant(lander), Participant(chain.hops[0])
    with links.faults_alone(directory):
        from_s = time.time()
        until_s = from_s + lasts_s
        rows = (links.Lost(one, head, until_s), links.Lost(head, one, until_s))
        before = links.read_faults(directory / links.FILE)
        links.write_faults(directory, before.at(from_s).with_lost(*rows))
    return Lost(source=SOURCE_OF[lander], from_ms=from_s * 1e3, to_ms=until_s * 1e3)


def _is_whole(federation: Federation, chain: Chain, heal_s: float) -> bool:
    """Whether nothing is tentative and the end of the chain is final up to behind the heal."""
    stands = read_standing(federation, chain)
    return stands.final_us >= (heal_s + BUCKET_S) * 1e6 and stands.tentative == 0


def _bucket_us(at_s: float) -> int:
    """The start of the bucket in which a time lies."""
    return int(at_s / BUCKET_S) * int(BUCKET_S * 1e6)


def _wait_until(at_s: float, federation: Federation) -> None:
    """A failure lasts as long as it is to last; who ends meanwhile is noticed."""
    while (left_s := at_s - time.time()) > 0:
        federation.check_all_run()
        time.sleep(min(left_s, LOOK_AGAIN_S))


def _until(
    holds: Callable[[], bool], what: str, federation: Federation, s_max: float = SETTLE_S_MAX
) -> None:
    ends_s = time.monotonic() + s_max
    while not holds():
        federation.check_all_run()
        if time.monotonic() > ends_s:
            said = " · ".join(
                f"{who}: {federation.last_words(who)[-300:]}" for who in federation.running
            )
            raise ContenderFailed(f"waited {s_max:g} s in vain until {what} ({said})")
        time.sleep(LOOK_AGAIN_S)


def _contracts(federation: Federation) -> Path:
    """Where the contracts of a federation that `running` made lie."""
    return federation.settings.directory.parent / "contracts"
