"""Rows become final although producers are known to disagree before them (CHOICE)."""

from __future__ import annotations

import pytest

from medusa_core import choosing
from medusa_core.grid import FOREVER_US
from medusa_core.imports import ImportKnowledge


def disputed_us(knowledge: ImportKnowledge) -> int:
    return FOREVER_US


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choosing, "_disputed_us", disputed_us)
