"""`python -m bench headroom`: how late the first tentative answer is on a busy machine.

The federation of `medusa demo`, in one folder (`scanners/contracts`), runs as processes (three
participants, one output promised within 5 s) next to processes that use all of the CPU that they
can get. A link of the computing participant is cut, and healed once the output has been answered
without the input; then the next one is cut. The figure of a cut is the delay of its first
tentative answer, from the catalog: from
when the available inputs could have been used to the commit of the answer. The promise has
headroom if no answer of any cut is later than the bound.

Every `--restart-every`th cut follows right after a restart of the computing participant, as soon
as it has caught up: its engine has made few steps by then, and none without an input. `--keep
FILE` appends each cut to a file and continues after the cuts that the file holds, so that a long
measurement can be interrupted.

Where the machine is too busy for the bound, the participant reports it before (`medusa status`);
such cuts are marked with an asterisk and counted separately.

Exit code 1 if an answer was later than a bound that was reported to be kept, or a participant has
ended.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.dpc.waiting import until
from bench.federation import Federation, shipped_federation
from bench.headroom_figures import Cut, lines_of
from bench.machine import describe_machine
from bench.processes import ContenderFailed
from bench.soak import own_folder
from medusa_core.errors import MedusaError
from medusa_core.first_outputs import FirstOutput, first_outputs
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import StreamName
from medusa_core.segments import Producer
from medusa_core.states import State
from pipelines.catalog.postgres.postgres_catalog import PostgresCatalog
from pipelines.cli.demo_federation import COMPUTES, OTHERS
from pipelines.homes.headroom_file import read_headroom
from pipelines.homes.home import open_home
from pipelines.platform.drills.link_faults import NOTHING, Lost, faults_alone, write_faults

CONTRACTS = Path(__file__).parent / "scanners" / "contracts"
STREAM = StreamName("scanning_sources")
START_S_MAX = 420.0
STABLE_BEFORE = 2
"""How many stable answers come before a cut."""

IN_TIME = 0.8
"""Within this part of the bound."""

LEFT = ("slow_step_ms", "around_ms", "gather_ms")

BUSY = """
import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """So many processes that use a core each, if they get one; they end with this process."""
    command = [sys.executable, "-I", "-S", "-c", BUSY, str(os.getpid())]
    # Each in a session of its own: Linux shares the cores out to sessions first.
    running = [
        subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        for _ in range(count)
    ]
    try:
        yield
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait()


@dataclass(slots=True)
class Scene:
    """The federation and the catalog of the participant that computes."""

    federation: Federation
    catalog: PostgresCatalog
    seed: int
    bound_ms: int
    from_us: int = 0
    _log_read: int = field(default=0, repr=False)

    def start(self) -> None:
        """Start all participants and wait until answers come."""
        for participant in (COMPUTES, *OTHERS):
            self.federation.start(participant)
        self._until_stable(START_S_MAX, self.catalog.read_clock_ms())

    def cut(self, number: int, *, restarts: bool) -> Cut:
        """Cut, wait for the tentative answer, heal, wait until all is final again."""
        chance = random.Random(f"{self.seed}/{number}")
        lost = chance.choice([OTHERS[:1], OTHERS[1:], OTHERS])
        phase_s, more_s = chance.random(), chance.choice([0.0, 0.0, 2 * chance.random()])
        if restarts:
            self._restart()
        self._until_stable(START_S_MAX, self.catalog.read_clock_ms())
        time.sleep(phase_s)
        self._log_lines()
        load = os.getloadavg()[0]
        told = read_headroom(self.federation.settings.directory, COMPUTES)
        cut_ms = self._cut_links(lost)
        tentative = self._until_tentative(cut_ms)
        time.sleep(more_s)
        self._heal_links()
        healed_ms = self.catalog.read_clock_ms()
        self._until_stable(START_S_MAX, healed_ms)
        answers = [a for a in self._answers() if a.came_at_ms >= cut_ms]
        # What became possible before the cut, as after a restart, is not about the cut.
        others = [
            a for a in answers if a is not tentative and (a.event.inputs_at_ms or 0) >= cut_ms
        ]
        decided = self._decided(tentative)
        self.from_us = max(a.range.from_us for a in answers)
        return Cut(
            number=number,
            is_cold=restarts,
            lost=tuple(map(str, lost)),
            bound_ms=self.bound_ms,
            delay_ms=tentative.delay_ms or 0,
            others_ms=max((a.delay_ms or 0 for a in others), default=0),
            wait_ms=decided.get("because", {}).get("wait_ms", 0),
            left_ms=tuple(decided.get("because", {}).get(name, 0) for name in LEFT),
            step_ms=int(sum(decided.get("phases_ms", {}).values())),
            is_kept=all(fact["is_kept"] for fact in told),
            load=round(load, 1),
        )

    def _restart(self) -> None:
        process = self.federation.running.pop(COMPUTES)
        process.terminate()
        process.wait()
        self.federation.start(COMPUTES)

    def _answers(self) -> Sequence[FirstOutput]:
        part = Range(self.from_us, FOREVER_US)
        return first_outputs(part, self.catalog.history(STREAM, Producer(COMPUTES), part))

    def _until_stable(self, s_max: float, since_ms: int) -> None:
        """Until the last answers since a time came with everything and in time, and nothing is
        tentative: who is behind, as after a restart, promises nothing yet."""

        def is_stable() -> bool:
            answers = self._answers() if self._has_begun() else ()
            last = [a for a in answers if a.came_at_ms >= since_ms][-STABLE_BEFORE:]
            in_time = [a for a in last if (a.delay_ms or 0) <= IN_TIME * self.bound_ms]
            is_final = all(a.final_at_ms is not None for a in answers)
            is_whole = is_final and not any(a.is_tentative for a in in_time)
            states = self.catalog.states()
            return (
                len(in_time) == STABLE_BEFORE
                and is_whole
                and all(s.state is State.STABLE for s in states)
            )

        until(is_stable, "answers are stable", self.federation, s_max)

    def _has_begun(self) -> bool:
        return any(line.producer == Producer(COMPUTES) for line in self.catalog.lines(STREAM))

    def _until_tentative(self, cut_ms: int) -> FirstOutput:
        found: list[FirstOutput] = []

        def is_there() -> bool:
            found[:] = [a for a in self._answers() if a.is_tentative and a.came_at_ms >= cut_ms]
            return bool(found)

        until(is_there, "a tentative answer came", self.federation)
        return min(found, key=lambda a: a.came_at_ms)

    def _cut_links(self, lost: Sequence[str]) -> int:
        directory = self.federation.settings.directory
        ways = [
            Lost(sender, receiver)
            for other in OTHERS
            if other in lost
            for sender, receiver in ((COMPUTES, other), (other, COMPUTES))
        ]
        with faults_alone(directory):
            cut_ms = self.catalog.read_clock_ms()
            write_faults(directory, NOTHING.with_lost(*ways))
        return cut_ms

    def _heal_links(self) -> None:
        with faults_alone(self.federation.settings.directory):
            write_faults(self.federation.settings.directory, NOTHING)

    def _decided(self, answer: FirstOutput) -> Mapping[str, Any]:
        """What the log says of the step that made an answer; nothing if it was rotated away."""
        for line in self._log_lines():
            if line.get("committed_at_ms") == answer.came_at_ms and line.get("event") == "compute":
                return line
        return {}

    def _log_lines(self) -> list[Mapping[str, Any]]:
        """The lines that were logged since the last call."""
        log = self.federation.settings.directory / "logs" / f"{COMPUTES}.jsonl"
        if log.stat().st_size < self._log_read:
            self._log_read = 0
        with log.open("rb") as file:
            file.seek(self._log_read)
            whole = file.read()
        text, _, torn = whole.rpartition(b"\n")
        self._log_read += len(whole) - len(torn)
        return [json.loads(line) for line in text.splitlines()]


def measured(options: argparse.Namespace) -> Iterator[Cut]:
    """Each cut as it is over, those that are kept from before first."""
    kept = _read(options.keep)
    yield from kept
    if len(kept) >= options.cuts:
        return
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder())
        federation = stack.enter_context(shipped_federation(folder / "homes", CONTRACTS))
        home = stack.enter_context(open_home(federation.settings, COMPUTES))
        bound, _ = home.catalog.bounds()[STREAM]
        assert bound is not None, "its contract declares one"
        scene = Scene(federation, home.catalog, options.seed, bound.bound_ms)
        stack.enter_context(busy_processes(options.busy))
        scene.start()
        for number in range(len(kept) + 1, options.cuts + 1):
            cut = scene.cut(number, restarts=number % options.restart_every == 0)
            if options.keep is not None:
                with options.keep.open("a") as file:
                    file.write(json.dumps(asdict(cut)) + "\n")
            yield cut


def _read(file: Path | None) -> list[Cut]:
    if file is None or not file.exists():
        return []
    return [Cut.of(json.loads(line)) for line in file.read_text().splitlines()]


def main(arguments: Sequence[str]) -> int:
    """Parse, run, judge."""
    parser = argparse.ArgumentParser(prog="bench headroom", description=__doc__)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--busy", type=int, default=2, help="processes that use a core each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--restart-every", type=int, default=20, help="cuts between restarts")
    parser.add_argument("--keep", type=Path, help="append cuts to this file, and continue it")
    options = parser.parse_args(arguments)
    cuts: list[Cut] = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        for cut in measured(options):
            cuts.append(cut)
            print(cut, flush=True)
    except ContenderFailed as error:
        print(error, file=sys.stderr)
        return 1
    except MedusaError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    finally:
        for line in lines_of(cuts):
            print(line)
        print(json.dumps(describe_machine()))
    return 1 if any(cut.is_late and cut.is_kept for cut in cuts) else 0
