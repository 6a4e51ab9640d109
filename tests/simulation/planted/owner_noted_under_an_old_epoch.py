"""A new owner that was decided on by an older log is noted all the same (S15)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.names import Epoch, Participant
from pipelines.catalog.memory import owners
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.records import OwnerLine

change = owners.change_owner


def change_whatever_the_log(transaction: Transaction, here: Participant, line: OwnerLine) -> None:
    log = owners.owners(transaction, line.fragment, line.partition)
    change(transaction, here, replace(line, epoch=Epoch(len(log) + 1)))


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(owners, "change_owner", change_whatever_the_log)
