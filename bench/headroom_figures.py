"""The figures of `python -m bench headroom`: one cut, and how the delays of many are spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A cut and what was answered until all was final again.

    `delay_ms`: of the first tentative answer. `others_ms`: the greatest delay of all other answers.
    `wait_ms`: how long the fragment waited by its decision; `left_ms`: what was left for a step,
    for the work around it, and until inputs are there; `step_ms`: the phases of the step.
    `is_cold`: the participant had been restarted right before. `is_kept`: it did not say before
    that the bound may not be kept.
    """

    number: int
    is_cold: bool
    lost: tuple[str, ...]
    bound_ms: int
    delay_ms: int
    others_ms: int
    wait_ms: int
    left_ms: tuple[int, ...]
    step_ms: int
    is_kept: bool
    load: float

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Cut:
        """From a line of the file that keeps them."""
        return cls(
            **{**document, "lost": tuple(document["lost"]), "left_ms": tuple(document["left_ms"])}
        )

    @property
    def is_late(self) -> bool:
        """Whether an answer of it came later than the bound."""
        return self.delay_ms > self.bound_ms

    def __str__(self) -> str:
        kind = "cold" if self.is_cold else "warm"
        late = "  LATE" if self.is_late else ""
        left = "+".join(map(str, self.left_ms))
        output = "" if self.is_kept else "*"
        return (
            f"{self.number:4d} {kind}  without {' and '.join(self.lost):14s} "
            f"first tentative answer {self.delay_ms:5d} ms of {self.bound_ms} "
            f"(waited {self.wait_ms}, left {left}, step {self.step_ms}), "
            f"others {self.others_ms:5d} ms, load {self.load:.1f}{output}{late}"
        )


def lines_of(cuts: Sequence[Cut]) -> Iterator[str]:
    """A table: how the delays of first tentative answers are spread."""
    for name, some in (
        ("all", cuts),
        ("kept", [cut for cut in cuts if cut.is_kept]),
        ("warm", [cut for cut in cuts if not cut.is_cold]),
        ("cold", [cut for cut in cuts if cut.is_cold]),
    ):
        if some:
            delays = sorted(cut.delay_ms for cut in some)
            p50, p90, p99 = (at_share(delays, share) for share in (0.5, 0.9, 0.99))
            late = sum(cut.is_late for cut in some)
            waited = at_share(sorted(cut.wait_ms for cut in some), 0.5)
            loads = [cut.load for cut in some]
            yield (
                f"{name:5s} {len(some):4d} cuts: first answer p50 {p50} ms, p90 {p90} ms, "
                f"p99 {p99} ms, max {delays[-1]} ms; {late} later than {some[0].bound_ms} ms; "
                f"waited p50 {waited} ms; load {min(loads):.1f} to {max(loads):.1f}"
            )


def at_share(values: Sequence[int], share: float) -> int:
    """The smallest of sorted values that at least this share of them does not exceed."""
    return values[max(-int(-share * len(values) // 1) - 1, 0)]
