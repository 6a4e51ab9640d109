"""Deploy contracts in two steps: plan, for a person to approve, then apply exactly that plan.

The plan carries a fingerprint. Contracts or homes that have changed since then are planned again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from medusa_core.commits import Lane
from medusa_core.errors import Conflict
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.contracts.comparison_rows import Change, Mark
from pipelines.homes.home import open_home
from pipelines.operations import contract_application
from pipelines.operations.contract_application import ApplyRequest, ApplyResult, apply_contracts
from pipelines.operations.desired_jobs import desire_job
from pipelines.participant.assigned_plans import newest_assignments
from pipelines.platform.jobs.supervised_homes import open_jobs

CHANGES = (Mark.NEW, Mark.CHANGED)
BILATERAL = "contract"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentPlan:
    """What applying would change: a line each, those that need an approval, and a fingerprint."""

    changes: tuple[str, ...]
    approvals: tuple[str, ...]
    homes: tuple[Participant, ...]
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentResult:
    """The homes whose catalogs were changed, and notes for people."""

    applied: tuple[Participant, ...]
    notes: tuple[str, ...]


def plan_deployment(settings: Settings, request: ApplyRequest) -> DeploymentPlan:
    """Plan without changing anything; raises as `apply_contracts` does."""
    result = apply_contracts(settings, replace(request, explain=True))
    changes = [
        (home.participant, change)
        for home in result.homes
        for change in result.changes_of(home)
        if change.mark in CHANGES
    ]
    return DeploymentPlan(
        changes=tuple(_line(home, change) for home, change in changes),
        approvals=tuple(
            _line(home, change) for home, change in changes if change.what == BILATERAL
        ),
        homes=tuple(home.participant for home in result.homes),
        fingerprint=_fingerprint(result),
    )


def apply_deployment(
    settings: Settings, request: ApplyRequest, fingerprint: str
) -> DeploymentResult:
    """Apply the plan of this fingerprint; Conflict if the plan would be another one by now."""
    now = plan_deployment(settings, request)
    if now.fingerprint != fingerprint:
        if not now.changes:
            return DeploymentResult(applied=(), notes=("it was applied before",))
        raise Conflict("contracts or homes have changed since they were planned: deploy again")
    result = apply_contracts(settings, request)
    applied = tuple(home.participant for home in result.homes if not home.is_same)
    return DeploymentResult(applied=applied, notes=result.notes)


def start_deployed(
    settings: Settings, participants: Sequence[str], changed: Sequence[str], *, who: str
) -> list[str]:
    """Desire a job for each participant with assignments, a new one for those that changed.

    Returns these participants; `who` requests it, as recorded in the homes.
    """
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
                is_desired=True,
                because="it was deployed",
                who=who,
                renews=name in changed,
            )
            running.append(str(name))
    return running


def document(plan: DeploymentPlan) -> Mapping[str, Any]:
    """The plan for JSON."""
    return {
        "changes": list(plan.changes),
        "approvals": list(plan.approvals),
        "homes": list(plan.homes),
        "fingerprint": plan.fingerprint,
    }


def _fingerprint(result: ApplyResult) -> str:
    homes = contract_application.document(result)["homes"]
    return sha256(json.dumps(homes, sort_keys=True).encode()).hexdigest()


def _line(home: Participant, change: Change) -> str:
    how = change.detail or "as it is"
    return f"{home}: {change.mark.name.lower()} {change.what} {change.name}, {how}"
