"""What there is to do, as a document: every finding with its cause in figures and what mends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.pages.federation_figures import read_federation
from pipelines.pages.mends import KINDS, Level, act_document
from pipelines.pages.page_kinds import Document, Request
from pipelines.pages.to_do_figures import (
    OF_ANY_HOME,
    Finding,
    findings_of,
    problem_kind,
    read_folder,
    read_to_do,
)

SHOWN_MAX = 200
WHICH = ("period", "sink", "law", "window", "partner")
"""Values that tell findings of one kind and subject apart."""


def to_do_document(request: Request) -> Document:
    """The findings that are shown, and how many there are."""
    found = all_findings(request)
    return {
        "may_trigger": request.viewer.may_trigger,
        "findings": found[:SHOWN_MAX],
        "findings_in_all": len(found),
        "bad": sum(one["level"] == Level.BAD.value for one in found),
    }


def all_findings(request: Request) -> list[Document]:
    """The findings of all homes that the viewer sees, the worst and the oldest first."""
    directory = str(request.readings.settings.directory)
    found: list[Document] = []
    of_federation = request.of_homes("federation", read_federation)
    to_do = request.of_homes("to do", read_to_do)
    for home in request.homes:
        federation, figures = of_federation.get(home), to_do.get(home)
        problem = next((one for one in request.problems if one["home"] == home), None)
        if problem is not None:
            # What was read before may be mended: only that it cannot be read is known now.
            found.append(_unread(problem, directory))
            continue
        if federation is not None and figures is not None:
            findings = findings_of(federation, figures)
            found += [_document(one, home, directory) for one in findings]
    found += _of_folder(request, directory)
    found.sort(key=lambda one: (one["level"] != Level.BAD.value, one["since_ms"] or 0, one["kind"],
                                one["home"] or "", one["subject"]))  # fmt: skip
    return found


def _of_folder(request: Request, directory: str) -> list[Document]:
    """The findings of the folder, for viewers of any home of it; an act may name one of those."""
    if not request.homes:
        return []
    found = request.of_folder("folder", lambda: read_folder(request.readings.settings)) or ()
    return [
        _document(one, request.homes[0] if one.kind in OF_ANY_HOME else None, directory)
        for one in found
    ]


def _unread(problem: Mapping[str, Any], directory: str) -> Document:
    because = problem["because"]
    finding = Finding(kind=problem_kind(because), subject="its catalog", cause=because,
                      since_ms=problem["since_ms"])  # fmt: skip
    return _document(finding, problem["home"], directory)


def _document(one: Finding, home: str | None, directory: str) -> Document:
    kind = KINDS[one.kind]
    values = {**(one.values or {}), "subject": one.subject, "directory": directory}
    if home is not None:
        values["home"] = home
    return {
        "kind": one.kind,
        "level": kind.level.value,
        "home": home,
        "title": kind.title,
        "subject": one.subject,
        "which": {
            name: values[name] for name in WHICH if values.get(name, one.subject) != one.subject
        },
        "cause": one.cause,
        "since_ms": one.since_ms,
        "does": kind.does,
        "mends": kind.mends,
        "act": {**act_document(kind.act(values)), "login": kind.login},
        "docs": kind.docs,
        "view": kind.view,
    }
