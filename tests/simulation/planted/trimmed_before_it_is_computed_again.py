"""For a revision the inputs that are read again are held, and not what is computed of them (L1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.names import StreamName
from pipelines.catalog.records import LineStatus
from pipelines.participant import revising

find_reached = revising._reached


def reached(
    shapes: Mapping[str, Sequence[Fragment]], lines: Mapping[StreamName, LineStatus],
    root: StreamName, ranges: Sequence[Range],
) -> tuple[dict[StreamName, tuple[Range, ...]], dict[str, dict[StreamName, int]]]:  # fmt: skip
    changed, needed = find_reached(shapes, lines, root, ranges)
    read = {name: {s for one in shapes[name] for s in one.input_streams} for name in needed}
    return changed, {
        name: {stream: at_us for stream, at_us in inputs.items() if stream in read[name]}
        for name, inputs in needed.items()
    }


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(revising, "_reached", reached)
