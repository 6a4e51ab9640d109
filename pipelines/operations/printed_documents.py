"""A command's answer as the document that it prints with --json."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from typing import Any


def told_by(command: Callable[..., int], *args: Any, **values: Any) -> Any:
    """The document of a command that prints one; raises what it raises."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        command(*args, **values)
    return json.loads(said.getvalue())


def said_by(command: Callable[..., int], *args: Any, **values: Any) -> str:
    """What a command prints, in one line; raises what it raises."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        command(*args, **values)
    return "; ".join(said.getvalue().strip().splitlines())
