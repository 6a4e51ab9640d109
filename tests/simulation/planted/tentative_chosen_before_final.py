"""A row that a producer has as tentative is read before another's that is final (CHOICE)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from medusa_core import choosing
from medusa_core.comparing import ProducerDigest
from medusa_core.grid import Range
from medusa_core.imports import ImportKnowledge
from medusa_core.segments import Stability

pick_final_first = choosing._pick


def pick(
    knowledge: ImportKnowledge, piece: Range, held: Sequence[ProducerDigest]
) -> choosing._Picked | None:
    tentative = [h for h in held if h.segment and not h.segment.stability.is_final]
    is_new = knowledge.boundary_us is None or piece.from_us >= knowledge.boundary_us
    if tentative and is_new:
        return choosing._Picked(Stability.TENTATIVE, tentative[0], "it came first")
    return pick_final_first(knowledge, piece, held)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choosing, "_pick", pick)
