"""The process of a supervised job: takes up the intent, runs the participant, reports its end.

It holds the lane's lock until the kernel has removed it, so that no other process is started
meanwhile, however long it takes to end. An intent that is closed, stopped or another process' is
left alone: the process ends before it has done anything. A process whose intent changes so while
it runs ends itself; if it cannot, it is killed. While the catalog is unavailable it continues,
since leases alone decide which driver may write.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from medusa_core.commits import Lane
from medusa_core.errors import Conflict, MedusaError
from pipelines.base import failpoints
from pipelines.base.exit_codes import end_of
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.supervision import PostgresSupervision
from pipelines.cli.interrupts import deferred_interrupts, interruptible
from pipelines.homes.home import open_homes
from pipelines.homes.lease_renewer import LEASE_MS
from pipelines.operations.participant_run import (
    Progress,
    RunOptions,
    ServesMetrics,
    Standby,
    run_participant,
)
from pipelines.platform.jobs.job_processes import Process, own_process
from pipelines.platform.jobs.lane_lock import hold_lane
from pipelines.platform.jobs.supervised_homes import known_participant

BEAT_S = 5.0
END_S_MAX = 20.0
BECAUSE_LENGTH_MAX = 1_000

log = logging.getLogger("medusa.job")


def main(arguments: Sequence[str]) -> int:
    """Run a job that was intended; the exit codes are those of `medusa run`."""
    _log_to_standard_error()
    options = _options(arguments)
    ending = end_of(lambda: _take_up(options))
    if ending.sentence is not None:
        log.error("%s", ending.sentence)
    return ending.exit_code


def _take_up(options: argparse.Namespace) -> int:
    settings = Settings.from_environment()
    participant = known_participant(settings, options.participant)
    # This process holds the server open: it may outlive the one that started both.
    with open_homes(settings, alone=False) as homes:
        url = homes.url(participant)
        assert url is not None, "it is known"
        hold_lane(settings.directory, participant, Lane(options.lane))
        jobs = PostgresSupervision(url)
        try:
            return _run(settings, jobs, options)
        finally:
            jobs.close()


def _run(settings: Settings, jobs: PostgresSupervision, options: argparse.Namespace) -> int:
    process = own_process()
    failpoints.reached("job.started")
    # A job may be stopped as soon as it is recorded as begun: its end must still be recorded.
    raise_deferred = deferred_interrupts()
    if not _is_mine(jobs, options.job, process):
        raise Conflict(f"job {options.job} is not for this process: it ends")
    beats = _Beats(jobs, options.job, process)
    beats.start()
    failpoints.reached("job.begun")
    run_options = RunOptions(
        participant=options.participant,
        lane=Lane(options.lane),
        until_ended=options.until_ended,
        lease_ms=LEASE_MS if options.lease is None else int(options.lease * 1_000),
    )
    ending = end_of(lambda: _run_participant(settings, run_options, raise_deferred))
    if ending.sentence is not None:
        log.error("%s", ending.sentence)
    beats.end()
    because = None if ending.sentence is None else ending.sentence[:BECAUSE_LENGTH_MAX]
    with suppress(MedusaError):
        # If the end is not recorded, the supervisor sees that the process is gone.
        jobs.end(options.job, ending.exit_code, because)
    failpoints.reached("job.ended")
    return ending.exit_code


def _run_participant(
    settings: Settings, options: RunOptions, raise_deferred: Callable[[], None]
) -> int:
    with interruptible():
        raise_deferred()
        run_participant(settings, options, _log)
    return 0


def _log(event: Standby | ServesMetrics | Progress) -> None:
    log.warning("%s", event)


def _is_mine(jobs: PostgresSupervision, job: int, process: Process) -> bool:
    return jobs.take_up(job, process.host, process.pid, process.started, begins=True)


class _Beats(threading.Thread):
    """Reports every few seconds that the process runs, and learns whether it is to."""

    def __init__(self, jobs: PostgresSupervision, job: int, process: Process) -> None:
        super().__init__(name="beats", daemon=True)
        self._jobs, self._job, self._process = jobs, job, process
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(BEAT_S):
            try:
                if _is_mine(self._jobs, self._job, self._process):
                    continue
            except MedusaError:
                continue
            if not self._done.is_set():
                os.kill(os.getpid(), signal.SIGTERM)
                if not self._done.wait(END_S_MAX):
                    os.killpg(os.getpgid(0), signal.SIGKILL)
            return

    def end(self) -> None:
        self._done.set()
        self.join()


def _log_to_standard_error() -> None:
    """The process' standard error is the log file of the job (`Launch.log`)."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("medusa: %(message)s"))
    log.addHandler(handler)
    log.propagate = False


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="job", description="A job that a supervisor intended.")
    parser.add_argument("--participant", required=True)
    parser.add_argument("--lane", choices=("live", "backlog"), required=True)
    parser.add_argument("--job", type=int, required=True)
    parser.add_argument("--until-ended", action="store_true")
    parser.add_argument("--lease", type=float)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
