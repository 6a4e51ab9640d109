"""The findings of all homes now, for a program that reports what is new and what is over.

The page of things to do shows the same ones, made by the same function.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pipelines.base.settings import Settings
from pipelines.homes.home import known_homes
from pipelines.pages.mends import form_text
from pipelines.pages.page_kinds import Document, Request
from pipelines.pages.readings import Readings
from pipelines.pages.to_do_document import all_findings
from pipelines.pages.viewer import Viewer

WAIT_S = 60.0
"""Nobody looks on: a slow home is waited for, and only one that fails is a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingChanges:
    """What is new since the last report, what is over (their titles), and all that is open.

    `open` is titles by key: with it the next changes are found.
    """

    new: tuple[Document, ...]
    over: tuple[str, ...]
    open: Mapping[str, str]

    @property
    def is_news(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.new or self.over)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFindings:
    """The findings of all homes, the worst and the oldest first, and the homes that were not read.

    Of a home that was not read, that alone is a finding; its others may still be open.
    """

    findings: tuple[Document, ...]
    unread: frozenset[str] = frozenset()


def open_findings(settings: Settings) -> OpenFindings:
    """The findings now, all of them."""
    with closing(Readings(settings, fresh_s=0.0, wait_s=WAIT_S)) as readings:
        request = Request(
            viewer=Viewer(name="alarms"),
            homes=sorted(known_homes(settings.directory)),
            query={},
            readings=readings,
            sees_all=True,
        )
        found = all_findings(request)
        unread = frozenset(str(one["home"]) for one in request.problems)
    return OpenFindings(findings=tuple(found), unread=unread)


def finding_key(finding: Mapping[str, Any]) -> str:
    """What stays the same of a finding as long as it is open; its figures change."""
    which = "".join(f" {name}={value}" for name, value in finding["which"].items())
    return f"{finding['home'] or ''} {finding['kind']} {finding['subject']}{which}"


def finding_title(finding: Mapping[str, Any]) -> str:
    """A finding in a few words: `beta: A partner cannot be reached (alpha)`."""
    home = f"{finding['home']}: " if finding["home"] else ""
    which = "".join(f", {name} {value}" for name, value in finding["which"].items())
    return f"{home}{finding['title']} ({finding['subject']}{which})"


def finding_sentence(finding: Mapping[str, Any]) -> str:
    """A finding with its cause and with what mends it."""
    act = finding["act"]
    form = f" with {form_text(act['form'])}" if act["form"] else ""
    means = "" if act["means"] == "command" else f"{act['means']} "
    return f"{finding_title(finding)}: {finding['cause']}; {means}{act['text']}{form}"


def finding_changes(found: OpenFindings, known: Mapping[str, str]) -> FindingChanges:
    """What has changed since the report of `known`, titles by key.

    What is known of a home that was not read now is neither new nor over.
    """
    now = {finding_key(one): dict(one) for one in found.findings}
    gone = {key: title for key, title in known.items() if key not in now}
    kept = {key: title for key, title in gone.items() if key.partition(" ")[0] in found.unread}
    return FindingChanges(
        new=tuple(one for key, one in now.items() if key not in known),
        over=tuple(title for key, title in gone.items() if key not in kept),
        open={**kept, **{key: finding_title(one) for key, one in now.items()}},
    )
