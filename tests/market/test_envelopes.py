"""An envelope counts if it is meant for this home, well formed, and good when it came."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medusa_core.errors import Refused
from medusa_core.market.converging import CLOCK_MS_MAX
from medusa_core.market.envelopes import (
    BODY_BYTES_MAX,
    LIFETIME_MS_MAX,
    SIGNATURE_BYTES,
    Envelope,
    EnvelopeKind,
    check_envelope,
)
from medusa_core.names import Participant

ALPHA, BETA = Participant("alpha"), Participant("beta")
NOW = 1_700_000_000_000
GOOD = Envelope(
    kind=EnvelopeKind.OFFER,
    sender=ALPHA,
    receiver=BETA,
    nonce="0f" * 16,
    sent_at_ms=NOW - 10,
    expires_at_ms=NOW + 10,
    body=b"{}",
    signature=b"s" * SIGNATURE_BYTES,
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"body": b"x" * BODY_BYTES_MAX},
        {"expires_at_ms": NOW},
        {"sent_at_ms": NOW + CLOCK_MS_MAX, "expires_at_ms": NOW + CLOCK_MS_MAX},
        {"sent_at_ms": NOW, "expires_at_ms": NOW + LIFETIME_MS_MAX},
    ],
)
def test_an_envelope_is_taken_up_to_its_bounds(changes: dict[str, object]) -> None:
    check_envelope(replace(GOOD, **changes), BETA, NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"receiver": Participant("gamma")}, "it is meant for gamma, not for beta"),
        ({"sender": BETA}, "sends it to itself"),
        ({"nonce": "0f" * 15}, "nonce"),
        ({"nonce": "0G" * 16}, "nonce"),
        ({"nonce": "0f" * 16 + "\n"}, "nonce"),
        ({"signature": b"s" * (SIGNATURE_BYTES - 1)}, "signature"),
        ({"signature": b"s" * (SIGNATURE_BYTES + 1)}, "signature"),
        ({"body": b"x" * (BODY_BYTES_MAX + 1)}, "longer than"),
        ({"sent_at_ms": -1}, "times"),
        ({"expires_at_ms": NOW - 11}, "times"),
        ({"sent_at_ms": NOW, "expires_at_ms": NOW + LIFETIME_MS_MAX + 1}, "31 days"),
        ({"sent_at_ms": NOW + CLOCK_MS_MAX + 1, "expires_at_ms": NOW + 2 * CLOCK_MS_MAX}, "future"),
        ({"expires_at_ms": NOW - 1}, "stale"),
    ],
)
def test_what_is_beyond_them_is_refused_with_the_reason(
    changes: dict[str, object], reason: str
) -> None:
    with pytest.raises(Refused, match=reason):
        check_envelope(replace(GOOD, **changes), BETA, NOW)  # type: ignore[arg-type]


def test_a_sender_is_named_like_a_participant() -> None:
    with pytest.raises(Refused):
        check_envelope(replace(GOOD, sender=Participant("Alpha; --")), BETA, NOW)
