"""Which windows and which records are kept at a share: a pure rule, the same wherever it is asked.

Windows are dropped whole: event time is cut into units, and all buckets of a unit are computed or
none is. So the rows that remain are a subset of the exact rows, and no aggregate is wrong. The kept
units are spread evenly: unit n is kept iff the fractional part of n times the golden ratio, shifted
by a seed, is below the share. Of any run of units about the share is kept, and what is kept at a
share is kept at every larger one.

Records are dropped one by one where every box passes records singly. A record is kept iff its hash,
mixed with a seed, is below the share: equal records share one fate, and however the input is cut
into files, batches and steps, the same records remain.

Source: the window drop of Borealis, with a batch of windows as the unit, and its random drop with a
hash in place of a coin.
"""

from __future__ import annotations

from hashlib import sha256

from medusa_core.digest import MASK, mix

_GOLDEN = 0x9E3779B97F4A7C15
_WHOLE = 2**64


def seed_of(text: str) -> int:
    """64 bits that follow from a text."""
    return int.from_bytes(sha256(text.encode()).digest()[:8], "little")


def threshold_of(share: float) -> int:
    """A word of 64 bits is kept iff it is below this; at a share of 1 all are."""
    return min(max(round(share * _WHOLE), 0), _WHOLE)


def is_unit_kept(unit: int, share: float, seed: int) -> bool:
    """Whether the unit with a number (which may be below 0) is kept."""
    return (unit * _GOLDEN + seed) & MASK < threshold_of(share)


def is_record_kept(row_hash: int, share: float, seed: int) -> bool:
    """Whether a record is kept that has this hash (`medusa_core.digest.row_hashes`, the first)."""
    return mix(row_hash ^ seed) < threshold_of(share)
