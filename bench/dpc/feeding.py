"""`python -m bench.dpc.feeding NAME...`: the live process that generates and lands all inputs.

Each name is a participant with its own home, run by the product's loop in a separate thread; none
of them computes, so there is no JVM. On a request to stop, the process ends at once: everything
that it promised is in the catalogs.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Sequence

from pipelines.base.settings import Settings
from pipelines.operations.participant_run import POLL_MS, RunOptions, run_participant


def main(names: Sequence[str]) -> None:
    """Run them until told to stop; ends with 1 as soon as one of them does."""
    settings = Settings.from_environment(os.environ)
    ended = threading.Event()

    def feed(name: str) -> None:
        try:
            run_participant(settings, RunOptions(participant=name, poll_ms=POLL_MS))
        finally:
            ended.set()

    def stop(*_: object) -> None:
        os._exit(0)

    threading.excepthook = lambda told: traceback.print_exception(told.exc_value)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    for name in names:
        threading.Thread(target=feed, args=(name,), name=name, daemon=True).start()
    ended.wait()
    sys.stderr.flush()
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
