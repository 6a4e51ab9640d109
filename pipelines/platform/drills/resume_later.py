"""A detached process that resumes frozen processes after a delay, even if its caller has died.

`python -m pipelines.platform.drills.resume_later ORDER`, with the order as JSON; on SIGTERM it
resumes them at once.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.foreign_documents import starting
from pipelines.base.settings import REPOSITORY, environment
from pipelines.platform.drills.run_processes import Running

MODULE = "pipelines.platform.drills.resume_later"


def resume_later(targets: Sequence[Running], in_s: float) -> subprocess.Popen[bytes]:
    """Start it in a session of its own: what ends the caller does not end it."""
    order = {"in_s": in_s, "processes": [[one.pid, one.started] for one in targets]}
    with starting("the process that resumes others"):
        return subprocess.Popen(
            [sys.executable, "-m", MODULE, json.dumps(order)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=REPOSITORY,
            env={k: v for k, v in environment().items() if not k.startswith("MEDUSA_")},
            start_new_session=True,
        )


def main(text: str) -> None:
    """Wait, then resume the processes of the order."""
    order = json.loads(text)
    targets = [
        Running(participant=Participant(""), pid=pid, started=started, waits=False)
        for pid, started in order["processes"]
    ]
    signal.signal(signal.SIGTERM, _wake)
    try:
        clock.sleep_s(order["in_s"])
    except InterruptedError:
        pass
    finally:
        for target in targets:
            target.signal(signal.SIGCONT)


def _wake(number: int, frame: object) -> NoReturn:
    raise InterruptedError


if __name__ == "__main__":
    main(sys.argv[1])
