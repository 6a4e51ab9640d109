"""What is chosen among several producers begins at age 0 (S11)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from medusa_core import choosing
from medusa_core.comparing import ProducerDigest
from medusa_core.grid import Range
from medusa_core.imports import Choose, ImportKnowledge

choice_with_age = choosing._choice


def choice(
    knowledge: ImportKnowledge,
    piece: Range,
    picked: choosing._Picked,
    held: Sequence[ProducerDigest],
) -> Choose:
    return replace(choice_with_age(knowledge, piece, picked, held), fresh_ms=None)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choosing, "_choice", choice)
