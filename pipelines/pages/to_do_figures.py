"""What the page of things to do reads of one home, and of the folder: findings with their figures.

A finding is a kind of `mends.KINDS`, its subject, since when, and figures. Most are rows of one
statement; what supervision would decide is decided by the function that supervisors use.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.commits import Lane
from medusa_core.errors import MedusaError
from medusa_core.grid import FOREVER_US, Range
from medusa_core.knowledge import NEVER_MS
from medusa_core.names import Participant
from medusa_core.segments import Producer
from medusa_core.supervising import GiveUp, decide_supervision
from medusa_core.supervision import Supervision
from pipelines.base.settings import Settings
from pipelines.base.time_text import iso, size_of
from pipelines.catalog.postgres.supervision import SupervisionRows, supervision_rows
from pipelines.catalog.recall_text import recall_in
from pipelines.homes.headroom_file import headroom_sentence, read_headroom
from pipelines.homes.home import known_homes
from pipelines.homes.missing_partners import without_address
from pipelines.operations.folder_status import platform_status
from pipelines.operations.machine_checks import DISK_BYTES_MIN
from pipelines.pages.federation_figures import FederationFigures, FragmentFigures
from pipelines.pages.page_home import Snapshot
from pipelines.pages.readings import FAILED
from pipelines.participant.notification_queue import USED_MAX, queue_sentence
from pipelines.platform.jobs.job_processes import inspect_process
from pipelines.watching.alarms import alarm_facts
from pipelines.watching.lost_ranges import SHOWN_MS, lost_name, lost_sentence

JOB_MS_MAX = 60_000
"""A desired job is started within half a minute, if its supervisor is there."""
CORRECTIONS_MS_MAX = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that a person may have to do about."""

    kind: str
    subject: str
    cause: str
    since_ms: int | None = None
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ToDoFigures:
    """What is read of a home beside the figures of the federation."""

    participant: str
    directory: Path
    clock_ms: int
    jobs: SupervisionRows
    found: tuple[Finding, ...]


def read_to_do(home: Snapshot) -> ToDoFigures:
    """Nine statements, and the files of its drivers on this machine."""
    clock_ms = int(home.rows("page_home")[0]["clock_ms"])
    alarms = alarm_facts(home.directory, home.participant)
    raised = {fact["of"] for fact in alarms}
    found = (
        *(_of_alarm(fact, clock_ms) for fact in alarms),
        *_of_bounds(home),
        *_of_server(home),
        *_of_imports(home),
        # The gap of a lost provider stays when the alarm of the driver has ended.
        *(one for one in _of_rows(home) if one.kind != "alarm_gap" or one.subject not in raised),
    )
    # The clock is read to the minute: nothing that is shown needs more, and it is no news.
    return ToDoFigures(home.participant, home.directory, clock_ms // 60_000 * 60_000,
                       supervision_rows(home.rows), found)  # fmt: skip


def findings_of(federation: FederationFigures, figures: ToDoFigures) -> list[Finding]:
    """All findings of a home."""
    return [
        *_of_jobs(figures, federation),
        *figures.found,
        *_of_links(figures, federation),
        *_of_states(federation, figures.clock_ms),
    ]


# ---------------------------------------------------------------- jobs


def _of_jobs(home: ToDoFigures, federation: FederationFigures) -> Iterator[Finding]:
    rows = home.jobs
    given_up = [one for one in _decided(rows) if isinstance(one, GiveUp)]
    for one in given_up:
        yield Finding(kind="job_given_up", subject=one.lane.value, cause=one.because,
                      values={"lane": one.lane.value})  # fmt: skip
    own = [
        one
        for one in federation.fragments
        if one.participant == home.participant and not _has_ended(one, federation)
    ]
    is_led = any(lease.is_held and lease.lane == "live" for one in own for lease in one.leases)
    if is_led or not own or any(one.lane is Lane.LIVE for one in given_up):
        return
    desired = next((one for one in rows.desired if one.lane is Lane.LIVE), None)
    last_ms = max((lease.expires_at_ms for one in own for lease in one.leases), default=None)
    since = "no driver has ever run here" if last_ms is None else "no lease is held"
    if desired is None or not desired.is_desired:
        because = "" if desired is None else f"; stopped by {desired.who}: {desired.because}"
        yield Finding(kind="nothing_runs", subject=f"fragments: {len(own)}",
                      cause=f"{since}{because}", since_ms=last_ms)  # fmt: skip
    elif rows.now_ms - max(desired.since_ms, last_ms or 0) > JOB_MS_MAX:
        yield Finding(kind="job_missing", subject="live",
                      cause=f"desired by {desired.who} ({desired.because}), and {since}",
                      since_ms=max(desired.since_ms, last_ms or 0))  # fmt: skip


def _has_ended(fragment: FragmentFigures, federation: FederationFigures) -> bool:
    """Whether all that a fragment writes has ended, as after a replay: nobody need run it."""
    written = [
        line
        for line in federation.lines
        if line.stream in fragment.outputs and line.participant == fragment.participant
    ]
    return bool(written) and all(line.boundary_us == FOREVER_US for line in written)


def _decided(rows: SupervisionRows) -> tuple[Any, ...]:
    newest = {job.lane: job for job in reversed(rows.jobs)}
    return decide_supervision(
        Supervision(
            now_ms=rows.now_ms,
            reachable_since_ms=rows.reachable_since_ms,
            desired={one.lane: one for one in rows.desired},
            jobs=rows.jobs,
            seen={job.id: inspect_process(job) for job in newest.values()},
            held=rows.held,
        )
    )


# ---------------------------------------------------------------- alarms of drivers


def _of_alarm(fact: Mapping[str, Any], clock_ms: int) -> Finding:
    of, because = fact["of"], fact["because"]
    since_ms = (clock_ms - int(fact["lasts_ms"])) // 1_000 * 1_000
    recall = recall_in(because)
    if recall is not None:
        values = {"partner": recall.partner, "stream": recall.stream, "time": recall.from_time}
        return Finding(kind="alarm_recalled", subject=recall.stream, cause=because,
                       since_ms=since_ms, values=values)  # fmt: skip
    return Finding(kind=alarm_kind(of), subject=of, cause=because, since_ms=since_ms)


ALARMS = (
    ("landing/", "alarm_landing"),
    ("files of ", "alarm_files"),
    ("late records of ", "alarm_late"),
    ("import/", "alarm_import"),
    ("notifications of ", "notifications"),
    ("the prepared job", "alarm_job_differs"),
    ("the job shared by", "alarm_job_differs"),
    ("exchange", "alarm_exchange"),
    ("corrections of ", "alarm_step"),
    ("a range of ", "alarm_gap"),
)
"""How the name of an alarm begins, and its kind."""


def alarm_kind(of: str) -> str:
    """The kind of a driver's alarm by its name: of a fragment or of the participant by default."""
    for begin, kind in ALARMS:
        if of.startswith(begin):
            return kind
    return "alarm_step" if "/" in of else "alarm_catalog"


# ---------------------------------------------------------------- links, states, bounds


def _of_links(home: ToDoFigures, federation: FederationFigures) -> Iterator[Finding]:
    for link in federation.links:
        if link.side == "client" and link.state in ("unreachable", "refused"):
            is_here = link.partner in known_homes(home.directory)
            is_stopped = is_here and link.state == "unreachable"
            yield Finding(
                kind="partner_stopped" if is_stopped else "link_broken",
                subject=link.partner,
                cause=f"{link.state}: {link.error or 'no reason was reported'}",
                since_ms=link.since_ms,
                values={"partner": link.partner},
            )


def _of_states(federation: FederationFigures, clock_ms: int) -> Iterator[Finding]:
    for one in federation.fragments:
        if one.participant != federation.participant or one.since_ms is None:
            continue
        lasts_ms = clock_ms - one.since_ms
        if one.state == "UP_FAILURE":
            yield Finding(kind="tentative", subject=one.id, cause=one.because or "",
                          since_ms=one.since_ms)  # fmt: skip
        elif one.state == "STABILIZATION" and lasts_ms > CORRECTIONS_MS_MAX:
            yield Finding(kind="corrections_owed", subject=one.id, cause=one.because or "",
                          since_ms=one.since_ms)  # fmt: skip


def _of_bounds(home: Snapshot) -> Iterator[Finding]:
    for fact in read_headroom(home.directory, home.participant):
        if not fact["is_kept"]:
            yield Finding(kind="bound_not_kept", subject=", ".join(fact["streams"]),
                          cause=headroom_sentence(fact))  # fmt: skip


def _of_server(home: Snapshot) -> Iterator[Finding]:
    used = float(home.value("notifications_used"))
    if used > USED_MAX:
        yield Finding(kind="notifications", subject="the catalog's server",
                      cause=queue_sentence(used))  # fmt: skip


# ---------------------------------------------------------------- rows of the home


def _of_rows(home: Snapshot) -> Iterator[Finding]:
    for row in home.rows("page_to_do", never_ms=NEVER_MS, shown_ms=SHOWN_MS):
        figures = dict(row["figures"])
        if row["kind"] == "alarm_gap":
            yield _gap(row["subject"], row["since_ms"], figures)
            continue
        for field in ("from", "to"):
            if isinstance(figures.get(f"{field}_us"), int):
                figures[f"{field}_time"] = iso(figures[f"{field}_us"])
        yield Finding(kind=row["kind"], subject=row["subject"],
                      cause=CAUSES[row["kind"]].format_map(figures), since_ms=row["since_ms"],
                      values=figures)  # fmt: skip


def _gap(fragment: str, since_ms: int, figures: Mapping[str, Any]) -> Finding:
    """As the status shows it, and the alarm of a driver that committed it."""
    lost = Range(figures["from_us"], figures["to_us"])
    provider = Producer(Participant(figures["provider"]))
    return Finding(kind="alarm_gap", subject=lost_name(fragment),
                   cause=lost_sentence(provider, lost), since_ms=since_ms)  # fmt: skip


def _of_imports(home: Snapshot) -> Iterator[Finding]:
    """Partners whose streams cannot arrive."""
    imported = home.rows("imports", participant=home.participant)
    known = home.rows("partner_addresses")
    missing = without_address(
        ((Participant(row["participant"]), row["stream"]) for row in imported),
        {Participant(row["participant"]) for row in known if row["url"] is not None},
        home.directory,
    )
    for partner, streams in missing.items():
        yield Finding(kind="partner_without_address", subject=partner,
                      cause=f"{', '.join(streams)} cannot arrive")  # fmt: skip


CAUSES = {
    "sink_blocked": "sink {sink}: {because}",
    "diverged": "{producer} and {other} differ in {buckets} buckets from {from_time} on",
    "law_broken": "{law} ({suite}) from {from_time} to {to_time}",
    "contract_requested": "{partner} proposes it",
    "bill_disputed": "period {period}: claimed {claimed}, agreed {agreed} {currency}",
    "envelopes_refused": "{envelopes} in a day, the last one: {because}",
    "quarantined": "{records} records in a day, the last one: {because}",
}


# ---------------------------------------------------------------- problems, the folder


PROBLEMS = (
    ("install the", "home_is_newer"),
    ("medusa migrate", "lacks_migration"),
    ("has no password", "login_missing"),
    ("does not accept this login", "login_refused"),
    ("may be read by others", "secret_readable"),
    ("no connection left", "no_connection_left"),
    ("too many connections", "no_connection_left"),
    (FAILED, "read_failed"),
)
"""What the sentence about a home that cannot be read has in it, and its kind."""


def problem_kind(because: str) -> str:
    """The kind of the reason why a home cannot be read."""
    return next((kind for words, kind in PROBLEMS if words in because), "catalog_away")


OF_ANY_HOME = ("disk_full",)
"""Findings of the folder whose act names a home, whichever."""


def read_folder(settings: Settings) -> tuple[Finding, ...]:
    """The findings of the platform and the machine."""
    try:
        platform: Mapping[str, Any] = platform_status(settings) or {}
    except MedusaError:
        platform = {}
    return (*_of_platform(platform), *_of_disk(settings.directory))


def _of_platform(platform: Mapping[str, Any]) -> Iterator[Finding]:
    if platform.get("phase") == "lost":
        cause = str(platform.get("sentence") or "it was killed")
        yield Finding(kind="platform_lost", subject="medusa up", cause=cause)
    for one in platform.get("components") or ():
        if one.get("condition") == "given up":
            cause = str(one.get("because") or "it failed repeatedly")
            yield Finding(kind="component_given_up", subject=str(one.get("name")), cause=cause)


def _of_disk(directory: Path) -> Iterator[Finding]:
    try:
        free = shutil.disk_usage(directory).free
    except OSError:
        return
    if free < DISK_BYTES_MIN:
        cause = f"{size_of(free)} are free, {size_of(DISK_BYTES_MIN)} are needed"
        yield Finding(kind="disk_full", subject=str(directory), cause=cause)
