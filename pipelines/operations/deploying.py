"""Bringing contracts in: what would change, whether a person has to agree, and doing it.

What is brought in is what was planned: the plan carries a fingerprint, and one that has changed
meanwhile (a file was edited, somebody else applied) is planned again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from medusa_core.commits import Lane
from medusa_core.errors import Conflict
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.cli.apply import run_apply
from pipelines.homes.home import open_home
from pipelines.operations.desired_jobs import desire_job
from pipelines.operations.printed_documents import told_by
from pipelines.participant.assigned_plans import newest_assignments
from pipelines.platform.jobs.supervised_homes import open_jobs

CHANGES = ("new", "changed")
BILATERAL = "contract"


def plan(
    settings: Settings, contracts: Path, participant: str | None, from_: str | None
) -> Mapping[str, Any]:
    """What applying would change: lines for people, those that need an approval, a fingerprint."""
    homes = _applied(settings, contracts, participant, from_, explain=True)["homes"]
    changes = [
        {**change, "home": home["participant"]}
        for home in homes
        for change in home["changes"]
        if change["mark"] in CHANGES
    ]
    approvals = [_line(change) for change in changes if change["what"] == BILATERAL]
    return {
        "changes": [_line(change) for change in changes],
        "approvals": approvals,
        "homes": [home["participant"] for home in homes],
        "fingerprint": _fingerprint(homes),
    }


def bring_in(
    settings: Settings,
    contracts: Path,
    participant: str | None,
    from_: str | None,
    *,
    planned: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Apply what was planned; Conflict if it is something else by now."""
    now = plan(settings, contracts, participant, from_)
    if now["fingerprint"] != planned["fingerprint"]:
        if not now["changes"]:
            return {"brought_in": [], "notes": ["it had been brought in before"]}
        raise Conflict("contracts or homes have changed since they were planned: deploy again")
    document = _applied(settings, contracts, participant, from_, explain=False)
    changed = [home["participant"] for home in document["homes"] if not home["is_same"]]
    return {"brought_in": changed, "notes": document["notes"]}


def let_run(
    settings: Settings, participants: Sequence[str], changed: Sequence[str], *, who: str
) -> list[str]:
    """Say that those who have something to do shall run; anew for those that were changed."""
    running = []
    with open_jobs(settings) as jobs:
        for name in map(Participant, participants):
            with open_home(settings, name) as home:
                if not newest_assignments(home.catalog, name):
                    continue
            desire_job(
                jobs,
                name,
                Lane.LIVE,
                is_wanted=True,
                because="it was deployed",
                who=who,
                renews=name in changed,
            )
            running.append(str(name))
    return running


def _applied(
    settings: Settings,
    contracts: Path,
    participant: str | None,
    from_: str | None,
    *,
    explain: bool,
) -> Any:
    return told_by(
        run_apply,
        settings,
        contracts=contracts,
        participant=participant,
        from_=from_,
        explain=explain,
        as_json=True,
    )


def _fingerprint(homes: Any) -> str:
    return sha256(json.dumps(homes, sort_keys=True).encode()).hexdigest()


def _line(change: Mapping[str, str]) -> str:
    return f"{change['home']}: {change['mark']} {change['what']} {change['name']}, " + (
        change["detail"] or "as it is"
    )
