"""A job's process: it takes the intent up, runs the participant, says that it is there, and how it
ended.

It holds the lane's lock until the kernel has taken it apart, so that no other is made meanwhile,
however long it takes to end. An intent that is closed, asked to stop or another's is left alone:
the process ends before it has done anything. One that learns so while it runs ends itself; if it
cannot, it is ended. While the catalog is away it goes on, for leases alone say who may write.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from medusa_core.commits import Lane
from medusa_core.errors import Conflict, MedusaError
from pipelines.base import failpoints
from pipelines.base.settings import Settings
from pipelines.catalog.postgres.supervision import PostgresSupervision
from pipelines.cli.main import main as medusa
from pipelines.homes.home import open_homes
from pipelines.platform.jobs.job_processes import Process, own_process
from pipelines.platform.jobs.lane_lock import hold_lane
from pipelines.platform.jobs.supervised_homes import known_participant

BEAT_S = 5.0
END_S_MAX = 20.0
SAID = "medusa: "


def main(arguments: Sequence[str]) -> int:
    """Run a job that was intended; the exit code is that of `medusa run`."""
    options = _options(arguments)
    try:
        settings = Settings.from_environment(os.environ)
        participant = known_participant(settings, options.participant)
        # What holds the server stays open with us: a job may be who has started it.
        with open_homes(settings, alone=False) as homes:
            urls = homes.urls(participant)
            assert urls is not None, "it is known"
            hold_lane(settings.directory, participant, Lane(options.lane))
            jobs = PostgresSupervision(urls.job)
            try:
                return _run(jobs, options)
            finally:
                jobs.close()
    except MedusaError as error:
        print(f"{SAID}{error}", file=sys.stderr)
        return error.exit_code


def _run(jobs: PostgresSupervision, options: argparse.Namespace) -> int:
    process = own_process()
    failpoints.reached("job.started")
    if not _is_mine(jobs, options.job, process):
        raise Conflict(f"job {options.job} is not for this process: it ends")
    beats = _Beats(jobs, options.job, process)
    beats.start()
    last = _LastSaid(sys.stderr)
    sys.stderr = last
    more = ["--until-ended"] if options.until_ended else []
    if options.lease is not None:
        more += ["--lease", str(options.lease)]
    words = ["run", "--participant", options.participant, "--lane", options.lane, *more]
    code = medusa(words)
    beats.end()
    with suppress(MedusaError):
        # Unheard, the supervisor sees that the process is gone.
        jobs.end(options.job, code, last.sentence)
    failpoints.reached("job.ended")
    return code


def _is_mine(jobs: PostgresSupervision, job: int, process: Process) -> bool:
    return jobs.take_up(job, process.host, process.pid, process.started, begins=True)


class _Beats(threading.Thread):
    """Says every few seconds that the process is there, and hears whether it shall be."""

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


class _LastSaid:
    """Passes on what is said, and keeps the last sentence of Medusa's."""

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self.sentence: str | None = None

    def write(self, text: str) -> int:
        for line in text.splitlines():
            if line.startswith(SAID):
                self.sentence = line.removeprefix(SAID)[:1_000]
        return self._to.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self._to, name)


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
