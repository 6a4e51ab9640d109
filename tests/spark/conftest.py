"""What the tests of the Spark step share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from pipelines.base.settings import Engine
from pipelines.spark.job_verification import Records, Verification
from pipelines.spark.kernel import Kernel

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_RUN = Kernel.run


def never_verified(patch: pytest.MonkeyPatch) -> None:
    """Take the result of a prepared job as it is: verification would hide its faults."""

    def run(_: Verification, job: Callable, *others: object, **how: object) -> tuple:
        return job(Records.ALL), False, None

    patch.setattr(Verification, "run", run)
    patch.setattr(Verification, "may_answer", True)
    patch.setattr(Verification, "is_trial_due", False)


@pytest.fixture(autouse=True)
def prepared_jobs_alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test is about the job itself, unless its module has `VERIFIES`; that costs half as much."""
    if not getattr(request.module, "VERIFIES", False):
        never_verified(monkeypatch)


@pytest.fixture
def with_kernels(spark: SparkSession) -> Iterator[None]:
    """Steps of any length are computed by kernels where there are some."""
    before = spark.conf.get("spark.medusa.engine")
    spark.conf.set("spark.medusa.engine", Engine.KERNEL)
    yield
    spark.conf.set("spark.medusa.engine", str(before))


@contextmanager
def counted_runs() -> Iterator[list[None]]:
    """An entry for each run of a kernel meanwhile."""
    runs: list[None] = []

    def noted(kernel: Kernel, *given: Any) -> pa.Table:
        runs.append(None)
        return _RUN(kernel, *given)

    with mock.patch.object(Kernel, "run", noted):
        yield runs
