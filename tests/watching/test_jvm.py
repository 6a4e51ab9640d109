"""What a JVM says of itself is read from outside: of the run's own Spark, and of what is no JVM."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pipelines.watching.jvm import MAGIC, counters_in, jvm_figures, jvms_of, process_figures
from pipelines.watching.jvm_collector import JvmCollector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIB = 2**20


def test_the_jvm_of_this_run_is_found_and_says_what_it_takes(spark: SparkSession) -> None:
    machine: Any = spark._jvm
    machine.java.lang.System.gc()  # the figures are those of the last collection
    ((pid, _),) = jvms_of(os.getpid())
    before = process_figures(pid)
    ((_, jvm),) = jvms_of(os.getpid())
    seen = process_figures(pid)
    assert before is not None
    assert seen is not None
    most_bytes = machine.java.lang.Runtime.getRuntime().maxMemory()
    assert 8 * MIB < jvm.heap_used_bytes <= jvm.heap_committed_bytes < 2 * most_bytes
    assert jvm.metaspace_bytes > MIB  # archived classes take little of it
    assert jvm.classes > 5_000
    assert 10 < jvm.threads <= max(before.threads, seen.threads)
    assert jvm.collections > 0
    assert seen.open_files > 50


def test_metrics_of_the_jvm_bear_the_participant(spark: SparkSession) -> None:
    registry = CollectorRegistry()
    registry.register(JvmCollector(os.getpid(), "alpha"))
    text = generate_latest(registry).decode()
    assert 'medusa_jvm_metaspace_bytes{participant="alpha"}' in text
    assert 'medusa_jvm_resident_bytes{participant="alpha"}' in text


def test_a_process_that_is_no_jvm_says_nothing() -> None:
    assert jvm_figures(os.getpid()) is None
    assert process_figures(2**22 + 1) is None


@pytest.mark.parametrize(
    "data",
    [b"", b"PAR1 and more", struct.pack(">IB", MAGIC, 1), struct.pack("<I", MAGIC) + b"\0" * 60],
)
def test_what_is_no_file_of_counters_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="counters"):
        counters_in(data)
