"""An introduction is of one participant and of now; whatever else it says is refused."""

from __future__ import annotations

from typing import Any

import pytest

from medusa_core.errors import Refused
from medusa_core.names import Participant
from medusa_core.protocol.assertions import CLOCK_SKEW_S
from medusa_core.protocol.introductions import (
    LIFETIME_S,
    SUCCESSIONS_MAX,
    introduction_claims,
    read_introduction,
    read_succession,
    succession_claims,
)

ALPHA, BETA = Participant("alpha"), Participant("beta")
KEY, OTHER = bytes(range(32)), bytes(32)
NOW_MS = 1_900_000_000_000
URL, PIN = "https://alpha.example:8443", "ab" * 32


def claims(**changes: Any) -> dict[str, Any]:
    return {**introduction_claims(ALPHA, URL, PIN, ("a.b.c",), NOW_MS), **changes}


def test_an_introduction_says_where_a_participant_is() -> None:
    found = read_introduction(claims(), ALPHA, KEY, NOW_MS)
    assert (found.participant, found.public_key, found.url, found.pin) == (ALPHA, KEY, URL, PIN)


@pytest.mark.parametrize(
    ("later_s", "is_valid"),
    [
        (0, True),
        (LIFETIME_S + CLOCK_SKEW_S - 1, True),
        (LIFETIME_S + CLOCK_SKEW_S, False),
        (-CLOCK_SKEW_S, True),
        (-CLOCK_SKEW_S - 1, False),
    ],
)
def test_it_is_valid_for_an_hour_by_clocks_that_differ_by_ten_minutes(
    later_s: int, is_valid: bool
) -> None:
    now_ms = NOW_MS + later_s * 1_000
    if is_valid:
        read_introduction(claims(), ALPHA, KEY, now_ms)
    else:
        with pytest.raises(Refused, match="set the clocks"):
            read_introduction(claims(), ALPHA, KEY, now_ms)


@pytest.mark.parametrize(
    "changes",
    [
        {"iss": "beta"},
        {"iss": "No!"},
        {"use": "succession"},
        {"url": "http://alpha.example"},
        {"url": "https://a.example/path"},
        {"url": "https://user@a.example"},
        {"url": None},
        {"pin": "ab"},
        {"pin": 7},
        {"successions": ["a.b.c"] * (SUCCESSIONS_MAX + 1)},
        {"successions": ["not signed"]},
        {"successions": "a.b.c"},
        {"iat": -1},
        {"exp": True},
    ],
    ids=str,
)
def test_other_claims_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        read_introduction(claims(**changes), ALPHA, KEY, NOW_MS)


def test_a_succession_is_of_one_participant_and_of_one_key() -> None:
    said = succession_claims(ALPHA, KEY, OTHER, NOW_MS)
    assert read_succession(said, ALPHA, KEY) == OTHER
    for participant, before in ((BETA, KEY), (ALPHA, OTHER)):
        with pytest.raises(Refused, match="of another participant, or of another key"):
            read_succession(said, participant, before)
    with pytest.raises(Refused):
        read_succession(claims(), ALPHA, KEY)
