"""Introductions of partners as the database takes them."""

from __future__ import annotations

from typing import Any

from medusa_core.protocol.introductions import Introduction


def introduction_values(introduction: Introduction) -> dict[str, Any]:
    """The arguments of the functions that store an introduction, by name."""
    return {
        "partner": introduction.participant,
        "public_key": introduction.public_key,
        "url": introduction.url,
        "pin": introduction.pin,
    }
