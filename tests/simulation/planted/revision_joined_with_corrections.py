"""A revision is committed together with corrections of tentative outputs, and names both (S13)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from medusa_core.commits import Commit
from medusa_core.decide import ComputeStep
from pipelines.participant import driver

join_as_they_are = driver._joined


def join(made: Iterable[tuple[ComputeStep, Commit]]) -> list[driver.Made]:
    return join_as_they_are((replace(step, is_revision=False), commit) for step, commit in made)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(driver, "_joined", join)
