"""`medusa migrate`: bring a home's catalog to this version's schema."""

from __future__ import annotations

from pipelines.base.settings import Settings
from pipelines.catalog.server.migrations import migrate
from pipelines.homes.home import chosen_participant, migration_url


def run_migrate(settings: Settings, participant: str | None) -> int:
    """Apply what is missing and print it; the same again changes nothing."""
    chosen = chosen_participant(settings, participant)
    with migration_url(settings, chosen) as url:
        applied = migrate(url, chosen)
    print("\n".join(f"applied {name}" for name in applied) or "nothing to do: up to date")
    return 0
