"""Inject faults into a running federation: cut and slow links, kill and freeze participants.

Every fault but a kill can have its own end, and is over then even if this process has died. Of a
link to a partner on another machine the packets are dropped, if this user may; else the calls of
the participant that runs here fail.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, assert_never
from urllib.parse import urlsplit

from medusa_core.errors import Refused, Unavailable
from medusa_core.names import Participant
from medusa_core.suggest import nearest
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.homes.exchange_addresses import is_loopback, read_address
from pipelines.homes.home import known_homes, open_home
from pipelines.homes.home_logins import read_password
from pipelines.operations.partner_management import list_partners
from pipelines.platform.drills.link_faults import (
    BY_MS_MAX,
    FILE,
    NOTHING,
    LinkFaults,
    Lost,
    Slow,
    faults_alone,
    lost_rows,
    read_faults,
    write_faults,
)
from pipelines.platform.drills.packet_cut import PacketCut, drop_packets
from pipelines.platform.drills.resume_later import resume_later
from pipelines.platform.drills.run_processes import Running, running_in
from pipelines.platform.jobs.supervised_homes import known_participant


@dataclass(frozen=True, slots=True, kw_only=True)
class CutRequest:
    """Lose all that two participants send each other, or with `one_way` all that `one` sends.

    `lasts_s`: None until it is healed.
    """

    one: str
    other: str
    one_way: bool = False
    lasts_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowRequest:
    """Make every call between two participants take `by_ms` longer; `lasts_s` as of a cut."""

    one: str
    other: str
    by_ms: int
    lasts_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HealRequest:
    """End every fault, or those of one participant, or those of the link between two.

    Frozen processes resume unless a link is named.
    """

    participants: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KillRequest:
    """Kill the processes that drive a participant, else those that wait for its leases."""

    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FreezeRequest:
    """Freeze the processes of a participant, as a kill chooses them; `lasts_s` as of a cut."""

    participant: str
    lasts_s: float | None = None


HTTPS = 443

FaultRequest = CutRequest | SlowRequest | HealRequest | KillRequest | FreezeRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultResult:
    """What was done as requested, or would be (`is_explained`).

    `participants`: those of the request, known to have homes. `pids`: the processes that were
    killed, frozen or resumed. `has_changed`: False where there was nothing to heal.
    `has_resumed`: True once a freeze with an end is over. `is_of_packets`: the packets of the link
    are dropped; else `calls_because` says why only calls from here fail, where the partner is
    elsewhere.
    """

    request: FaultRequest
    participants: tuple[Participant, ...]
    is_explained: bool
    pids: tuple[int, ...] = ()
    has_changed: bool = True
    has_resumed: bool = False
    is_of_packets: bool = False
    calls_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultList:
    """The faults in force, and the processes that run participants."""

    links: LinkFaults
    processes: tuple[Running, ...]


Observer = Callable[[FaultResult], None]


def ignore(result: FaultResult) -> None:
    """The observer that does nothing."""


def inject_fault(
    settings: Settings,
    request: FaultRequest,
    *,
    explain: bool = False,
    observer: Observer = ignore,
) -> FaultResult:
    """Do what is requested; returns when a freeze with an end is over.

    The observer receives the result as soon as the fault is in effect. Of a link, one participant
    may be a partner elsewhere. Raises Refused for an unknown participant, one link end named twice,
    a delay out of range, or a damaged fault file; Unavailable if there is no process to kill or
    freeze, or if partners are not to be read.
    """
    participants = _participants(settings, request)
    result = FaultResult(request=request, participants=participants, is_explained=explain)
    match request:
        case CutRequest():
            return _cut(settings, result, request, observer)
        case SlowRequest():
            return _slow(settings, result, request, observer)
        case HealRequest():
            return _heal(settings, result, observer)
        case KillRequest():
            return _kill(settings, result, observer)
        case FreezeRequest():
            return _freeze(settings, result, request, observer)
        case _:
            assert_never(request)


def list_faults(settings: Settings) -> FaultList:
    """The faults in force now; Refused for a damaged fault file."""
    links = read_faults(settings.directory / FILE).at(clock.wall_s())
    return FaultList(links=links, processes=tuple(running_in(settings.directory)))


def document(faults: FaultList) -> Mapping[str, Any]:
    """The faults for JSON."""
    links = faults.links
    return {
        "lost": lost_rows(links.lost),
        "packets": lost_rows(links.packets),
        "slow": [
            {"between": [row.one, row.other], "by_ms": row.by_ms, "until_s": row.until_s}
            for row in links.slow
        ],
        "processes": [
            {"participant": p.participant, "pid": p.pid, "state": process_state(p)}
            for p in faults.processes
        ],
    }


def process_state(process: Running) -> str:
    """What a process does, in words."""
    return "frozen" if process.is_frozen else "waits for leases" if process.waits else "runs"


def _participants(settings: Settings, request: FaultRequest) -> tuple[Participant, ...]:
    match request:
        case CutRequest() | SlowRequest():
            names: tuple[str, ...] = (request.one, request.other)
        case HealRequest():
            names = request.participants
        case _:
            names = (request.participant,)
    partners = _partners_of(settings, request, names)
    found = tuple(
        Participant(name) if name in partners else known_participant(settings, name)
        for name in names
    )
    if len(set(found)) < len(found):
        raise Refused(f"there is no link between {found[0]} and itself: name two participants")
    return found


def _partners_of(
    settings: Settings, request: FaultRequest, names: Sequence[str]
) -> Collection[str]:
    """Participants elsewhere to which links may lead: partners of the home that is named as well.

    To heal, those count that the faults in force name: no catalog need be reached then.
    """
    here = [name for name in names if name in known_homes(settings.directory)]
    match request:
        case CutRequest() | SlowRequest() if len(here) == 1 and len(names) > 1:
            try:
                # Read before a server is started for the list.
                read_password(settings.directory, Participant(here[0]), "owner")
                listed = list_partners(settings, here[0]).partners
            except Unavailable:
                # A misspelt name of a home is refused for that, whatever its catalog says.
                homes = known_homes(settings.directory)
                if all(name in homes or nearest(name, homes) for name in names):
                    return ()
                raise
            return {one.participant for one in listed if one.state == "partner"}
        case HealRequest() if len(here) < len(names):
            with suppress(Refused):  # a damaged file names nobody
                links = read_faults(settings.directory / FILE)
                lost = (*links.lost, *links.packets)
                return {
                    *(name for row in lost for name in (row.sender, row.receiver)),
                    *(name for row in links.slow for name in (row.one, row.other)),
                }
    return ()


def _partners_elsewhere(settings: Settings, names: Sequence[str]) -> Mapping[Participant, str]:
    """The address of the named partner on another machine of a participant whose home is here."""
    here = [name for name in known_homes(settings.directory) if name in names]
    if len(names) != 2 or len(here) != 1:
        return {}
    with open_home(settings, here[0]) as home:
        partners = home.catalog.partner_addresses()
    return {
        name: partner.url
        for name, partner in partners.items()
        if name in names and partner.url is not None and not _is_on_this_machine(partner.url)
    }


def _is_on_this_machine(url: str) -> bool:
    """Whether a server is reached over loopback, which others use as well."""
    host = urlsplit(url).hostname or ""
    return host == "localhost" or is_loopback(host)


# Links.


def _cut(
    settings: Settings, result: FaultResult, request: CutRequest, observer: Observer
) -> FaultResult:
    one, other = result.participants
    until_s = _until_s(request.lasts_s)
    rows = [Lost(one, other, until_s)]
    if not request.one_way:
        rows.append(Lost(other, one, until_s))
    elsewhere = _partners_elsewhere(settings, result.participants)
    if result.is_explained:
        result = replace(result, is_of_packets=bool(elsewhere))
        observer(result)
        return result
    if elsewhere:
        ((partner, url),) = elsewhere.items()
        here = one if partner == other else other
        _change(settings, lambda faults: faults.with_packets(*rows))
        try:
            drop_packets(_packet_cut(settings, here, partner, url, rows))
            result = replace(result, is_of_packets=True)
        except Unavailable as error:
            result = replace(result, calls_because=str(error))
    if not result.is_of_packets:
        _change(settings, lambda faults: faults.with_lost(*rows))
    observer(result)
    return result


def _packet_cut(
    settings: Settings, here: Participant, partner: Participant, url: str, rows: Sequence[Lost]
) -> PacketCut:
    """The packets between two machines; raises Unavailable if the partner's host is not found."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or HTTPS
    try:
        found = socket.getaddrinfo(host, port, proto=socket.IPPROTO_TCP)
    except OSError as error:
        raise Unavailable(f"the host {host} of {partner} is not found: {error.strerror}") from error
    addresses = {str(address[0]) for *_, address in found}
    if any(map(is_loopback, addresses)):
        raise Unavailable(f"{partner} is on this machine")
    own_port = None
    with suppress(Unavailable):
        own_port = urlsplit(read_address(settings.directory, here).url).port
    return PacketCut(
        directory=str(settings.directory.absolute()), here=here, partner=partner,
        addresses=tuple(sorted(addresses)), port=port,
        own_port=own_port, until_s=rows[0].until_s,
        is_sent_lost=any(row.sender == here for row in rows),
        is_received_lost=any(row.receiver == here for row in rows),
    )  # fmt: skip


def _slow(
    settings: Settings, result: FaultResult, request: SlowRequest, observer: Observer
) -> FaultResult:
    if not 1 <= request.by_ms <= BY_MS_MAX:
        raise Refused(f"a delay of {request.by_ms} ms is out of range: give 1ms to 1h")
    one, other = sorted(result.participants)
    row = Slow(one, other, request.by_ms, _until_s(request.lasts_s))
    if not result.is_explained:
        _change(settings, lambda faults: faults.with_slow(row))
    observer(result)
    return result


def _until_s(lasts_s: float | None) -> float | None:
    return None if lasts_s is None else clock.wall_s() + lasts_s


def _change(
    settings: Settings,
    change: Callable[[LinkFaults], LinkFaults],
    *,
    replaces_damaged: bool = False,
) -> None:
    directory = settings.directory
    with faults_alone(directory):
        try:
            faults = read_faults(directory / FILE)
        except Refused:
            if not replaces_damaged:
                raise
            faults = NOTHING
        write_faults(directory, change(faults.at(clock.wall_s())))


def _heal(settings: Settings, result: FaultResult, observer: Observer) -> FaultResult:
    named = set(result.participants)
    frozen = [
        process
        for process in running_in(settings.directory)
        if process.is_frozen and (not named or named == {process.participant})
    ]
    result = replace(result, pids=_pids(frozen))
    if result.is_explained:
        observer(result)
        return result
    if not (settings.directory / FILE).exists() and not frozen:
        result = replace(result, has_changed=False)
        observer(result)
        return result
    _change(
        settings,
        lambda faults: faults.without(lambda link: named <= link),
        replaces_damaged=not named,
    )
    for process in frozen:
        process.signal(signal.SIGCONT)
    observer(result)
    return result


# Processes.


def _kill(settings: Settings, result: FaultResult, observer: Observer) -> FaultResult:
    (participant,) = result.participants
    processes = _processes_of(settings, participant)
    if not result.is_explained:
        processes = [process for process in processes if process.signal(signal.SIGKILL)]
        if not processes:
            raise Unavailable(f"{participant} has ended meanwhile: nothing was killed")
    result = replace(result, pids=_pids(processes))
    observer(result)
    return result


def _freeze(
    settings: Settings, result: FaultResult, request: FreezeRequest, observer: Observer
) -> FaultResult:
    (participant,) = result.participants
    processes = _processes_of(settings, participant)
    if result.is_explained:
        result = replace(result, pids=_pids(processes))
        observer(result)
        return result
    # The process that resumes them exists before anything is frozen.
    resuming = None if request.lasts_s is None else resume_later(processes, request.lasts_s)
    frozen = [process for process in processes if process.signal(signal.SIGSTOP)]
    if not frozen:
        if resuming is not None:
            resuming.terminate()
        raise Unavailable(f"{participant} has ended meanwhile: nothing was frozen")
    result = replace(result, pids=_pids(frozen))
    observer(result)
    if resuming is None:
        return result
    resuming.wait()
    return replace(result, has_resumed=True)


def _processes_of(settings: Settings, participant: Participant) -> list[Running]:
    """The processes that drive a participant, else those that wait; Unavailable if none does."""
    own = [p for p in running_in(settings.directory) if p.participant == participant]
    if not own:
        raise Unavailable(
            f"no medusa run of {participant} runs in {settings.directory}: start it, then try again"
        )
    return [process for process in own if not process.waits] or own


def _pids(processes: Sequence[Running]) -> tuple[int, ...]:
    return tuple(process.pid for process in processes)
