"""`python -m bench moves`: what a move costs: the pause in new answers, CPU, and bytes.

Two participants run as operators run them. Alpha lands generated records and counts them over
windows of two seconds; its fragment is handed over to beta under a movement contract and taken
back, several times. With `--network three` delta computes a network like netmon3 from streams of
alpha, beta and gamma, and hands it over to alpha, which reads the others at their origins.

The delay of a bucket is the time from its end to its commit in the payer's home. The pause of a
move is how much later than the median bucket before all moves the latest one came. CPU is that of
all participants' processes beyond what they take while nothing moves. Bytes are what the provider
receives until the release; the first move brings the kept history of the inputs.

At the end the payer's rows are compared with what has landed: exit code 1 if they differ.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.machine import describe_machine
from bench.process_tree import cpu_seconds
from bench.soak import own_folder
from bench.wanted import Wanted, wanted_lines
from medusa_core.market.moves import MoveState
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.operations.fragment_moves import MoveRequest, begin_move, end_move
from tests.conftest import folder_on_memory
from tests.federation.moving_offices import Participants, check, participants, wait_for
from tests.federation.netmon3_offices import LOAD_OF_DELTA, check_netmon3, netmon3

WIDTH_S = 2.0
"""The buckets of the fragment's output."""

PAUSE_S = WIDTH_S + 1.0
"""What is promised: one bucket and a second."""

STEPS = """SELECT from_us / 1e6, to_us / 1e6, extract(epoch FROM committed_at)
    FROM medusa.commit WHERE fragment = :fragment AND cause = 'normal'
    AND committed_at > to_timestamp(:since_s) ORDER BY commit_id"""
RECEIVED = "SELECT coalesce(sum(bytes_received), 0) FROM medusa_market.link WHERE side = 'client'"


@dataclass(frozen=True, slots=True)
class MoveCost:
    """A move and its way back: until the release, pauses of both ways, CPU and bytes of both."""

    released_s: float
    pause_s: float
    pause_back_s: float
    cpu_s: float
    received_bytes: int


def running(
    server: EmbeddedServer, folder: Path, network: str
) -> AbstractContextManager[Participants]:
    """The participants of a network, as they run."""
    if network == "three":
        return netmon3(server, folder, LOAD_OF_DELTA)
    return participants(server, folder)


def delays_s(both: Participants, since_s: float) -> list[float]:
    """Seconds from the end of each bucket to its commit, of those committed since."""
    found = []
    for from_s, to_s, committed_s in both.payer.sql(STEPS, since_s=since_s, fragment=both.fragment):
        ends_s = float(from_s) + WIDTH_S
        while ends_s <= float(to_s):
            found.append(float(committed_s) - ends_s)
            ends_s += WIDTH_S
    return found


def advance(both: Participants, buckets: int) -> None:
    """Until so many more buckets are committed."""
    since_s = time.time()
    wait_for("buckets are committed", lambda: len(delays_s(both, since_s)) >= buckets)


def cpu_s(both: Participants) -> float:
    """What all have computed so far."""
    return cpu_seconds([process.pid for process in both.processes.values()])


def received(both: Participants) -> int:
    """What the provider has received."""
    return int(both.provider.sql(RECEIVED)[0][0])


def measured(both: Participants, idle_s: float, idle_cpu: float) -> MoveCost:
    """One move and its way back, beyond the delay and the CPU a second of no move."""
    began_s, cpu, received_before = time.time(), cpu_s(both), received(both)
    payer, provider = both.payer.participant, both.provider.participant
    begin_move(both.payer.settings, MoveRequest(participant=payer, fragment="main", to=provider))
    both.until_state(MoveState.RELEASED)
    released_s = time.time()
    advance(both, 4)
    back_s, out = time.time(), delays_s(both, began_s)
    arrived = received(both) - received_before
    end_move(both.payer.settings, payer, "main")
    both.until_state(MoveState.ENDED)
    both.until_state(MoveState.ENDED, is_given=False)
    advance(both, 4)
    spent = cpu_s(both) - cpu - idle_cpu * (time.time() - began_s)
    return MoveCost(
        released_s=released_s - began_s,
        pause_s=max(out) - idle_s,
        pause_back_s=max(delays_s(both, back_s)) - idle_s,
        cpu_s=spent,
        received_bytes=arrived,
    )


def main(arguments: Sequence[str]) -> int:
    """Move, measure, judge."""
    parser = argparse.ArgumentParser(prog="bench moves", description=__doc__)
    parser.add_argument("--moves", type=int, default=5)
    parser.add_argument("--network", choices=("counts", "three"), default="counts")
    parser.add_argument("--idle", type=int, default=10, help="buckets before the first move")
    parser.add_argument("--json", type=Path, help="where the figures go")
    options = parser.parse_args(arguments)
    server = EmbeddedServer(folder_on_memory("medusa-moves-"))
    found: list[MoveCost] = []
    try:
        with server, own_folder() as folder, running(server, folder, options.network) as both:
            began_s, cpu = time.time(), cpu_s(both)
            advance(both, options.idle)
            idle_cpu = (cpu_s(both) - cpu) / (time.time() - began_s)
            idle_s = median(delays_s(both, began_s))
            print(f"{'':10}{'released':>10}{'pause s':>10}{'back s':>10}{'CPU s':>8}{'KiB':>8}")
            for number in range(1, options.moves + 1):
                cost = measured(both, idle_s, idle_cpu)
                found.append(cost)
                print(
                    f"move {number:<5}{cost.released_s:>10.1f}{cost.pause_s:>10.2f}"
                    f"{cost.pause_back_s:>10.2f}{cost.cpu_s:>8.1f}"
                    f"{cost.received_bytes / 1024:>8.0f}",
                    flush=True,
                )
            (check_netmon3 if options.network == "three" else check)(both)
    except AssertionError as error:
        print(f"the rows differ, or something never came: {error}", file=sys.stderr)
        return 1
    finally:
        server.discard()
    pauses = [max(cost.pause_s, cost.pause_back_s) for cost in found]
    print(f"delay of a bucket while nothing moves {idle_s:.2f} s, {idle_cpu:.2f} cores")
    print("\n".join(wanted_lines([
        Wanted(name="pause of a move, most, s", measured=max(pauses), promised=PAUSE_S),
    ])))  # fmt: skip
    if options.json is not None:
        document = {"machine": describe_machine(), "idle_delay_s": idle_s,
                    "moves": [asdict(cost) for cost in found]}  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
