"""What one command costs with every process that it starts: time, CPU time and memory.

CPU time is exact (`bench/reaper.py`). Memory, and the kind of process that computed, are sampled
from outside, five times a second: of a process that lives for less, only the CPU time is counted,
as `other`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.process_tree import cpu_by_program, memory_of, processes_of, sample_driver
from bench.processes import REPOSITORY, ContenderFailed

SAMPLE_S = 0.2
LAST_CHARACTERS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandCosts:
    """One run of a command; memory is the greatest that was seen, in MiB.

    `memory_mib`: of all processes, what they share counted once (PSS). `python_mib` and `jvm_mib`:
    resident memory without the database server. `cpu_by_program`: CPU seconds by kind of process.
    """

    seconds: float
    cpu_s: float
    memory_mib: float
    python_mib: float
    jvm_mib: float
    jvm_heap_mib: float
    cpu_by_program: Mapping[str, float]


@dataclass(slots=True)
class _Seen:
    """The greatest values of all samples."""

    mib: dict[str, float] = field(default_factory=dict)
    cpu_s: dict[int, tuple[str, float]] = field(default_factory=dict)

    def sample(self, root: int) -> None:
        driver = sample_driver(root, leave_out="postgres")
        found = {
            "memory": sum(memory_of(root).values()),
            "python": driver["python RSS MiB"],
            "jvm": driver.get("JVM RSS MiB", 0.0),
            "heap": driver.get("JVM heap committed MiB", 0.0),
        }
        for name, mib in found.items():
            self.mib[name] = max(self.mib.get(name, 0.0), mib)
        for pid, (program, spent_s) in cpu_by_program(root).items():
            self.cpu_s[pid] = program, max(spent_s, self.cpu_s.get(pid, ("", 0.0))[1])

    def cpu_by_program(self, cpu_s: float) -> dict[str, float]:
        found: dict[str, float] = {}
        for program, spent_s in self.cpu_s.values():
            found[program] = found.get(program, 0.0) + spent_s
        return {**found, "other": max(cpu_s - sum(found.values()), 0.0)}


def run_command(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> tuple[CommandCosts, str]:
    """Run a command to its end; its costs, and its standard output.

    `folder`: where its output is kept. Raises ContenderFailed, with its last lines, if it fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    figures, output, errors = (folder / name for name in ("costs.json", "output", "errors"))
    reaper = [sys.executable, "-m", "bench.reaper", str(figures), *command]
    seen = _Seen()
    with output.open("w") as out, errors.open("w") as err:
        process = subprocess.Popen(
            reaper, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=REPOSITORY,
            env=dict(environment),
        )  # fmt: skip
        try:
            root = 0
            while process.poll() is None:
                root = root or _command_of(process.pid)
                if root:
                    seen.sample(root)
                time.sleep(SAMPLE_S)
        finally:
            process.terminate()
            process.wait()
    found = json.loads(figures.read_text()) if figures.exists() else {"code": process.returncode}
    if found["code"] != 0:
        last = (output.read_text() + errors.read_text()).strip()[-LAST_CHARACTERS:]
        raise ContenderFailed(f"{' '.join(command[:6])} … ended with {found['code']}: {last}")
    costs = CommandCosts(
        seconds=found["seconds"],
        cpu_s=found["cpu_s"],
        memory_mib=seen.mib.get("memory", 0.0),
        python_mib=seen.mib.get("python", 0.0),
        jvm_mib=seen.mib.get("jvm", 0.0),
        jvm_heap_mib=seen.mib.get("heap", 0.0),
        cpu_by_program=seen.cpu_by_program(found["cpu_s"]),
    )
    return costs, output.read_text()


def _command_of(reaper: int) -> int:
    """The process of the command; 0: the reaper has not started it yet."""
    _, *below = processes_of(reaper)
    return below[0] if below else 0
