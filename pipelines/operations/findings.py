"""Findings of `medusa doctor`: ok, a warning or a failure, and the remedy in a sentence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """How grave a finding is; only a failure makes the doctor's exit code 1."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one check found; `to_do` is empty where nothing is, or where `found` says it already."""

    name: str
    state: State
    found: str
    to_do: str = ""


def ok(name: str, found: str) -> Finding:
    """Nothing to do."""
    return Finding(name=name, state=State.OK, found=found)


def warn(name: str, found: str, to_do: str = "") -> Finding:
    """Works, but should be looked at."""
    return Finding(name=name, state=State.WARN, found=found, to_do=to_do)


def fail(name: str, found: str, to_do: str = "") -> Finding:
    """Does not work."""
    return Finding(name=name, state=State.FAIL, found=found, to_do=to_do)


def has_failed(findings: Iterable[Finding]) -> bool:
    """Whether one of the findings is a failure."""
    return any(finding.state is State.FAIL for finding in findings)
