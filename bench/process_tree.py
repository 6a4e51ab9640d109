"""Memory, handles and threads of a process and of all that it started, by kind of process."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.watching.jvm import jvm_figures, process_figures

Sample = dict[str, float]
"""Quantities of one moment by name: MiB where the name says MiB, else counts."""

MIB = 2**20


def processes_of(root: int) -> Iterator[int]:
    """A process and all below it; who ends meanwhile is left out."""
    yield root
    for file in _files_of_children(root):
        try:
            children = [int(child) for child in file.read_text().split()]
        except OSError:
            continue
        for child in children:
            yield from processes_of(child)


def _files_of_children(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return []


def sample_driver(root: int, *, leave_out: str | None = None) -> Sample:
    """A driver: its Python processes together, and its JVM apart if it has one.

    Processes of the name `leave_out`, such as a server that it started, are not counted.
    """
    sample: Sample = {"python RSS MiB": 0, "open files": 0, "threads": 0}
    for pid in processes_of(root):
        seen, jvm = process_figures(pid), jvm_figures(pid)
        if seen is None or _name(pid) == leave_out:
            continue
        side = "" if jvm is None else "JVM "
        resident = "JVM RSS MiB" if jvm else "python RSS MiB"
        _add(sample, resident, seen.resident_bytes / MIB)
        _add(sample, f"{side}open files", seen.open_files)
        _add(sample, f"{side}threads", seen.threads)
        if jvm is not None:
            _add(sample, "JVM metaspace MiB", jvm.metaspace_bytes / MIB)
            _add(sample, "JVM classes", jvm.classes)
            _add(sample, "JVM heap after GC MiB", jvm.heap_used_bytes / MIB)
            _add(sample, "JVM heap committed MiB", jvm.heap_committed_bytes / MIB)
            _add(sample, "JVM collections", jvm.collections)
    return sample


def memory_of(root: int) -> Sample:
    """The memory of a driver by kind of process, in MiB; what processes share is counted once.

    A process that the JVM starts (Hadoop runs `chmod`) has the JVM's own memory until it has
    loaded its program, under the name of a thread. So only the largest process of Java counts.
    """
    sample: Sample = dict.fromkeys(("driver", "JVM", "workers"), 0.0)
    for pid in processes_of(root):
        program = _program(pid)  # before its memory: it may load another one in between
        mib = _proportional_bytes(pid) / MIB
        if pid == root:
            sample["driver"] = mib
        elif program == "java":
            sample["JVM"] = max(sample["JVM"], mib)
        else:
            sample["workers"] += mib
    return sample


def sample_server(postmaster: int) -> Sample:
    """The Postgres server: what several of its processes share is counted once (PSS)."""
    sample: Sample = {"server PSS MiB": 0, "server open files": 0, "server processes": 0}
    for pid in processes_of(postmaster):
        seen = process_figures(pid)
        if seen is None:
            continue
        _add(sample, "server PSS MiB", _proportional_bytes(pid) / MIB)
        _add(sample, "server open files", seen.open_files)
        _add(sample, "server processes", 1)
    return sample


def _add(sample: Sample, name: str, value: float) -> None:
    sample[name] = sample.get(name, 0) + value


def _name(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return None


def _program(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return None


def _proportional_bytes(pid: int) -> int:
    try:
        told = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", told, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


_USER, _SYSTEM, _ENDED = 11, 12, (13, 14)
"""Where these stand in `/proc/PID/stat`, behind the name in brackets (proc(5) counts from 3)."""


def cpu_seconds(roots: Sequence[int]) -> float:
    """What processes and all below them have computed so far; of those that ended, nothing.

    One that is below two of the roots counts once.
    """
    return sum(map(_own_cpu_s, {pid for root in roots for pid in processes_of(root)}))


def cpu_seconds_of_all(root: int) -> float:
    """The same with what ended processes below it have computed, once their parents know it."""
    return sum(_own_cpu_s(pid, (_USER, _SYSTEM, *_ENDED)) for pid in processes_of(root))


def cpu_by_program(root: int) -> dict[int, tuple[str, float]]:
    """CPU seconds of a process and of each below it, by its number, with the kind of program."""
    found: dict[int, tuple[str, float]] = {}
    for pid in processes_of(root):
        if program := _program(pid):  # else it has ended
            kind = "driver" if pid == root else _KINDS.get(program, "workers")
            found[pid] = kind, _own_cpu_s(pid)
    return found


_KINDS = {"java": "JVM", "postgres": "Postgres", "initdb": "Postgres"}
"""The kind of a process by the name of its program."""


def _own_cpu_s(pid: int, places: Sequence[int] = (_USER, _SYSTEM)) -> float:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return sum(int(fields[place]) for place in places) / os.sysconf("SC_CLK_TCK")
