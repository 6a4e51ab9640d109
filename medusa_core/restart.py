"""How long to wait before the next try after failures in a row. Pure."""

from __future__ import annotations

_DOUBLINGS_MAX = 20
"""More would make a large number of failures a large number of bits."""


def back_off_ms(failures: int, *, first_ms: int, most_ms: int) -> int:
    """The wait after so many failures in a row: `first_ms` after one, then twice the wait before.

    Never above `most_ms`; 0 if there was no failure.
    """
    if failures < 1:
        return 0
    return min(most_ms, first_ms << min(failures - 1, _DOUBLINGS_MAX))
