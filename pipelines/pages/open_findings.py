"""The findings of all homes now, for a program that sends what is new and what is over.

The page of things to do shows the same ones, made by the same function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from pipelines.base.settings import Settings
from pipelines.homes.home import known_homes
from pipelines.pages.page_kinds import Document, Request
from pipelines.pages.readings import Readings
from pipelines.pages.to_do_document import to_do_document
from pipelines.pages.viewer import Viewer


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingChanges:
    """What is new since somebody was told, what is over (their titles), and how many are open."""

    new: tuple[Document, ...]
    over: tuple[str, ...]
    open: int

    @property
    def is_news(self) -> bool:
        """Whether there is anything to tell."""
        return bool(self.new or self.over)


def open_findings(settings: Settings) -> list[Document]:
    """The findings of all homes, the worst and the oldest first."""
    with closing(Readings(settings, fresh_s=0.0)) as readings:
        request = Request(
            viewer=Viewer(name="alarms"),
            homes=sorted(known_homes(settings.directory)),
            query={},
            readings=readings,
        )
        found: list[Document] = to_do_document(request)["findings"]
    return found


def finding_key(finding: Mapping[str, Any]) -> str:
    """What stays the same of a finding as long as it is open; its figures change."""
    return f"{finding['home'] or ''} {finding['kind']} {finding['subject']}"


def finding_title(finding: Mapping[str, Any]) -> str:
    """A finding in a few words: `beta: A partner cannot be reached (alpha)`."""
    home = f"{finding['home']}: " if finding["home"] else ""
    return f"{home}{finding['title']} ({finding['subject']})"


def finding_sentence(finding: Mapping[str, Any]) -> str:
    """A finding with its cause and with what mends it."""
    act = finding["act"]
    form = f" with {act['form']}" if act["form"] else ""
    means = "" if act["means"] == "command" else f"{act['means']} "
    return f"{finding_title(finding)}: {finding['cause']}; {means}{act['text']}{form}"


def finding_changes(
    findings: Iterable[Mapping[str, Any]], known: Mapping[str, str]
) -> FindingChanges:
    """What has changed since `known`, titles by key, was told."""
    now = {finding_key(one): dict(one) for one in findings}
    return FindingChanges(
        new=tuple(one for key, one in now.items() if key not in known),
        over=tuple(title for key, title in known.items() if key not in now),
        open=len(now),
    )
