"""One producer's final row is read as final, however many are to verify it (CHOICE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from medusa_core import choosing
from medusa_core.comparing import ProducerDigest
from medusa_core.grid import Range
from medusa_core.imports import ImportKnowledge

pick_verified = choosing._pick


def pick(
    knowledge: ImportKnowledge, piece: Range, held: Sequence[ProducerDigest]
) -> choosing._Picked | None:
    return pick_verified(replace(knowledge, verify=1), piece, held)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choosing, "_pick", pick)
