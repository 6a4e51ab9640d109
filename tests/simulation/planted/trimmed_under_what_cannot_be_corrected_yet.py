"""Only what is owed by now keeps its inputs, not what will be owed later (L1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.knowledge import OutputKnowledge
from pipelines.catalog import standing
from pipelines.catalog.standing import Line

output_of = standing._output


def output(line: Line) -> OutputKnowledge:
    return replace(output_of(line), tentative_us=None)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(standing, "_output", output)
