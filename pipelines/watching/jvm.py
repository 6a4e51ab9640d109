"""Figures of the JVM under a driver, read without a call: heap, metaspace, threads.

A HotSpot JVM keeps its counters in a file that others may map (`hsperfdata_<user>/<pid>` in the
temporary folder), so reading them costs no call, no connection and no pause. The figures of the
heap and the metaspace are those of the last collection. A JVM that is configured to keep no such
file (`-XX:-UsePerfData`, `-XX:+PerfDisableSharedMem`) is seen from outside only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

MAGIC = 0xCAFEC0C0
TEMPORARY = Path("/tmp")  # where HotSpot puts it, whatever TMPDIR says


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFigures:
    """What the system says of a process: resident memory, open files, threads."""

    resident_bytes: int
    open_files: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmFigures:
    """What a JVM says of itself; `heap_used_bytes` is what the last collection left."""

    heap_used_bytes: int
    heap_committed_bytes: int
    metaspace_bytes: int
    classes: int
    threads: int
    collections: int


def process_figures(pid: int) -> ProcessFigures | None:
    """A process of this machine; None once it is gone, or if the system hides it."""
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return ProcessFigures(
                resident_bytes=process.memory_info().rss,
                open_files=process.num_fds(),
                threads=process.num_threads(),
            )
    except psutil.Error:
        return None


def jvms_of(pid: int) -> Iterator[tuple[int, JvmFigures]]:
    """The JVMs that a process started, by their process ids."""
    for child in _children(pid):
        figures = jvm_figures(child)
        if figures is not None:
            yield child, figures


def jvm_figures(pid: int) -> JvmFigures | None:
    """What the JVM of this process id says; None if it is none, or says nothing."""
    for file in TEMPORARY.glob(f"hsperfdata_*/{pid}"):
        try:
            counters = counters_in(file.read_bytes())
        except (OSError, ValueError):
            continue
        if counters:
            return _figures(counters)
    return None


def counters_in(data: bytes) -> Mapping[str, int]:
    """The numbers in such a file by their names; raises ValueError if it is none."""
    try:
        magic, order = struct.unpack_from(">IB", data)
        if magic != MAGIC:
            raise ValueError("these are no counters of a JVM")
        sign = "<" if order == 1 else ">"
        at, entries = struct.unpack_from(f"{sign}II", data, 24)
        found = {}
        for _ in range(entries):
            length, name_at, vector, kind = struct.unpack_from(f"{sign}IIIB", data, at)
            (data_at,) = struct.unpack_from(f"{sign}I", data, at + 16)
            if kind == ord("J") and vector == 0:
                name = data[at + name_at : data.index(b"\0", at + name_at)].decode("ascii")
                (found[name],) = struct.unpack_from(f"{sign}q", data, at + data_at)
            if length <= 0:
                break  # being written
            at += length
    except struct.error as error:
        raise ValueError("these counters end too early") from error
    return found


def _figures(counters: Mapping[str, int]) -> JvmFigures:
    def total(prefix: str, suffix: str) -> int:
        return sum(
            number
            for name, number in counters.items()
            if name.startswith(prefix) and name.endswith(suffix)
        )

    def classes(change: str) -> int:
        """Of its files and of its archive (`-XX:SharedArchiveFile`), which are counted apart."""
        own = counters.get(f"java.cls.{change.lower()}Classes", 0)
        return own + counters.get(f"java.cls.shared{change}Classes", 0)

    return JvmFigures(
        heap_used_bytes=_in_spaces(counters, "used"),
        heap_committed_bytes=_in_spaces(counters, "capacity"),
        metaspace_bytes=counters.get("sun.gc.metaspace.used", 0),
        classes=classes("Loaded") - classes("Unloaded"),
        threads=counters.get("java.threads.live", 0),
        collections=total("sun.gc.collector.", ".invocations"),
    )


def _in_spaces(counters: Mapping[str, int], what: str) -> int:
    """A sum over all spaces of all generations, such as sun.gc.generation.1.space.0.used."""
    return sum(
        number
        for name, number in counters.items()
        if name.startswith("sun.gc.generation.") and ".space." in name and name.endswith(f".{what}")
    )


def _children(pid: int) -> list[int]:
    try:
        return [child.pid for child in psutil.Process(pid).children()]
    except psutil.Error:
        return []
