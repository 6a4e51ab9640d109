"""A line counts as compared as far as any other is final, so what comes of it later is not."""

from __future__ import annotations

import pytest

from medusa_core import choosing
from medusa_core.comparing import _final_us
from medusa_core.imports import ImportKnowledge
from medusa_core.segments import Producer


def compared_through(knowledge: ImportKnowledge) -> dict[Producer, int]:
    through_us = max((_final_us(line) for line in knowledge.producers), default=0)
    return {
        line.producer: through_us
        for line in knowledge.producers
        if line.origin_us is not None and (line.compared_us or 0) < through_us
    }


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(choosing, "compared_through", compared_through)
