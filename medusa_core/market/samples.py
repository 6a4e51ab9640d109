"""Random samples of what a provider has computed: which buckets they are, and what was found.

The payer commits to its choice before the results exist, and cannot change it afterwards; the
provider learns it when they are final, and can check it then. When a move begins, the payer draws a
root at random and sends the provider the last link of a chain of hashes that starts with it. The
seed of the first settlement period is the link before, that of the next period the one before
that: a revealed seed leads to the commitment by hashing, and nobody finds the next seed from it.
Which buckets of a period are recomputed is a function of its seed, the stream, the bucket, and the
share of buckets that the contract says.

Limit: a move that lasts longer than LINKS periods is not sampled any more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from hashlib import sha256

from medusa_core.digest import Digest
from medusa_core.grid import Range, ceil_us
from medusa_core.market.bill_statements import digest_text
from medusa_core.names import StreamName, Version

LINKS = 4_096
"""Settlement periods for which a commitment has seeds."""

SEED_BYTES = 32
RATE = Decimal("0.01")
"""The share of buckets that are recomputed under a contract that does not say it."""

UNKNOWN = Version(0)
MILLION = 1_000_000
_CHANCES = 2**64


class SampleOutcome(Enum):
    """What a recomputation has found; the values are the labels in the catalog."""

    EQUAL = "equal"
    DIFFERS = "differs"
    NOT_VERIFIABLE = "not verifiable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A bucket of a stream that a moved fragment writes, as the provider has it (`stated`) and as
    it was recomputed, by their digests; `reason` is why it is not verifiable. `version` is that of
    the provider's rows, 0 where it is not known."""

    number: int
    stream: StreamName
    range: Range
    outcome: SampleOutcome
    stated: str = ""
    recomputed: str = ""
    reason: str = ""
    version: Version = UNKNOWN

    @property
    def subject(self) -> str:
        """The subject of its charge."""
        return f"{self.number}/{self.stream}"

    @property
    def digests(self) -> str:
        """The two digests, as a charge has them."""
        return f"{self.stated}:{self.recomputed}"


def compared(
    number: int,
    stream: StreamName,
    part: Range,
    stated: Digest,
    again: Digest,
    version: Version = UNKNOWN,
) -> Sample:
    """The sample of a bucket whose rows were recomputed."""
    return Sample(
        number=number,
        stream=stream,
        range=part,
        outcome=SampleOutcome.EQUAL if stated == again else SampleOutcome.DIFFERS,
        stated=digest_text(stated),
        recomputed=digest_text(again),
        version=version,
    )


def not_verifiable(
    number: int, stream: StreamName, part: Range, reason: str, version: Version = UNKNOWN
) -> Sample:
    """The sample of a bucket that cannot be computed again."""
    return Sample(
        number=number,
        stream=stream,
        range=part,
        outcome=SampleOutcome.NOT_VERIFIABLE,
        reason=reason[:500],
        version=version,
    )


def commitment_of(root: bytes) -> bytes:
    """What the payer sends before anything is computed."""
    return hashed(root, LINKS)


def seed_at(root: bytes, at: int) -> bytes | None:
    """The seed of a period, counted from the first one of the move; None: there is none."""
    return hashed(root, LINKS - 1 - at) if 0 <= at < LINKS else None


def is_committed(commitment: bytes, at: int, seed: bytes) -> bool:
    """Whether a revealed seed is the one of a period that was committed."""
    return 0 <= at < LINKS and len(seed) == SEED_BYTES and hashed(seed, at + 1) == commitment


@lru_cache(maxsize=1_024)
def hashed(seed: bytes, times: int) -> bytes:
    """SHA-256, repeated."""
    for _ in range(times):
        seed = sha256(seed).digest()
    return seed


@dataclass(frozen=True, slots=True)
class Draw:
    """Which buckets are recomputed: each with a probability of `rate` (None: RATE)."""

    seed: bytes
    rate: Decimal | None = None

    def has(self, stream: StreamName, from_us: int) -> bool:
        """Whether the bucket of a stream that begins there is recomputed."""
        rate = RATE if self.rate is None else self.rate
        chance = sha256(self.seed + f"{stream} {from_us}".encode()).digest()[:8]
        return int.from_bytes(chance, "big") * MILLION < int(rate * MILLION) * _CHANCES

    def buckets(self, stream: StreamName, part: Range, width_us: int) -> Iterator[Range]:
        """The buckets of a stream that begin in a range and are recomputed, in order."""
        for at_us in range(ceil_us(part.from_us, width_us), part.to_us, width_us):
            if self.has(stream, at_us):
                yield Range(at_us, at_us + width_us)
