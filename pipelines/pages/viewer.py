"""Viewers of the page, and the homes that each of them is shown.

`MEDUSA_PAGE_HOMES` names them (`pipelines/homes/page_access.py`). Without it everybody who may look
at DAGs in Airflow sees all homes of MEDUSA_DIR.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from medusa_core.names import Participant
from pipelines.homes.page_access import ALL, ROLE, Access


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Somebody who is logged in, and whether their role may trigger DAGs, and look at runs."""

    name: str
    roles: frozenset[str] = frozenset()
    may_trigger: bool = False
    may_see_runs: bool = False


def homes_of(viewer: Viewer, access: Access, homes: Iterable[Participant]) -> list[Participant]:
    """Those of the homes that somebody sees, by name."""
    if access is None:
        return sorted(homes)
    # A user who is named like an entry of a role is not that role.
    keys = [] if viewer.name.startswith(ROLE) else [viewer.name]
    keys += [ROLE + role.lower() for role in viewer.roles]
    seen = frozenset[str]().union(*(access.get(key, frozenset()) for key in keys))
    return sorted(home for home in homes if ALL in seen or home in seen)


def sees_all(viewer: Viewer, access: Access, homes: Iterable[Participant]) -> bool:
    """Whether no home is hidden from somebody: files of the folder may be about any of them."""
    homes = list(homes)
    return access is None or (bool(homes) and homes_of(viewer, access, homes) == sorted(homes))
