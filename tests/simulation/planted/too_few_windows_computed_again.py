"""What is computed again for a revision are the buckets in which it lies, and no windows (L1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from medusa_core import revisions
from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.names import StreamName

find_touched = revisions.touched


def touched(
    fragment: Fragment, output: StreamName, width_us: int, whole: Range,
    changed: Mapping[StreamName, Iterable[Range]],
) -> tuple[Range, ...]:  # fmt: skip
    parts = [part for ranges in changed.values() for part in ranges]
    found = find_touched(fragment, output, width_us, whole, changed)
    return tuple(bucket for bucket in found if any(bucket.overlaps(part) for part in parts))


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(revisions, "touched", touched)
