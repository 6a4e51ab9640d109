"""`medusa job`: record which participants' jobs shall run, and list them.

It starts nothing itself: a supervisor does, `medusa supervise` or the DAG medusa_supervise.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_json

if TYPE_CHECKING:
    from medusa_core.supervision import Job
    from pipelines.operations.desired_jobs import JobStatus

HELP = "declare which participants' jobs run, and show their states"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa job`."""
    what = "start: it shall run, stop: it shall not, or list"
    parser.add_argument("what", choices=("start", "stop", "list"), metavar="WHAT", help=what)
    parser.add_argument("names", nargs="*", metavar="P", help="which participants (default: all)")
    lane = "live, or backlog: correct what is owed at the same time, and end (default: live)"
    parser.add_argument("--lane", choices=("live", "backlog"), default="live", help=lane)
    done = "it is done when all has ended, and is not started again"
    parser.add_argument("--until-ended", action="store_true", help=done)
    parser.add_argument("--because", metavar="TEXT", help="why, in a sentence; it is kept")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Record what shall run, or print what does."""
    from medusa_core.commits import Lane
    from pipelines.operations.desired_jobs import JobRequest, desire_jobs, document, list_jobs

    if options.what == "list":
        statuses = list_jobs(settings, options.names)
        print(json.dumps(document(statuses), indent=1) if options.json else render(statuses))
        return 0
    request = JobRequest(
        participants=tuple(options.names),
        is_desired=options.what == "start",
        lane=Lane(options.lane),
        until_ended=options.until_ended,
        because=options.because or f"medusa job {options.what}",
    )
    for name in desire_jobs(settings, request):
        print(request.sentence(name))
    return 0


def render(statuses: Sequence[JobStatus]) -> str:
    """What is desired, and the jobs, for people."""
    desired = [
        (
            status.participant,
            one.lane.value,
            "yes" if one.is_desired else "no",
            iso(one.since_ms * 1_000),
            one.who,
            one.because,
        )
        for status in statuses
        for one in status.desired
    ]
    if not desired:
        return "no job is desired: see medusa job start"
    jobs = [
        (
            status.participant,
            job.lane.value,
            job.id,
            f"{job.pid or '-'} on {job.host or '-'}",
            _state(job),
            job.because or "",
        )
        for status in statuses
        for job in status.jobs
    ]
    names = ("participant", "lane", "shall run", "since", "who", "because")
    columns = ("participant", "lane", "job", "process", "state", "because")
    return "\n\n".join(
        (table(names, desired), table(columns, jobs) if jobs else "no job was started for it yet")
    )


def _state(job: Job) -> str:
    if job.ended_at_ms is not None:
        code = "" if job.exit_code is None else f", exit code {job.exit_code}"
        return f"ended{code}"
    if job.stop_requested_at_ms is not None:
        return "stopping"
    return "starting" if job.begun_at_ms is None else "runs"
