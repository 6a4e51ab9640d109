"""The `medusa run` processes of a folder: each records its number and start while it runs.

A process that was killed leaves its record; a reused number has another start. So only recorded
processes are ever signalled.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from medusa_core.errors import WRONG_FORM, Refused, Unavailable
from medusa_core.names import Participant, check_name
from pipelines.base.files import open_regular, write_atomically
from pipelines.base.process_table import look_at

FOLDER = "running"
BYTES_MAX = 10_000
RECORDS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A process that runs a participant; one that `waits` has not got its leases yet."""

    participant: Participant
    pid: int
    started: str
    waits: bool
    is_frozen: bool = False

    @property
    def is_there(self) -> bool:
        """Whether the very process that was written down still runs."""
        seen = look_at(self.pid)
        return seen is not None and seen.started == self.started

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to the process, and to its group if it leads one; False if it is gone.

        Raises Unavailable if this user may not.
        """
        seen = look_at(self.pid)
        if seen is None or seen.started != self.started:
            return False
        try:
            if seen.group == self.pid:
                os.killpg(self.pid, number)
            else:
                os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError as error:
            raise Unavailable(
                f"process {self.pid} of {self.participant} is another user's: ask that user, or "
                "the administrator"
            ) from error
        return True


@contextmanager
def recorded(directory: Path, participant: Participant) -> Iterator[Callable[[], None]]:
    """This process runs a participant and says so; what is given is called once it drives.

    A folder that cannot be written hinders no run: drills then do not find the process.
    """
    seen = look_at(os.getpid())
    file = directory / FOLDER / f"{participant}-{os.getpid()}.json"

    def write(*, waits: bool) -> None:
        if seen is None:
            return
        record = {
            "participant": participant,
            "pid": os.getpid(),
            "started": seen.started,
            "waits": waits,
        }
        with contextlib.suppress(OSError):
            file.parent.mkdir(exist_ok=True)
            write_atomically(file, json.dumps(record) + "\n", durable=False)

    write(waits=True)
    try:
        yield lambda: write(waits=False)
    finally:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def running_in(directory: Path) -> list[Running]:
    """The processes that run in a folder, in the order of their names; records of others go."""
    found: list[Running] = []
    folder = directory / FOLDER
    try:
        files = sorted(folder.glob("*.json"))[:RECORDS_MAX]
    except OSError:
        return []
    for file in files:
        written = _written(file)
        if written is None:
            continue
        seen = look_at(written.pid)
        if seen is None or seen.started != written.started:
            with contextlib.suppress(OSError):
                file.unlink()
            continue
        found.append(
            Running(
                participant=written.participant,
                pid=written.pid,
                started=written.started,
                waits=written.waits,
                is_frozen=seen.is_frozen,
            )
        )
    return found


def _written(file: Path) -> Running | None:
    """What a record says; None if it is none of ours, whoever put it there."""
    try:
        with open_regular(file) as opened:
            is_own = os.fstat(opened.fileno()).st_uid in (os.geteuid(), 0)
            text = opened.read(BYTES_MAX) if is_own else b""
        record = json.loads(text)
        participant = Participant(check_name("participant", record["participant"]))
        pid, started, waits = record["pid"], record["started"], record["waits"]
    except (OSError, Refused, *WRONG_FORM):
        return None
    if type(pid) is not int or not 1 < pid < 2**31 or type(waits) is not bool:
        return None
    if not isinstance(started, str) or file.name != f"{participant}-{pid}.json":
        return None
    return Running(participant=participant, pid=pid, started=started, waits=waits)
