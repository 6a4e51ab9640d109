"""Asking the operator before final rows are taken back or replaced."""

from __future__ import annotations

import sys

from medusa_core.errors import Refused


def is_agreed(plan: str, question: str, effect: str) -> bool:
    """Print the plan and ask; Refused, with the effect, where nobody can answer."""
    if not sys.stdin.isatty():
        raise Refused(f"{effect}: look with --explain, then give --yes")
    print(plan)
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
