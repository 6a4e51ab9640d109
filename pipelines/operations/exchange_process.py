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
from pipelines.exchange.client.partner_link import is_answering
from pipelines.homes.exchange_addresses import read_address
from pipelines.homes.home import HomeServer

POLICY = RestartPolicy(back_off_ms=500, back_off_ms_max=30_000)
END_S_MAX = 10.0
"""How long the requests that are open at the end may take."""

LOOK_S, ANSWER_S = 3.0, 2.0
"""How often it is looked whether the home is served, and how long an answer may take."""

SILENT_LOOKS_MAX = 20
"""After so many looks in a row without an answer the server is killed; a start may take as long."""

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
    """The server's process while it is supervised.

    `on_alarm` receives a sentence for each unexpected end, and None while the home is served. That
    it is, by this process or by another one, `is_served` says.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: dict[str, str],
        whose: str,
        is_served: Callable[[], bool],
    ) -> None:
        self.on_alarm: Callable[[str | None], None] = _nothing
        self._is_served = is_served
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
            self.on_alarm(f"the exchange server of {self._whose} {problem}: it is started again")
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
                process = self._process = subprocess.Popen(
                    owned_command(self._command, ends_by=signal.SIGTERM),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=self._environment,
                )
        except MedusaError as error:
            return f"cannot be started ({error})", False
        reasons: list[str] = []
        reader = threading.Thread(target=_read_errors, args=(process, reasons), daemon=True)
        reader.start()
        code = self._end_of(process)
        reader.join()
        if code is None:
            return "did not answer and was killed", False
        reason = f" ({reasons[-1]})" if reasons else ""
        return f"ended with exit code {code}{reason}", code in _INTERRUPTED

    def _end_of(self, process: subprocess.Popen[bytes]) -> int | None:
        """Wait for the end: its exit code, None if it was killed because nothing answered."""
        silent_looks = 0
        while silent_looks < SILENT_LOOKS_MAX:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK_S)
            if self._is_served():
                silent_looks = 0
                self.on_alarm(None)
            else:
                silent_looks += 1
        process.kill()
        process.wait()
        return None


def _read_errors(process: subprocess.Popen[bytes], reasons: list[str]) -> None:
    """The sentences with which a process of `medusa` ends; its other lines are passed on.

    What it says of an interrupt would be said twice: the participant says it of itself.
    """
    assert process.stderr is not None
    with process.stderr:
        for line in process.stderr:
            if line.startswith(SENTENCE):
                reasons[:] = [line.removeprefix(SENTENCE).decode(errors="replace").strip()]
            else:
                with suppress(OSError):
                    os.write(STDERR, line)


@contextmanager
def exchange_process(settings: Settings, server: HomeServer) -> Iterator[ExchangeProcess]:
    """Serve the exchange of a home as long as the block runs.

    The process receives the address of the catalog's server, which it neither starts nor stops,
    and no login but that of the exchange.
    """
    at = replace(settings, catalog_url=server.address)
    own = {name: value for name, value in environment().items() if _INHERITED.fullmatch(name)}
    variables = at.environment_of_child(own)
    command = [sys.executable, "-P", "-m", "pipelines.cli.main", "serve", "--standby"]
    participant = server.participant

    def is_served() -> bool:
        try:
            return is_answering(read_address(settings.directory, participant).url, ANSWER_S)
        except Unavailable:
            return False

    process = ExchangeProcess(
        [*command, "--participant", participant], variables, participant, is_served
    )
    # The thread that starts the process must live as long as it: see `owned_command`.
    thread = threading.Thread(target=process.supervise, name="medusa-serve", daemon=True)
    thread.start()
    try:
        yield process
    finally:
        process.end()
        thread.join()


def _nothing(alarm: str | None) -> None:
    """Nobody receives it yet."""
