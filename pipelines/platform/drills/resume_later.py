"""A process of its own that lets others go on after a while, whatever becomes of who asked for it.

`python -m pipelines.platform.drills.resume_later SECONDS (PID START)…`; told to end, it lets them
go on at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.foreign_documents import starting
from pipelines.base.settings import REPOSITORY
from pipelines.platform.drills.run_processes import Running

MODULE = "pipelines.platform.drills.resume_later"


def thaw_later(targets: Sequence[Running], in_s: float) -> subprocess.Popen[bytes]:
    """Start it; it has a session of its own, so that what ends the caller does not end it."""
    words = [word for target in targets for word in (str(target.pid), target.started)]
    with starting("the process that lets others continue"):
        return subprocess.Popen(
            [sys.executable, "-m", MODULE, str(in_s), *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=REPOSITORY,
            env={k: v for k, v in os.environ.items() if not k.startswith("MEDUSA_")},
            start_new_session=True,
        )


def main(words: Sequence[str]) -> None:
    """Wait, then let them go on."""
    in_s, named = float(words[0]), words[1:]
    targets = [
        Running(participant=Participant(""), pid=int(pid), started=started, waits=False)
        for pid, started in zip(named[::2], named[1::2], strict=True)
    ]
    signal.signal(signal.SIGTERM, _wake)
    try:
        clock.sleep_s(in_s)
    except InterruptedError:
        pass
    finally:
        for target in targets:
            target.signal(signal.SIGCONT)


def _wake(number: int, frame: object) -> NoReturn:
    raise InterruptedError


if __name__ == "__main__":
    main(sys.argv[1:])
