"""Of a stream that is needed on two ways, only what the last way needs is read (L2)."""

from __future__ import annotations

import pytest

from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.names import StreamName


def needed(self: Fragment, output: StreamName, part: Range) -> dict[StreamName, Range]:
    found = ((path.stream, path.behind(part)) for path in self._paths[output])
    return {stream: behind for stream, behind in found if behind is not None}


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fragment, "needed", needed)
