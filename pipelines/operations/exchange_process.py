"""The exchange server of a home that runs: a process of its own, started again when it ends.

It is in the process group of the participant, so that what a drill does to the one it does to the
other, and never outlives it. While another process serves the home, it waits.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from medusa_core.errors import MedusaError, Unavailable
from medusa_core.names import Participant
from medusa_core.restart import RestartPolicy
from pipelines.base import clock
from pipelines.base.foreign_documents import starting
from pipelines.base.owned_command import owned_command
from pipelines.base.settings import Settings

POLICY = RestartPolicy(back_off_ms=500, back_off_ms_max=30_000)
END_S_MAX = 10.0
"""How long the requests that are open at the end may take."""

STDERR = 2


@contextmanager
def exchange_process(
    settings: Settings, participant: Participant, on_error: Callable[[Exception], None]
) -> Iterator[None]:
    """Serve the home's exchange meanwhile; `on_error` receives each end that was not asked for."""
    server = _SupervisedServer(settings, participant, on_error)
    # The thread that starts the process must live as long as it: see `owned_command`.
    thread = threading.Thread(target=server.supervise, name="medusa-serve", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.end()
        thread.join()


class _SupervisedServer:
    def __init__(
        self, settings: Settings, participant: Participant, on_error: Callable[[Exception], None]
    ) -> None:
        self._settings = settings
        self._participant = participant
        self._on_error = on_error
        self._is_ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = threading.Lock()

    def supervise(self) -> None:
        """Start the server, again and again, until `end` is called."""
        failures = 0
        while True:
            began_s = clock.monotonic_s()
            because = self._run()
            if self._is_ended.is_set():
                return
            ran_ms = int((clock.monotonic_s() - began_s) * 1_000)
            failures = POLICY.failures_after(failures, ran_ms)
            wait_s = POLICY.wait_ms(failures) / 1_000
            self._on_error(
                Unavailable(
                    f"the exchange server of {self._participant} {because}: it is started again in "
                    f"{wait_s:g} s"
                )
            )
            self._is_ended.wait(wait_s)

    def end(self) -> None:
        """End the server, at once if it does not end by itself."""
        with self._starts:
            self._is_ended.set()
            process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_S_MAX)
            return
        process.kill()

    def _run(self) -> str:
        """Run one process until its end; why it ended."""
        command = [sys.executable, "-P", "-m", "pipelines.cli.main", "serve", "--standby"]
        try:
            with self._starts, starting("medusa serve"):
                if self._is_ended.is_set():
                    return ""
                self._process = subprocess.Popen(
                    owned_command(
                        [*command, "--participant", self._participant], ends_by=signal.SIGTERM
                    ),
                    stdin=subprocess.DEVNULL,
                    # What is printed to stdout belongs to the participant alone.
                    stdout=STDERR,
                    env=self._settings.environment_of_child(),
                )
        except MedusaError as error:
            return f"cannot be started ({error})"
        return f"ended with exit code {self._process.wait()}"
