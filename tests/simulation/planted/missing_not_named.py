"""An answer does not say which input it lacks (S6)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.commits import Commit, Lease
from medusa_core.decide import ComputeStep
from pipelines.spark import step as steps
from pipelines.spark.results import StepResult

commit_with_names = steps.commit_of


def commit_of(step: ComputeStep, result: StepResult, lease: Lease) -> Commit:
    return commit_with_names(replace(step, missing=()), result, lease)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(steps, "commit_of", commit_of)
