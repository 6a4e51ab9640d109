"""What the tests of the Spark step share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipelines.spark.job_verification import Records, Verification


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
