"""The federation as a document: fragments at their participants, states, links and streams.

What a home says of itself counts; what others know of it only where its own home is not seen. A
fragment that has moved is shown where it is computed, with its owner, and leaves a mark there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from medusa_core.names import Participant
from pipelines.pages.elements import WORST_FIRST
from pipelines.pages.federation_figures import (
    LANDING,
    MOVED,
    FederationFigures,
    FragmentFigures,
    read_federation,
)
from pipelines.pages.page_kinds import Document, Request

ROWS_MAX = 200
"""Rows of a table of the page; the worst come first, and the rest is a number."""
_RANK = {state: rank for rank, state in enumerate(WORST_FIRST)}


def federation_document(request: Request) -> Document:
    """All of the homes that the viewer sees; with `participant` only what is beside that one."""
    homes = {
        home: figures
        for home in request.homes
        if (figures := request.of_home(home, "federation", read_federation)) is not None
    }
    fragments = _fragments(homes)
    links = _links(homes)
    participants = _participants(homes, request.homes, fragments)
    chosen = request.query.get("participant")
    if chosen is not None:
        fragments = _neighbourhood(fragments, chosen)
        links = [one for one in links if chosen in (one["reader"], one["partner"])]
    fragments.sort(key=lambda one: (_RANK[one["state"]], one["participant"], one["name"]))
    streams = _streams(homes, fragments, chosen)
    return {
        "chosen": chosen,
        "participants": participants,
        "states": dict(Counter(one["state"] for one in fragments if not one["is_left"])),
        **_cut("fragments", fragments),
        **_cut("links", links),
        **_cut("streams", streams),
    }


def _cut(name: str, values: list[Document]) -> Document:
    return {name: values[:ROWS_MAX], f"{name}_in_all": len(values)}


# ---------------------------------------------------------------- fragments


def _fragments(homes: Mapping[Participant, FederationFigures]) -> list[Document]:
    found: dict[tuple[str, str, int], Document] = {}
    for home, figures in homes.items():
        for one in figures.fragments:
            if one.participant == home:
                found[one.participant, one.id, one.replica] = _own(one)
            elif one.participant not in homes:
                key = (one.participant, one.id, one.replica)
                found.setdefault(key, _foreign(one, home))
    for home, figures in homes.items():
        for one in figures.fragments:
            if one.participant == home and _is_moved_away(one) and one.owner not in homes:
                # Its present place is known from here alone.
                key = (str(one.owner), one.id, one.replica)
                found.setdefault(key, _at_provider(one, home))
    return list(found.values())


def _is_moved_away(one: FragmentFigures) -> bool:
    return one.owner is not None and one.owner != one.participant


def _own(one: FragmentFigures) -> Document:
    is_left = _is_moved_away(one)
    is_led = any(lease.is_held for lease in one.leases)
    belongs_to, name = _origin(one)
    return {
        **_named(one, name),
        "belongs_to": belongs_to,
        "state": "unknown" if is_left else one.state if is_led else "stopped",
        "since_ms": one.since_ms,
        "because": one.owned_because if is_left else one.because,
        "is_left": is_left,
        "computed_by": one.owner if is_left else None,
        "leases": [
            {
                "lane": lease.lane,
                "holder": lease.holder,
                "epoch": lease.epoch,
                "is_held": lease.is_held,
                # While it is held it is renewed all the time: that would be news every second.
                "ended_at_ms": None if lease.is_held else lease.expires_at_ms,
            }
            for lease in one.leases
        ],
        "known_from": one.participant,
    }


def _foreign(one: FragmentFigures, home: str) -> Document:
    belongs_to, name = _origin(one)
    return {
        **_named(one, name),
        "belongs_to": belongs_to,
        "state": "unknown",
        "since_ms": None,
        "because": None,
        "is_left": False,
        "computed_by": None,
        "leases": [],
        "known_from": home,
    }


def _at_provider(one: FragmentFigures, home: str) -> Document:
    return {
        **_foreign(one, home),
        "participant": one.owner,
        "belongs_to": one.participant,
        "because": one.owned_because,
    }


def _named(one: FragmentFigures, name: str) -> Document:
    return {
        "id": f"{one.participant} {one.id} {one.partition} {one.replica}",
        "name": name,
        "fragment": one.id,
        "partition": one.partition,
        "replica": one.replica,
        "participant": one.participant,
        "is_source": one.id.startswith(LANDING),
        "inputs": list(one.inputs),
        "outputs": list(one.outputs),
    }


def _origin(one: FragmentFigures) -> tuple[str, str]:
    """Whom a fragment belongs to, and its name there; a moved one is `moved/OWNER/NUMBER/NAME`."""
    if one.id.startswith(MOVED):
        parts = one.id.split("/", 3)
        if len(parts) == 4:
            return parts[1], parts[3]
    return one.participant, one.id


def _neighbourhood(fragments: list[Document], chosen: str) -> list[Document]:
    """Those of a participant, and those that write for it or read from it."""
    own = [one for one in fragments if one["participant"] == chosen]
    read = {stream for one in own for stream in one["inputs"]}
    written = {stream for one in own for stream in one["outputs"]}
    return [
        one
        for one in fragments
        if one["participant"] == chosen
        or read.intersection(one["outputs"])
        or written.intersection(one["inputs"])
    ]


# ---------------------------------------------------------------- participants, links, streams


def _participants(
    homes: Mapping[Participant, FederationFigures],
    seen: Iterable[Participant],
    fragments: list[Document],
) -> list[Document]:
    partners = {link.partner for figures in homes.values() for link in figures.links}
    names = {*seen, *partners, *(one["participant"] for one in fragments)}
    states: dict[str, Counter[str]] = {name: Counter() for name in names}
    streams: dict[str, set[str]] = {name: set() for name in names}
    for one in fragments:
        if not one["is_left"]:
            states[one["participant"]][one["state"]] += 1
        streams[one["participant"]].update(one["outputs"])
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


def _links(homes: Mapping[Participant, FederationFigures]) -> list[Document]:
    """A link for each reader and its partner; the reader's own report has precedence."""
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
    bad = ("unreachable", "refused", "unknown")
    order = {state: rank for rank, state in enumerate(bad)}
    return sorted(
        found.values(),
        key=lambda one: (order.get(one["state"], 9), one["reader"], one["partner"]),
    )


def _streams(
    homes: Mapping[Participant, FederationFigures], fragments: list[Document], chosen: str | None
) -> list[Document]:
    readers: dict[str, set[str]] = {}
    for one in fragments:
        for stream in one["inputs"]:
            readers.setdefault(stream, set()).add(one["participant"])
    found: dict[tuple[str, str, int], Document] = {}
    shown = {stream for one in fragments for stream in (*one["inputs"], *one["outputs"])}
    for home, figures in homes.items():
        for line in figures.lines:
            key = (line.stream, line.participant, line.replica)
            is_own = line.participant == home
            if (chosen is None or line.stream in shown) and (is_own or key not in found):
                found[key] = {
                    "stream": line.stream,
                    "kind": line.kind,
                    "participant": line.participant,
                    "replica": line.replica,
                    "stable_through_us": _stable_us(line.boundary_us, line.tentative_us),
                    "tentative_through_us": (
                        line.boundary_us if line.tentative_us is not None else None
                    ),
                    "readers": sorted(readers.get(line.stream, ())),
                }
    return sorted(
        found.values(), key=lambda one: (one["tentative_through_us"] is None, one["stream"])
    )


def _stable_us(boundary_us: int | None, tentative_us: int | None) -> int | None:
    return boundary_us if tentative_us is None else tentative_us


def worst_of(values: Iterable[Mapping[str, Any]]) -> str:
    """The worst state of some."""
    return min((one["state"] for one in values), key=_RANK.__getitem__, default="stable")
