"""`medusa job`: say which participants' jobs shall run, and see what became of them.

It starts nothing itself: a supervisor does, `medusa supervise` or the DAG medusa_supervise.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from medusa_core.commits import Lane
from medusa_core.names import Participant
from medusa_core.supervision import Job
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_json

if TYPE_CHECKING:
    from pipelines.platform.jobs.supervised_homes import JobsOfHomes


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What shall be so; no names: all of the folder."""

    what: str
    names: Sequence[str] = ()
    lane: Lane = Lane.LIVE
    until_ended: bool = False
    because: str | None = None
    as_json: bool = False


def run_job(settings: Settings, asked: Asked) -> int:
    """Write down what shall run, or print what does; Refused for a participant unknown."""
    from pipelines.operations.desired_jobs import desire_job
    from pipelines.platform.jobs.supervised_homes import known_participants, open_jobs

    names = known_participants(settings, asked.names)
    with open_jobs(settings) as jobs:
        if asked.what == "list":
            return _list(jobs, names, as_json=asked.as_json)
        for name in names:
            desire_job(
                jobs,
                name,
                asked.lane,
                is_wanted=asked.what == "start",
                until_ended=asked.until_ended,
                because=asked.because or f"medusa job {asked.what}",
            )
            shall = "shall run" if asked.what == "start" else "shall not run"
            print(f"{name} ({asked.lane.value}) {shall}, as soon as a supervisor looks")
    return 0


def _list(jobs: JobsOfHomes, names: Sequence[Participant], *, as_json: bool) -> int:
    from pipelines.platform.jobs.supervision_report import job_document

    standing = {name: jobs.of(name).read() for name in names}
    if as_json:
        document = [
            {
                "participant": name,
                "desired": [
                    {
                        "lane": one.lane.value,
                        "is_wanted": one.is_wanted,
                        "is_lasting": one.is_lasting,
                        "since": iso(one.since_ms * 1_000),
                        "who": one.who,
                        "because": one.because,
                    }
                    for one in known.desired
                ],
                "jobs": [job_document(job) for job in known.jobs],
            }
            for name, known in standing.items()
        ]
        print(json.dumps(document, indent=1))
        return 0
    wanted = [
        (name, one.lane.value, "yes" if one.is_wanted else "no", iso(one.since_ms * 1_000),
         one.who, one.because)
        for name, known in standing.items()
        for one in known.desired
    ]  # fmt: skip
    if not wanted:
        print("nothing is desired of anybody: see medusa job start")
        return 0
    print(table(("participant", "lane", "shall run", "since", "who", "because"), wanted))
    rows = [
        (name, job.lane.value, job.id, f"{job.pid or '-'} on {job.host or '-'}", _state(job),
         job.because or "")
        for name, known in standing.items()
        for job in known.jobs
    ]  # fmt: skip
    print()
    names_ = ("participant", "lane", "job", "process", "state", "because")
    print(table(names_, rows) if rows else "no job was made for it yet")
    return 0


def _state(job: Job) -> str:
    if job.ended_at_ms is not None:
        code = "" if job.exit_code is None else f", exit code {job.exit_code}"
        return f"ended{code}"
    if job.stop_asked_at_ms is not None:
        return "stopping"
    return "being made" if job.begun_at_ms is None else "runs"


HELP = "say which participants' jobs shall run, and see what became of them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa job`."""
    what = "start: it shall run, stop: it shall not, or list"
    parser.add_argument("what", choices=("start", "stop", "list"), metavar="WHAT", help=what)
    parser.add_argument("names", nargs="*", metavar="P", help="which participants (default: all)")
    lane = "live, or backlog: correct what is owed beside it, and end (default: live)"
    parser.add_argument("--lane", choices=("live", "backlog"), default="live", help=lane)
    done = "it is done when all has ended, and is not started again"
    parser.add_argument("--until-ended", action="store_true", help=done)
    parser.add_argument("--because", metavar="TEXT", help="why, in a sentence; it is kept")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Write down which jobs shall run, or list them."""
    asked = Asked(
        what=options.what,
        names=options.names,
        lane=Lane(options.lane),
        until_ended=options.until_ended,
        because=options.because,
        as_json=options.json,
    )
    return run_job(settings, asked)
