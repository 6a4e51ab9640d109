"""A lineage names a version that its home has not seen (S5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from medusa_core import decide
from medusa_core.grid import Range
from medusa_core.knowledge import FragmentKnowledge
from medusa_core.names import StreamName, Version
from medusa_core.segments import Read

reads_as_known = decide.reads_of


def reads_of(
    fragment: FragmentKnowledge,
    outputs: Iterable[StreamName],
    part: Range,
    *,
    keeps_content: bool = False,
) -> Iterator[Read]:
    for read in reads_as_known(fragment, outputs, part, keeps_content=keeps_content):
        yield replace(read, version=Version(read.version + 1))


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "reads_of", reads_of)
