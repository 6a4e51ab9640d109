"""Drawn documents of contracts: valid ones with fields edited, as bytes.

Nothing of Medusa is used: these are the bytes that a partner could send.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hypothesis import strategies as st

DAY_MS = 86_400_000
YEAR_1_MS, YEAR_9999_MS = -62_135_596_800_000, 253_402_300_799_999

NAMES = ("beta", "alpha", "zeta", "b" * 63, "b" * 64, "Beta", "a.b", "é", "a\n", "", " b", 7, None)
AMOUNTS = ("1", "1.2", "0", "0.000001", "0.0000001", "1000000000000", "1000000000000.000001", "-1",
           "1.0", "01", ".5", "1e3", "1_0", "NaN", "Infinity", "", 1, 1.5, None, True)  # fmt: skip
LENGTHS = (0, 1, DAY_MS, 366 * DAY_MS, 366 * DAY_MS + 1, -1, 2**53, 2**63, 1.5, "1", None, False)
TIMES = (0, 1, YEAR_1_MS, YEAR_1_MS - 1, YEAR_9999_MS, YEAR_9999_MS + 1, -(2**53), 2**53, 2**70,
         1_700_000_000_000, "0", None)  # fmt: skip
WORDS = ("movement", "content", "suggested", "gap", "rollback", "precise", "amnesia", "record",
         "passive_standby", "active_standby", "upstream_backup", "period", "GAP", None)  # fmt: skip
LISTS = (None, [], ["main"], ["a", "b"], ["b", "a"], ["a", "a"], ["a.b"], ["a.b.c"], [1], [None],
         [["a"]], "any", {}, ["normal"], ["import", "landing"], ["normal", "other"],
         ["filter"], ["aggregate", "filter", "map"], ["map", "filter"], ["filter", "function"],
         ["gamma/sums"], ["gamma/b", "gamma/a"], ["alpha/sums"], ["beta/sums"], ["gamma/a/b"],
         ["gamma/a", "gamma/b"], ["gamma/"], [f"gamma/s{number}" for number in range(1_001)],
         [f"f{number:04}" for number in range(1_000)],
         [f"f{number:04}" for number in range(1_001)])  # fmt: skip
POOLS: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(("contract", "payer", "provider", "stream", "instead"), NAMES),
    **dict.fromkeys(
        ("price", "price_low", "price_high", "price_step", "load_max", "penalty"), AMOUNTS
    ),
    **dict.fromkeys(("settlement_ms", "notice_ms", "hold_ms_max", "bound_ms"), LENGTHS),
    **dict.fromkeys(("valid_from_ms", "valid_until_ms"), TIMES),
    **dict.fromkeys(("kind", "recovery", "method", "per"), WORDS),
    **dict.fromkeys(("fragments", "reads", "reference", "boxes"), LISTS),
    "currency": ("EUR", "XXX", "eur", "E1R", "ÉUR", "EURO", "EUR\n", "", 3, None),
    "number": (1, 2, 0, -1, 2**53 - 1, 2**53, 2**63, 1.0, "1", None, True),
    "supersedes": (None, "a" * 64, "A" * 64, "a" * 63, 'a","b":"c', "", 1),
    "replicas": (0, 1, 2, 1_000, 1_001, -1, 2**53, 1.5, "2", None, True),
    "format": ("medusa.contract/1", "medusa.contract/2", "", None, 1),
    "verify": ("0", "0.01", "1", "1.1", "-0.1", "0.0000001", "0.10", "x", 0.5, None, True),
    "known_at": ("now",),
    "document": ("",),
    "subject": (None, [], {}, ""),
    "availability": (None, [], {}, ""),
}

_PROMISE = {
    "availability": {
        "bound_ms": None, "method": "upstream_backup", "recovery": "rollback", "replicas": 1,
    },
    "hold_ms_max": DAY_MS,
    "penalty": "0",
}  # fmt: skip
SUBJECTS: Mapping[str, dict[str, Any]] = {
    "movement": _PROMISE | {
        "reference": ["main/seen=0.5"], "fragments": None, "load_max": "2", "price_low": "1",
        "price_high": "1.2", "price_step": "0.1",
    },
    "reads": _PROMISE | {
        "fragments": ["main"], "load_max": "2", "price_low": "1",
        "price_high": "1", "price_step": "1", "reads": ["gamma/a", "gamma/b"], "verify": "0.25",
    },
    "content": _PROMISE | {"per": "record", "price": "0.001", "stream": "sums"},
    "boxes": _PROMISE | {
        "boxes": ["filter", "map"], "load_max": "0.5", "per": "period", "price": "2",
        "stream": "sums",
    },
    "suggested": {"instead": "gamma", "stream": "sums"},
}  # fmt: skip


Edit = tuple[str, object]
"""A field that gets a value, or none (REMOVED)."""

REMOVED = object()


def a_document(kind: str, *edits: Edit) -> bytes:
    """The document of a valid contract of that kind, and of the edits."""
    subject = dict(SUBJECTS[kind])
    kind = {"boxes": "content", "reads": "movement"}.get(kind, kind)
    fields: dict[str, Any] = {
        "contract": "spare", "currency": "EUR", "format": "medusa.contract/1", "kind": kind,
        "notice_ms": DAY_MS, "number": 1, "payer": "alpha", "provider": "beta",
        "settlement_ms": DAY_MS, "supersedes": None, "valid_from_ms": 1_700_000_000_000,
        "valid_until_ms": 4_000_000_000_000,
    }  # fmt: skip
    promise = dict(subject.get("availability", {}))
    for name, value in edits:
        part = next((part for part in (fields, subject, promise) if name in part), subject)
        if value is REMOVED:
            part.pop(name, None)
        else:
            part[name] = value
    if "availability" in subject and isinstance(subject["availability"], dict):
        subject["availability"] = promise
    whole = {"subject": subject, **fields}
    return json.dumps(whole, sort_keys=True, separators=(",", ":")).encode()


def edits() -> Iterator[Edit]:
    """Every value of the pools for every field, and every field removed."""
    for name, pool in POOLS.items():
        yield from ((name, value) for value in (*pool, REMOVED))


def documents() -> st.SearchStrategy[bytes]:
    """A document with two fields edited."""
    edit = st.sampled_from(list(edits()))
    return st.builds(a_document, st.sampled_from(sorted(SUBJECTS)), edit, edit)
