"""The contracts that ship: a folder for each of four owners, and one for the sites of one owner."""

from __future__ import annotations

import shutil
from pathlib import Path

from pipelines.base.settings import REPOSITORY
from pipelines.contracts.public_keys import public_key_text

CONTRACTS = REPOSITORY / "contracts"
SITES = CONTRACTS / "sites"
OWNERS = ("alpha", "beta", "gamma", "delta")


def joined(owner: str, folder: Path) -> Path:
    """A copy of an owner's contracts as it is when all others have joined it."""
    shutil.copytree(CONTRACTS / owner, folder)
    for number, partner in enumerate(OWNERS):
        if partner != owner:
            text = f"participant: {partner}\npublic_key: {public_key_text(bytes([number] * 32))}\n"
            (folder / "participants" / f"{partner}.yaml").write_text(text)
    return folder
