"""Names of participants, streams and other things: checked, so safe in a path, a role and a URL."""

from __future__ import annotations

import re
from typing import NewType

from medusa_core.errors import Refused

Participant = NewType("Participant", str)
StreamName = NewType("StreamName", str)
NetworkName = NewType("NetworkName", str)
FragmentName = NewType("FragmentName", str)
BoxName = NewType("BoxName", str)
PlanId = NewType("PlanId", str)
Epoch = NewType("Epoch", int)
Version = NewType("Version", int)

FIRST_EPOCH = Epoch(1)
"""The epoch of a first assignment."""

NAME_LENGTH_MAX = 63
NAME_PATTERN = rf"[a-z][a-z0-9_]{{0,{NAME_LENGTH_MAX - 1}}}"
"""A name as a regular expression."""

_NAME = re.compile(NAME_PATTERN)


def is_name(name: object) -> bool:
    """Whether a value is a valid name, as `check_name` says."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def check_name(kind: str, name: str) -> str:
    """Return `name` if it is valid: a lower-case letter, then letters, digits and `_`, 63 at most.

    Raises Refused, naming the kind and the name.
    """
    if not is_name(name):
        raise Refused(
            f"{kind} {name!r} is not a name: begin with a lower-case letter, continue with "
            f"lower-case letters, digits and '_', {NAME_LENGTH_MAX} characters at most"
        )
    return name


def is_fragment_named(fragment: str, given: str) -> bool:
    """Whether a person or a contract means this fragment, which its home names NETWORK/FRAGMENT, by
    FRAGMENT, NETWORK.FRAGMENT or NETWORK/FRAGMENT."""
    name = given.replace(".", "/")
    return fragment == name or fragment.endswith(f"/{name}")
