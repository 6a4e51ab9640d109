"""D12 on real processes: a replica killed and restarted, one cut off from the reader, and both.

One federation, one cell after the other. The lost replica is always the one from which the reader
reads when the cell begins; losing the other one would have no effect. The reader's answers are
measured like those of any chain (`metrics.py`): the sources are the healthy inputs as long as one
replica is available.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from bench.dpc.contracts import OUTPUT
from bench.dpc.cutting import cut_off
from bench.dpc.live import (
    Document,
    Say,
    at_work,
    bucket_us,
    network_of,
    wait_for_peace,
    wait_until_whole,
)
from bench.dpc.loading import Load
from bench.dpc.metrics import Episode, Lost, measure
from bench.dpc.oracle import compare
from bench.dpc.reading import read_choices, read_divergences, read_lines, read_status
from bench.dpc.replica_contracts import CHOSEN, LINES, write_replicas
from bench.dpc.replica_figures import measure_switch, read_of
from bench.dpc.scenario import EAST, READER, REPLICAS, SOURCE_OF, ReplicaCell, ReplicaSet
from bench.dpc.waiting import wait_until
from bench.federation import Federation, kill_group
from medusa_core.grid import Range


@contextmanager
def running(asked: ReplicaSet, say: Say) -> Iterator[Federation]:
    """The replicas and their reader at work; every process is gone at the end."""
    with at_work(asked, partial(write_replicas, asked), LINES, say) as federation:
        yield federation


def run_cell(federation: Federation, cell: ReplicaCell, say: Say) -> Document:
    """Let it happen and measure it; raises ContenderFailed if it does not come to its end."""
    preferred = read_of(read_choices(federation, READER, CHOSEN), REPLICAS)
    lost = REPLICAS if cell.is_both else (preferred,)
    stay = [p.pid for who, p in federation.running.items() if not cell.is_killed or who not in lost]
    load = Load.of(stay)
    if cell.is_killed:
        from_s, to_s = _kill(federation, lost, cell.lasts_s)
    else:
        from_s, to_s = cut_off(federation.settings.directory, lost, READER, cell.lasts_s)
        wait_until(to_s, federation)
    wait_until_whole(federation, LINES, to_s)
    wait_until_whole(federation, LINES, to_s, READER)
    final_us, settled_s = read_status(federation, LINES).final_us, time.time()
    machine = load.document()
    # Without any replica their sources do not reach the reader; with one, none of them is lost.
    gone = [SOURCE_OF[n] for n in SOURCE_OF if n != EAST] if cell.is_both else lost
    episode = Episode(
        began_ms=from_s * 1e3,
        settled_ms=settled_s * 1e3,
        lost=tuple(Lost(source=one, from_ms=from_s * 1e3, to_ms=to_s * 1e3) for one in gone),
    )
    figures = measure(read_lines(federation, [(READER, OUTPUT)]), episode)
    switch = measure_switch(
        read_choices(federation, READER, CHOSEN), lost=lost, replicas=REPLICAS,
        from_ms=from_s * 1e3, to_ms=to_s * 1e3, settled_ms=settled_s * 1e3,
        divergences=read_divergences(federation, READER, CHOSEN),
    )  # fmt: skip
    part = Range(bucket_us(from_s), final_us)
    found = compare(federation, READER, network_of(federation), part)
    wait_for_peace(federation, LINES, settled_s)
    switched = (
        ""
        if switch.switch_s is None
        else f"switched after {switch.switch_s:.2f} s, taken {switch.taken_s:.2f} s, "
    )
    say(
        f"{cell.name} ({', '.join(lost)}): {switched}delay {figures.end.delay_new_s:.2f} s, "
        f"{figures.end.tentative_buckets} tentative buckets, whole {switch.whole_s:.1f} s later"
    )
    return {
        "figures": figures.document(),
        "switch": switch.document(),
        "oracle": found.document(),
        "machine": machine,
    }


def _kill(federation: Federation, lost: tuple[str, ...], lasts_s: float) -> tuple[float, float]:
    """`kill -9` to these, started again after so long; from when until when, in s."""
    from_s = time.time()
    for one in lost:
        kill_group(federation.running.pop(one))
    wait_until(from_s + lasts_s, federation)
    to_s = time.time()
    for one in lost:
        federation.start(one)
    return from_s, to_s
