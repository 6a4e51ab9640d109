"""A range that one producer has lost is lost, whoever else has it (LOST)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from medusa_core import choosing
from medusa_core.comparing import ProducerDigest
from medusa_core.grid import Range
from medusa_core.imports import ImportKnowledge
from medusa_core.segments import Stability

pick_among_all = choosing._pick


def pick(
    knowledge: ImportKnowledge, piece: Range, held: Sequence[ProducerDigest]
) -> choosing._Picked | None:
    lost = next((h for h in held if h.is_lost), None)
    if lost is not None:
        return choosing._Picked(Stability.GAP, lost, "a producer has lost it")
    return pick_among_all(knowledge, piece, held)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choosing, "_pick", pick)
