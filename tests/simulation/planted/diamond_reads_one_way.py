"""Of a stream that is needed on two ways, only what the last way needs is read (L2)."""

from __future__ import annotations

import pytest

from medusa_core.fragments import Fragment, windows_within
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import Aggregate, Port, inputs_of


def _need(self: Fragment, port: Port, part: Range, need: dict[StreamName, Range]) -> None:
    if port in self.inputs:
        need[self.inputs[port]] = part
        return
    box = self.network.box(port.owner)
    behind = windows_within(box, part) if isinstance(box, Aggregate) else part
    if behind is not None:
        for reference in inputs_of(box):
            self._need(self.network.port(reference, box.name), behind, need)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fragment, "_need", _need)
