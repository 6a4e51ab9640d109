"""Findings in bilateral contracts: each with its place, and all of them, not only the first.

A finding is a refusal that is kept, so that all of a folder can be reported at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medusa_core.errors import Refused
from pipelines.contracts.yaml_values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence, and where it points: file, line and field as far as they are known."""

    sentence: str
    file: str
    line: int | None = None
    field: str | None = None

    @property
    def order(self) -> tuple[str, int]:
        """By file, then from top to bottom."""
        return self.file, self.line or 0


def finding_at(value: Value, says: str) -> Finding:
    """The finding that a value `says` something wrong (see `Value.refused`)."""
    return finding_of(value, value.refused(says))


def finding_of(value: Value, error: Refused) -> Finding:
    """A refusal whose sentence begins with the place of this value."""
    return Finding(sentence=str(error), file=value.file, line=value.line, field=value.field or None)


def refuse_all(findings: Sequence[Finding]) -> None:
    """Raise Refused with the first finding, and how many more there are; nothing if there is none.

    For callers that can say one sentence only.
    """
    if findings:
        first, *more = findings
        rest = f" (and {len(more):,} more: `medusa contract check` tells all)" if more else ""
        raise Refused(f"{first.sentence}{rest}")
