"""The federation as a document: fragments at their participants, states, links and streams.

What a home says of itself counts; what others know of it only where its own home is not seen. A
fragment that has moved is shown where it is computed, with its owner, and leaves a mark there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from medusa_core.names import Participant
from pipelines.catalog.records import progress_of
from pipelines.pages.acts import participant_acts
from pipelines.pages.dag_runs import RUNS_MAX, names_participant, run_document
from pipelines.pages.elements import WORST_FIRST
from pipelines.pages.federation_figures import (
    LANDING,
    MOVED,
    FederationFigures,
    FragmentFigures,
    Lease,
    LineFigures,
    lost_links,
    read_federation,
)
from pipelines.pages.page_kinds import Document, Request

ROWS_MAX = 100
"""Rows of a table of the page; the worst come first, and the rest is a number."""
_RANK = {state: rank for rank, state in enumerate(WORST_FIRST)}


class _Placed(NamedTuple):
    """A fragment where it is shown: in which state, whom it belongs to, and which home knows it."""

    rank: int
    participant: str
    name: str
    replica: int
    state: str
    belongs_to: str
    known_from: str
    of: FragmentFigures


def federation_document(request: Request) -> Document:
    """All of the homes that the viewer sees; with `participant` only what is near that one."""
    homes = request.of_homes("federation", read_federation)
    placed = _placed(homes)
    lost = request.of_folder("lost links", lambda: lost_links(request.readings.settings))
    links = _links(homes, lost or ())
    participants = _participants(homes, request.homes, placed)
    chosen = request.query.get("participant")
    if chosen is not None:
        placed = _neighbourhood(placed, chosen)
        links = [one for one in links if chosen in (one["reader"], one["partner"])]
    placed.sort()
    return {
        "chosen": chosen,
        "participants": participants,
        "states": dict(Counter(one.state for one in placed if not _is_left(one))),
        "fragments": [_document(one) for one in placed[:ROWS_MAX]],
        "fragments_in_all": len(placed),
        "links": links[:ROWS_MAX],
        "links_in_all": len(links),
        **_streams(homes, placed, chosen),
        **_acts(request, chosen),
    }


def _acts(request: Request, chosen: str | None) -> Document:
    """What may be done about a participant that is chosen, if its home is shown."""
    if chosen not in request.homes:
        return {"acts": [], "runs": None, "may_trigger": request.viewer.may_trigger}
    assert chosen is not None, "homes have names"
    runs = request.last_runs()
    return {
        "acts": participant_acts(chosen),
        "runs": None if runs is None else [
            run_document(one) for one in runs if names_participant(one, chosen)][:RUNS_MAX],
        "may_trigger": request.viewer.may_trigger,
    }  # fmt: skip


# ---------------------------------------------------------------- fragments


def _placed(homes: Mapping[Participant, FederationFigures]) -> list[_Placed]:
    found: dict[tuple[str, str, int], _Placed] = {}
    for home, figures in homes.items():
        for one in figures.fragments:
            key = (one.participant, one.id, one.replica)
            if one.participant == home:
                found[key] = _own(one)
            elif one.participant not in homes and key not in found:
                found[key] = _foreign(one, home)
    for home, figures in homes.items():
        for one in figures.fragments:
            if one.participant == home and one.has_left and one.owner not in homes:
                # Its present place is known from here alone.
                place = str(one.owner)
                at_provider = _Placed(_RANK["unknown"], place, one.id, one.replica, "unknown",
                                      home, home, one)  # fmt: skip
                found.setdefault((place, one.id, one.replica), at_provider)
    return list(found.values())


def _own(one: FragmentFigures) -> _Placed:
    if one.has_left:
        state = "unknown"
    elif one.is_led:
        state = "stable" if one.state is None else one.state.lower()
    else:
        state = "stopped"
    belongs_to, name = _origin(one)
    return _Placed(_RANK[state], one.participant, name, one.replica, state, belongs_to,
                   one.participant, one)  # fmt: skip


def _foreign(one: FragmentFigures, home: str) -> _Placed:
    belongs_to, name = _origin(one)
    return _Placed(_RANK["unknown"], one.participant, name, one.replica, "unknown", belongs_to,
                   home, one)  # fmt: skip


def _origin(one: FragmentFigures) -> tuple[str, str]:
    """The owner of a fragment, and its name there; a moved one is `moved/OWNER/NUMBER/NAME`."""
    if one.id.startswith(MOVED):
        parts = one.id.split("/", 3)
        if len(parts) == 4:
            return parts[1], parts[3]
    return one.participant, one.id


def _is_left(one: _Placed) -> bool:
    """Whether it is only the mark that a moved fragment leaves with its owner."""
    return one.of.has_left and one.participant == one.of.participant


def _document(one: _Placed) -> Document:
    of, is_left = one.of, _is_left(one)
    is_own = one.known_from == one.participant
    return {
        "id": f"{one.participant} {of.id} {of.partition} {one.replica}",
        "name": one.name,
        "fragment": of.id,
        "partition": of.partition,
        "replica": one.replica,
        "participant": one.participant,
        "belongs_to": one.belongs_to,
        "is_source": of.id.startswith(LANDING),
        "inputs": of.inputs,
        "outputs": of.outputs,
        "state": one.state,
        "since_ms": of.since_ms if is_own and not is_left else None,
        "because": of.owned_because if of.has_left else of.because if is_own else None,
        "is_left": is_left,
        "computed_by": of.owner if is_left else None,
        "leases": [_lease(lease) for lease in of.leases] if is_own else [],
        "known_from": one.known_from,
    }


def _lease(lease: Lease) -> Document:
    return {
        "lane": lease.lane,
        "holder": lease.holder,
        "epoch": lease.epoch,
        "is_held": lease.is_held,
        # While it is held it is renewed all the time: that would be news every second.
        "ended_at_ms": None if lease.is_held else lease.expires_at_ms,
    }


def _neighbourhood(placed: list[_Placed], chosen: str) -> list[_Placed]:
    """Those of a participant, and those that write for it or read from it."""
    own = [one.of for one in placed if one.participant == chosen]
    read = {stream for one in own for stream in one.inputs}
    written = {stream for one in own for stream in one.outputs}
    return [
        one
        for one in placed
        if one.participant == chosen
        or read.intersection(one.of.outputs)
        or written.intersection(one.of.inputs)
    ]


# ---------------------------------------------------------------- participants, links, streams


def _participants(
    homes: Mapping[Participant, FederationFigures],
    seen: Iterable[Participant],
    placed: list[_Placed],
) -> list[Document]:
    partners = {link.partner for figures in homes.values() for link in figures.links}
    names = {*seen, *partners, *(one.participant for one in placed)}
    states: dict[str, Counter[str]] = {name: Counter() for name in names}
    streams: dict[str, set[str]] = {name: set() for name in names}
    for one in placed:
        if not _is_left(one):
            states[one.participant][one.state] += 1
        streams[one.participant].update(one.of.outputs)
    known = set(seen)
    return [
        {
            "name": name,
            "is_seen": name in known,
            "is_read": name in homes,
            "state": min(states[name], key=_RANK.__getitem__, default="unknown"),
            "states": dict(states[name]),
            "streams": len(streams[name]),
        }
        for name in sorted(names)
    ]


def _links(
    homes: Mapping[Participant, FederationFigures], lost: Collection[tuple[str, str]]
) -> list[Document]:
    """A link for each reader and its partner; the reader's own report has precedence.

    What a drill loses is not sent, so that no home reports it: `lost` has those links, both ways.
    """
    found: dict[tuple[str, str], Document] = {}
    for side in ("server", "client"):  # what the reader says counts
        for home, figures in homes.items():
            for link in figures.links:
                if link.side == side:
                    pair = (home, link.partner) if side == "client" else (link.partner, home)
                    found[pair] = {
                        "reader": pair[0],
                        "partner": pair[1],
                        "state": link.state,
                        "since_ms": link.since_ms,
                        "error": link.error,
                        "answer_ms": link.answer_ms,
                        "delay_ms": link.delay_ms,
                        "told_by": home,
                    }
    for cut in found.keys() & set(lost):
        found[cut] |= {"state": "unreachable", "since_ms": None, "error": "cut by a drill"}
    bad = ("unreachable", "refused", "unknown")
    order = {state: rank for rank, state in enumerate(bad)}
    return sorted(
        found.values(),
        key=lambda one: (order.get(one["state"], 9), one["reader"], one["partner"]),
    )


def _streams(
    homes: Mapping[Participant, FederationFigures], placed: list[_Placed], chosen: str | None
) -> Document:
    near = {s for one in placed for s in (*one.of.inputs, *one.of.outputs)} if chosen else None
    found: dict[tuple[str, str, int], tuple[Participant, LineFigures]] = {}
    for home, figures in homes.items():
        for line in figures.lines:
            key = (line.stream, line.participant, line.replica)
            is_shown = near is None or line.stream in near
            if is_shown and (line.participant == home or key not in found):
                found[key] = (home, line)
    lines = sorted(found.values(), key=lambda one: (one[1].tentative_us is None, one[1].stream))
    shown = lines[:ROWS_MAX]
    readers: dict[str, set[str]] = {line.stream: set() for _, line in shown}
    for one in placed:
        for stream in one.of.inputs:
            if stream in readers:
                readers[stream].add(one.participant)
    return {
        "streams": [_stream(home, line, sorted(readers[line.stream])) for home, line in shown],
        "streams_in_all": len(lines),
    }


def _stream(home: Participant, line: LineFigures, readers: list[str]) -> Document:
    progress = progress_of(line.origin_us, line.boundary_us, line.end_us, line.tentative_us)
    return {
        "home": home,
        "stream": line.stream,
        "kind": line.kind,
        "participant": line.participant,
        "replica": line.replica,
        "stable_through_us": progress.stable_through_us,
        "tentative_through_us": progress.tentative_through_us,
        "readers": readers,
    }
