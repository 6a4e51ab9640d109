"""The last runs of Medusa's DAGs, as the program around the site knows them.

A run is shown to those who see each home that its form names; one that is about no home by name is
about all of the folder, and shown to those from whom none is hidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ABOUT = ("participant", "participants", "partner", "stream", "fragment", "action", "from", "to")
"""The fields of a form that say what a run is about."""
RUNS_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DagRun:
    """A run: its state as Airflow names it, who triggered it, when, and the values of its form."""

    dag: str
    run: str
    state: str
    user: str | None
    at_ms: int
    note: str | None
    form: Mapping[str, Any]


RunSource = Callable[[], Sequence[DagRun]]
"""The last runs of each DAG that has a form, the newest first."""


def seen_runs(runs: Iterable[DagRun], homes: Iterable[str], *, sees_all: bool) -> list[DagRun]:
    """The runs about no home that is hidden; `sees_all`: none of the folder is."""
    seen = set(homes)
    return [
        one
        for one in runs
        if seen and _named(one.form) <= seen and (sees_all or _homes_named(one.form))
    ]


def run_document(run: DagRun) -> dict[str, Any]:
    """A run as JSON values."""
    return {
        "dag": run.dag,
        "run": run.run,
        "state": run.state,
        "user": run.user,
        "at_ms": run.at_ms,
        "note": run.note,
        "about": {name: run.form[name] for name in ABOUT if run.form.get(name)},
        "is_dry": bool(run.form.get("dry_run")),
    }


def is_about(run: DagRun, **values: str) -> bool:
    """Whether the form of a run has these values; a participant that is not named is any."""
    form = run.form
    return all(
        form.get(name) == value or (name == "participant" and not form.get(name))
        for name, value in values.items()
    )


def names_participant(run: DagRun, participant: str) -> bool:
    """Whether the form of a run names a participant."""
    return participant in _named(run.form)


def _named(form: Mapping[str, Any]) -> set[str]:
    return _homes_named(form) | _names(form.get("partner"), form.get("follow"))


def _homes_named(form: Mapping[str, Any]) -> set[str]:
    """In whose homes a run acts; empty: the form leaves it to the folder."""
    several = form.get("participants")
    return _names(form.get("participant"), *(several if isinstance(several, list) else [several]))


def _names(*given: object) -> set[str]:
    return {name for one in given if one and (name := str(one).strip())}
