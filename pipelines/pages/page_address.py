"""Addresses of pages with values behind `?`."""

from __future__ import annotations

from urllib.parse import urlencode


def with_values(page: str, **values: object) -> str:
    """The page with those of the values that are not None."""
    given = {name: str(value) for name, value in values.items() if value is not None}
    return f"{page}?{urlencode(given)}" if given else page
