"""The exchange server of a home that runs: a process of its own, started again when it ends.

It is in the process group of the participant, so that a drill freezes or kills both, and it never
outlives the participant. While another process serves the home, it waits.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from medusa_core.errors import MedusaError, Unavailable
from medusa_core.restart import RestartPolicy
from pipelines.base import clock
from pipelines.base.exit_codes import INTERRUPTED
from pipelines.base.foreign_documents import starting
from pipelines.base.owned_command import owned_command
from pipelines.base.settings import Settings, environment
from pipelines.homes.home import HomeServer

POLICY = RestartPolicy(back_off_ms=500, back_off_ms_max=30_000)
END_S_MAX = 10.0
"""How long the requests that are open at the end may take."""

INTERRUPTED_S = 20.0
"""How long a server that was interrupted is not started again: Ctrl-C and a service manager signal
the participant too, whose loop and Spark then take seconds to end."""

_INTERRUPTED = {INTERRUPTED, 128 + signal.SIGTERM, -signal.SIGINT, -signal.SIGTERM}
"""Exit codes of a process that was interrupted; as Python has it, negative for a signal's."""

_INHERITED = re.compile(
    "PATH|HOME|LANG|LC_.*|TZ|TMPDIR|LD_LIBRARY_PATH|SSL_CERT_(FILE|DIR)|PYTHON.*|MEDUSA_UP"
)
"""Variables of the participant that its server gets; others may be secrets of sources and sinks."""

SENTENCE, STDERR = b"medusa: ", 2


class ExchangeProcess:
    """The server's process while it is supervised; `on_error` receives each unexpected end."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], whose: str) -> None:
        self.on_error: Callable[[Exception], None] = _nothing
        self._command = command
        self._environment = environment
        self._whose = whose
        self._is_ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = threading.Lock()

    def supervise(self) -> None:
        """Start the server, again and again, until `end` is called."""
        failures = 0
        while not self._is_ended.is_set():
            began_s = clock.monotonic_s()
            problem, is_interrupted = self._run()
            ran_ms = int((clock.monotonic_s() - began_s) * 1_000)
            failures = POLICY.failures_after(failures, ran_ms, is_at_fault=not is_interrupted)
            if self._is_ended.wait(INTERRUPTED_S if is_interrupted else 0):
                return
            self.on_error(
                Unavailable(f"the exchange server of {self._whose} {problem}: it is started again")
            )
            self._is_ended.wait(POLICY.wait_ms(failures) / 1_000)

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

    def _run(self) -> tuple[str, bool]:
        """Run one process until its end: what became of it, and whether it was interrupted."""
        try:
            with self._starts, starting("medusa serve"):
                if self._is_ended.is_set():
                    return "was not started", True
                self._process = subprocess.Popen(
                    owned_command(self._command, ends_by=signal.SIGTERM),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=self._environment,
                )
        except MedusaError as error:
            return f"cannot be started ({error})", False
        reason = _reason(self._process)
        code = self._process.wait()
        return f"ended with exit code {code}{reason}", code in _INTERRUPTED


def _reason(process: subprocess.Popen[bytes]) -> str:
    """The sentence with which a process of `medusa` ends, in brackets; other lines are passed on.

    What it says of an interrupt would be said twice: the participant says it of itself.
    """
    reason = ""
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            if line.startswith(SENTENCE):
                reason = f" ({line.removeprefix(SENTENCE).decode(errors='replace').strip()})"
            else:
                with suppress(OSError):
                    os.write(STDERR, line)
    return reason


@contextmanager
def exchange_process(settings: Settings, server: HomeServer) -> Iterator[ExchangeProcess]:
    """Serve the exchange of a home as long as the block runs.

    The process is told where the catalog's server is: it neither starts nor ends it, and has no
    login but that of the exchange.
    """
    at = replace(settings, catalog_url=server.address)
    own = {name: value for name, value in environment().items() if _INHERITED.fullmatch(name)}
    variables = at.environment_of_child(own)
    command = [sys.executable, "-P", "-m", "pipelines.cli.main", "serve", "--standby"]
    process = ExchangeProcess(
        [*command, "--participant", server.participant], variables, server.participant
    )
    # The thread that starts the process must live as long as it: see `owned_command`.
    thread = threading.Thread(target=process.supervise, name="medusa-serve", daemon=True)
    thread.start()
    try:
        yield process
    finally:
        process.end()
        thread.join()


def _nothing(error: Exception) -> None:
    """Nobody is told yet."""
