"""Fields of the forms under which DAGs are triggered.

Input is checked by the first task, with the commands' own refusals; the form only offers existing
choices. It is read with the DAG files, so it looks at one small file and imports nothing heavy.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow.sdk import Param

from medusa_core.errors import WRONG_FORM
from pipelines.base.settings import DIRECTORY, environment

NAMES_MAX = 500
TEXT_MAX = 4_000
NAME = r"^\s*[a-z][a-z0-9_./]*\s*$"
TIME = r"^\s*[0-9+.:TZtz -]{1,40}\s*$"


def known_names() -> list[str]:
    """The participants that homes were made for, to be offered; none where that cannot be read."""
    record = Path(environment().get(DIRECTORY) or ".medusa").expanduser() / "home.json"
    try:
        names = json.loads(record.read_text())["participants"]
        return sorted(name for name in names if isinstance(name, str))[:NAMES_MAX]
    except (OSError, *WRONG_FORM):
        return []


def optional_text(title: str, description: str, default: str | None = None, **more: Any) -> Param:
    """A field that may be left empty."""
    return Param(
        default,
        description=description,
        type=["null", "string"],
        title=title,
        maxLength=TEXT_MAX,
        **more,
    )


def one_participant(title: str, description: str) -> Param:
    """One participant, with those that there are offered."""
    return optional_text(title, description, examples=known_names())


def participants(
    description: str = "Which participants, a line each; none: all that have a home here.",
) -> Param:
    """Several participants, none at first."""
    return Param(
        [],
        description=description,
        type="array",
        items={"type": "string", "maxLength": 200},
        title="Participants",
        maxItems=NAMES_MAX,
        examples=known_names(),
    )


def name(title: str, description: str, **more: Any) -> Param:
    """The name of a stream, fragment or partner, which may be left empty."""
    return optional_text(title, description, pattern=NAME, **more)


def time(title: str, description: str) -> Param:
    """A time, which may be left empty."""
    return optional_text(title, f"{description} ISO 8601, such as 2026-01-05T08:00:00Z, or Unix "
                         "seconds.", pattern=TIME)  # fmt: skip


def long_text(title: str, description: str, characters_max: int) -> Param:
    """Several lines of text, which may be left empty."""
    return Param(None, description=description, type=["null", "string"], title=title,
                 format="multiline", maxLength=characters_max)  # fmt: skip


def choice(title: str, description: str, options: list[str]) -> Param:
    """One of some words."""
    return Param(options[0], description=description, type="string", title=title, enum=options)


def yes_or_no(title: str, description: str, *, default: bool) -> Param:
    """A box to tick."""
    return Param(default, description=description, type="boolean", title=title)
