"""Gauges of the JVM under a driver, read when a scraper asks and without asking the JVM."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from pipelines.watching.jvm import jvms_of, process_figures


class JvmCollector(Collector):
    """What `pipelines.watching.jvm` says of the JVMs of a process; nothing before Spark runs."""

    def __init__(self, pid: int, participant: str) -> None:
        self._pid = pid
        self._participant = participant

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing: to be registered needs no JVM."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One look."""
        for pid, jvm in jvms_of(self._pid):
            seen = process_figures(pid)
            if seen is not None:
                yield self._gauge("resident_bytes", "Resident memory.", seen.resident_bytes)
                yield self._gauge("open_files", "Open file handles.", seen.open_files)
            heap = "Heap in use after the last collection."
            yield self._gauge("heap_used_bytes", heap, jvm.heap_used_bytes)
            yield self._gauge("heap_committed_bytes", "Heap taken.", jvm.heap_committed_bytes)
            metaspace = "Metaspace in use at the last collection."
            yield self._gauge("metaspace_bytes", metaspace, jvm.metaspace_bytes)
            yield self._gauge("classes", "Classes that are loaded.", jvm.classes)
            yield self._gauge("threads", "Threads that run.", jvm.threads)
            return  # a driver has one; two would be the same series

    def _gauge(self, name: str, text: str, value: float) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(f"medusa_jvm_{name}", text, labels=("participant",))
        gauge.add_metric((self._participant,), value)
        return gauge
