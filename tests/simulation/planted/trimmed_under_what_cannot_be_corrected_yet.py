"""Only what is owed by now keeps its inputs, not what will be owed later (L1)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.knowledge import OutputKnowledge
from pipelines.catalog import knowledge_rows
from pipelines.catalog.knowledge_rows import Line

output_of = knowledge_rows._output


def output(line: Line) -> OutputKnowledge:
    return replace(output_of(line), tentative_us=None)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(knowledge_rows, "_output", output)
