"""`medusa supervise`: starts and stops participants' jobs as they are desired, until told to stop.

Any number may run at once, here and elsewhere: none starts a second job. Jobs outlive it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from medusa_core.errors import Conflict, Unavailable
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home, add_json, seconds

if TYPE_CHECKING:
    from pipelines.platform.jobs.launch import Launch

if TYPE_CHECKING:
    from pipelines.platform.jobs.supervised_homes import JobsOfHomes
    from pipelines.platform.jobs.supervision_tick import Turn

EVERY_S = 5.0


def run_supervise(
    settings: Settings,
    participant: str | None,
    *,
    once: bool,
    explain: bool,
    as_json: bool,
    every_s: float | None = None,
    lease_s: float | None = None,
) -> int:
    """Supervise all participants of the folder, or one; `once` looks once and ends.

    Raises CheckFailed, with `once`, if something was given up.
    """
    from pipelines.platform.jobs.launch import launch_of
    from pipelines.platform.jobs.supervised_homes import (
        known_participant,
        known_participants,
        open_jobs,
    )
    from pipelines.platform.jobs.supervision_report import check_given_up
    from pipelines.platform.jobs.supervision_tick import explain_home, supervise_home

    chosen = None if participant is None else known_participant(settings, participant)
    if chosen is None:
        known_participants(settings)  # refused while there is none
    launch = launch_of(settings, os.environ, lease_s=lease_s)
    if once or explain:
        with open_jobs(settings) as jobs:
            names = _names(settings, chosen)
            turns = [
                explain_home(name, jobs.of(name), launch)
                if explain
                else supervise_home(name, jobs.of(name), launch)
                for name in names
            ]
        _print(turns, as_json=as_json)
        if not explain:
            check_given_up(turns, launch)
        return 0
    told: dict[str, None] = {}
    while True:
        try:
            with open_jobs(settings) as jobs:
                while True:
                    _look(settings, chosen, jobs, launch, told, as_json=as_json)
                    clock.sleep_s(every_s or EVERY_S)
        except Unavailable as error:
            print(f"medusa: {error}", file=sys.stderr, flush=True)
            clock.sleep_s(every_s or EVERY_S)


def _names(settings: Settings, chosen: Participant | None) -> list[Participant]:
    from pipelines.homes.home import known_homes

    return sorted(known_homes(settings.directory)) if chosen is None else [chosen]


def _look(
    settings: Settings,
    chosen: Participant | None,
    jobs: JobsOfHomes,
    launch: Launch,
    told: dict[str, None],
    *,
    as_json: bool,
) -> None:
    """A turn of each; Unavailable if none of them could be looked at."""
    from pipelines.platform.jobs.supervision_report import decision_line
    from pipelines.platform.jobs.supervision_tick import supervise_home

    names = _names(settings, chosen)
    away: list[Unavailable] = []
    for name in names:
        try:
            turn = supervise_home(name, jobs.of(name), launch)
        except Conflict:
            continue
        except Unavailable as error:
            away.append(error)
            continue
        if turn.done:
            _print([turn], as_json=as_json)
        for one in turn.given_up:
            line = f"medusa: {decision_line(turn, one)}; see {launch.log(name, one.lane)}"
            if line not in told:
                told[line] = None
                print(line, file=sys.stderr, flush=True)
    if away and len(away) == len(names):
        raise away[0]


def _print(turns: Sequence[Turn], *, as_json: bool) -> None:
    from pipelines.platform.jobs.supervision_report import decision_line, turn_document

    if as_json:
        print(json.dumps([turn_document(turn) for turn in turns], indent=1), flush=True)
        return
    lines = [decision_line(turn, one) for turn in turns for one in (*turn.done, *turn.standing)]
    print("\n".join(lines or ["nothing is desired of anybody: see medusa job start"]), flush=True)


HELP = "start and stop jobs as they are desired, until told"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa supervise`."""
    parser.add_argument("--once", action="store_true", help="look once, and end; jobs go on")
    every = "how often it looks (default: 5)"
    parser.add_argument("--every", type=seconds, metavar="SECONDS", help=every)
    lease = "how long the leases of jobs last (default: 10)"
    parser.add_argument("--lease", type=seconds, metavar="SECONDS", help=lease)
    parser.add_argument("--explain", action="store_true", help="tell what would be done now")
    add_home(parser, "only this one (default: all in MEDUSA_DIR)")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Supervise jobs, once or until interrupted."""
    return run_supervise(
        settings,
        options.participant,
        once=options.once,
        explain=options.explain,
        as_json=options.json,
        every_s=options.every,
        lease_s=options.lease,
    )
