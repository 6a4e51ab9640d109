"""A bash with commands: it and what it has started never outlive the process of the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path


def install_medusa(folder: Path) -> Path:
    """Make a folder with a `medusa` that is the program under test."""
    folder.mkdir(parents=True)
    medusa = folder / "medusa"
    medusa.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipelines.cli.main "$@"\n')
    medusa.chmod(0o755)
    return folder


@contextmanager
def terminal(
    commands: str, folder: Path, environment: Mapping[str, str], *, is_read: bool = False
) -> Iterator[subprocess.Popen[str]]:
    """Commands that run in a session of their own, and are killed at the end of the block.

    A process in the background waits for the end of a pipe that this process alone holds open.
    """
    reads, writes = os.pipe()
    guard = (
        f"{{ trap '' TERM INT; cat <&{reads}; kill -KILL 0; }} > /dev/null 2>&1 & disown\n"
        f"exec {reads}<&-\n"
    )
    bash = subprocess.Popen(
        ["bash", "-c", guard + commands],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if is_read else None,
        stderr=subprocess.STDOUT if is_read else None,
        text=True,
        start_new_session=True,
        pass_fds=(reads,),
    )
    try:
        os.close(reads)
        yield bash
    finally:
        with suppress(ProcessLookupError):
            os.killpg(bash.pid, signal.SIGKILL)
        os.close(writes)
