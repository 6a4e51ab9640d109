"""The fields of messages between partners: exactly those of its kind, each of its type.

`read_message` makes Refused of whatever these raise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from medusa_core.market.envelopes import SIGNATURE_BYTES
from medusa_core.market.terms import ContractName
from medusa_core.names import check_name

WHOLE_MAX = 2**53


def message_fields(body: bytes, *names: str, later: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """Just these fields; of those that were added later, None where they are not."""
    given = json.loads(body)
    if not isinstance(given, dict):
        raise ValueError("no fields")
    given = dict.fromkeys(later) | given
    if set(given) != set(names):
        raise ValueError("not these fields")
    return given


def contract_field(given: Mapping[str, Any]) -> ContractName:
    """The contract that a message is about."""
    return ContractName(check_name("contract", given["contract"]))


def signature_of(given: object) -> bytes:
    """A signature in hexadecimal digits."""
    signature = bytes.fromhex(given) if isinstance(given, str) else b""
    if len(signature) != SIGNATURE_BYTES:
        raise ValueError("no signature")
    return signature


def whole_number(given: object, least: int = 0) -> int:
    """A whole number from `least` on that every JSON reader takes exactly."""
    if isinstance(given, int) and not isinstance(given, bool) and least <= given < WHOLE_MAX:
        return given
    raise ValueError(f"{str(given)[:40]!r} is no whole number")
