"""Contracts folders with bilateral contracts, for tests."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipelines.contracts.participants import read_participants
from pipelines.market.contracts.bilateral import Examined, examine_bilateral
from tests.contracts.writing import FILES, write_contracts

MOVEMENT = """\
contract: spare
kind: movement
payer: beta
provider: alpha
currency: EUR
valid: {from: 2026-01-01T00:00:00Z, until: 2027-01-01T00:00:00Z}
settlement: 1d
notice: 7d
price:
  low: 1.00
  high: 1.30
  step: 0.10
load_unit: core
load_max: 2.5
moves: [first, second]
reference: [first/seen=0.5, second/seen=2]
availability:
  recovery: precise
  method: active_standby
  replicas: 2
  bound: 10s
penalty: 5.00
hold_max: 1d
"""
CONTENT = """\
contract: large_for_beta
kind: content
payer: beta
provider: alpha
currency: USD
valid: {from: 2026-01-01T00:00Z, until: 2027-01-01T00:00:00.5Z}
settlement: 12h
stream: large
price: "0.000001"
per: record
availability: {recovery: rollback, method: upstream_backup}
"""
SUGGESTED = """\
contract: elsewhere
kind: suggested
payer: alpha
provider: beta
valid: {from: 2026-01-01T00:00:00Z, until: 2027-01-01T00:00:00Z}
stream: result
instead: gamma
"""
GAMMA = """\
participant: gamma
public_key: ed25519:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=
"""
"""Somebody else's participant: of gamma, only the name and the key are known here."""

TEXTS = {"spare": MOVEMENT, "large_for_beta": CONTENT, "elsewhere": SUGGESTED}


def write_bilateral(folder: Path, contracts: Mapping[str, str]) -> Path:
    """A folder in which alpha and beta run a network, and gamma is known, with these contracts."""
    bilateral = {f"bilateral/{name}.yaml": text for name, text in contracts.items()}
    return write_contracts(folder, {**FILES, "participants/gamma.yaml": GAMMA, **bilateral})


def examine(folder: Path, contracts: Mapping[str, str]) -> Examined:
    """What is read of such a folder, and what is wrong with it."""
    directory = write_bilateral(folder, contracts)
    return examine_bilateral(directory, read_participants(directory))
