"""Events, one value for each, and the line in fixed columns that shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """At which millisecond of the schedule, to whom, what kind, about what, and why."""

    at_ms: int
    who: str
    kind: str
    what: str = ""
    why: str = ""

    def __str__(self) -> str:
        return (
            f"{self.at_ms:>7}  {self.who:<14} {self.kind:<10} {self.what:<44} {self.why}".rstrip()
        )


class Violation(Exception):
    """A law was broken: which one, and a sentence that says where."""

    def __init__(self, law: str, sentence: str) -> None:
        super().__init__(f"{law} is broken: {sentence}")
        self.law = law
