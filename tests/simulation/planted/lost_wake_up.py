"""News that comes while somebody works is not heard, and no time limit stands in for it (L1)."""

from __future__ import annotations

import pytest

from pipelines.exchange.notification_listener import TRY_AGAIN_S, NotificationListener

FOR_EVER_S = 1e6


def wait(self: NotificationListener, limit_ms: int) -> None:
    self.close()
    self._tried_s = -TRY_AGAIN_S
    self._listen()
    self._ready(FOR_EVER_S)


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NotificationListener, "wait", wait)
