"""A correction takes only the first input that is final (L2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from medusa_core import corrections
from medusa_core.grid import Range
from medusa_core.knowledge import FragmentKnowledge
from medusa_core.names import StreamName
from medusa_core.segments import Read

reads_all = corrections.reads_of


def reads_of(
    fragment: FragmentKnowledge, outputs: Iterable[StreamName], part: Range
) -> Iterator[Read]:
    found = list(reads_all(fragment, outputs, part))
    first = found[0].input if found else None
    return (read for read in found if read.input == first)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(corrections, "reads_of", reads_of)
