"""How the platform stands, for `medusa status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.text_table import printable
from pipelines.platform.airflow_components.airflow_folder import PlatformFolder


def platform_status(settings: Settings) -> dict[str, Any] | None:
    """What its supervisor says, or that it is not up; None if there never was one here."""
    folder = PlatformFolder(settings.directory)
    if not folder.is_made:
        return None
    state = folder.state()
    if not state:
        return None
    if not folder.is_supervised():
        # One that was killed says still that it is up.
        was_lost = state.get("phase") not in ("ended", "failed")
        phase = "lost" if was_lost else state["phase"]
        return {"phase": phase, "sentence": state.get("sentence"), "components": []}
    shown = ("phase", "doing", "url", "database_answers", "notes", "components")
    return {name: state.get(name) for name in shown}


def platform_text(document: Mapping[str, Any]) -> str:
    """The same as lines for people."""
    phase = document["phase"]
    if phase == "lost":
        return (
            "airflow  its supervisor was lost: `medusa up` starts it again, `medusa down` ends it"
        )
    if phase in ("ended", "failed"):
        why = f" ({printable(document['sentence'])})" if document.get("sentence") else ""
        return f"airflow  not up{why}: `medusa up` starts it"
    where = f" at {document['url']}" if document.get("url") else ""
    doing = f" {document['doing']}" if document.get("doing") else ""
    lines = [f"airflow  {phase}{doing}{where}"]
    if document.get("database_answers") is False:
        lines.append("  its database does not answer")
    for one in document["components"]:
        since_s = (clock.wall_ns() // 1_000_000 - (one["since_ms"] or 0)) // 1000
        life = f", process {one['pid']}, for {since_s} s" if one["since_ms"] else ""
        again = f", started again {one['restarts']} times" if one["restarts"] else ""
        why = f" ({one['because']})" if one["condition"] != "runs" and one["because"] else ""
        lines.append(f"  {one['name']:<14} {one['condition']}{why}{life}{again}")
    return "\n".join([*lines, *(f"  {printable(note)}" for note in document.get("notes") or ())])
