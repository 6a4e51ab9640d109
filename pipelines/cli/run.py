"""`medusa run`: run one participant until it is stopped or, on request, until all has ended."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_running
from pipelines.cli.closed_output import discard_output

if TYPE_CHECKING:
    from pipelines.operations.participant_run import Progress, RunOptions, ServesMetrics, Standby

HELP = "run a participant: land, import, compute, until it is stopped"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa run`."""
    until = "stop when all has ended; partners that still read then need medusa serve"
    parser.add_argument("--until-ended", action="store_true", help=until)
    standby = (
        "wait, warmed up, for as long as another driver runs it, and take over when it is gone"
    )
    parser.add_argument("--standby", action="store_true", help=standby)
    lane = "backlog: only correct what is owed, while the live driver runs, and end (default: live)"
    parser.add_argument("--lane", choices=("live", "backlog"), default="live", help=lane)
    worker = "only compute partitions of fragments, as a worker of this name"
    parser.add_argument("--worker", metavar="NAME", help=worker)
    quiet = "print no lines about what is landed, computed and committed"
    parser.add_argument("--quiet", action="store_true", help=quiet)
    add_running(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run a participant; with --explain print what it would decide now."""
    from pipelines.operations.participant_run import run_participant

    if options.explain:
        print_decisions(settings, run_options(options))
    else:
        run_participant(settings, run_options(options), _Output().show)
    return 0


def run_options(options: argparse.Namespace) -> RunOptions:
    """How to run a participant, from the arguments of `run` or `tick`."""
    from medusa_core.commits import Lane
    from medusa_core.knowledge import RECORDS_PER_STEP_MAX, Limits
    from pipelines.operations.participant_run import RunOptions

    records_max = options.records_per_step_max
    return RunOptions(
        participant=options.participant,
        until_ended=getattr(options, "until_ended", False),
        is_standby=getattr(options, "standby", False),
        lane=Lane(getattr(options, "lane", Lane.LIVE.value)),
        worker=_worker(options),
        lease_ms=int(options.lease * 1_000),
        limits=Limits(
            records_per_step_max=records_max or RECORDS_PER_STEP_MAX, capacity=options.capacity
        ),
        reports_progress=not getattr(options, "quiet", True),
    )


def _worker(options: argparse.Namespace) -> str:
    """The name of the worker; Refused if it is no name, or the process is to do something else."""
    from medusa_core.errors import Refused
    from medusa_core.names import check_name
    from pipelines.participant.placed_partitions import MAIN

    name = getattr(options, "worker", None)
    if name is None:
        return MAIN
    if check_name("worker", name) == MAIN:
        raise Refused("worker main is the process without --worker: give this one another name")
    if options.standby or options.lane != "live":
        given = "--standby" if options.standby else "--lane"
        raise Refused(f"a worker has neither --standby nor --lane: leave {given} out")
    return str(name)


def print_decisions(settings: Settings, options: RunOptions) -> None:
    """Print what the next iteration would decide, a line each."""
    from medusa_core.decide import explain
    from pipelines.operations.participant_run import decide_next

    for line in explain(decide_next(settings, options)):
        print(line)


class _Output:
    """The lines of a run on standard output, also where it is a file, until nothing reads it."""

    def __init__(self) -> None:
        self._is_read = True

    def show(self, event: Standby | ServesMetrics | Progress) -> None:
        """Print an event; a participant continues when the reader of its output has gone."""
        from pipelines.operations.participant_run import Progress, ServesMetrics

        if isinstance(event, ServesMetrics):
            print(f"metrics: {event.url}", file=sys.stderr, flush=True)
        elif isinstance(event, Progress):
            self._print(event.line)
        else:
            ready = counted(event.fragments, "fragment")
            self._print(f"{event.participant} is on standby: {ready} ready")

    def _print(self, line: str) -> None:
        if not self._is_read:
            return
        try:
            print(line, flush=True)
        except OSError:
            self._is_read = False
            discard_output()
