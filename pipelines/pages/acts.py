"""Acts that a DAG carries out by form: what each does, and the values that a page fills in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medusa_core.names import is_fragment_named


@dataclass(frozen=True, slots=True, kw_only=True)
class FormDag:
    """A DAG with a form: what it does, the command that does the same, and its section."""

    name: str
    does: str
    command: str
    docs: str


FORM_DAGS = (
    FormDag(
        name="medusa_deploy", command="medusa apply", docs="airflow",
        does="Bring contracts into the homes, and let participants run."),
    FormDag(
        name="medusa_pause", command="medusa job stop", docs="airflow#acts-by-form",
        does="Pause participants, or let them run again."),
    FormDag(
        name="medusa_recall", command="medusa recall --help", docs="recall#what-it-does",
        does="Take back final rows of a stream, with all that was computed from them."),
    FormDag(
        name="medusa_revise", command="medusa revise --help", docs="revise#what-it-does",
        does="Add, remove or replace records of a source."),
    FormDag(
        name="medusa_move", command="medusa move", docs="bilateral#moving-a-fragment",
        does="Hand a fragment over to a partner, or end its move."),
    FormDag(
        name="medusa_reconcile", command="medusa job start --lane backlog", docs="airflow",
        does="Make owed corrections in a lane of their own."),
    FormDag(
        name="medusa_quality", command="medusa quality run", docs="quality",
        does="Certify a window of a stream with another engine."),
    FormDag(
        name="medusa_settle", command="medusa settle", docs="money",
        does="State periods that are over, send and answer statements."),
    FormDag(
        name="medusa_round", command="medusa round", docs="rounds",
        does="Open a round of the market."),
    FormDag(
        name="medusa_drill", command="medusa fault --help", docs="airflow#drills-by-form",
        does="Make a fault on purpose, and judge the answers."),
)  # fmt: skip
"""In the order in which the page lists them."""


def act(dag: str, does: str, **form: Any) -> dict[str, Any]:
    """An act as JSON values; values that are None are left out of its form."""
    return {
        "dag": dag,
        "does": does,
        "form": {name.rstrip("_"): value for name, value in form.items() if value is not None},
    }


def stream_acts(
    home: str, stream: str, line: Mapping[str, Any], *, is_source: bool,
    from_time: str | None, to_time: str | None,
) -> list[dict[str, Any]]:  # fmt: skip
    """What may be done about the line of a stream that is shown, from the chosen time on."""
    at = {"participant": home, "stream": stream}
    certify = act("medusa_quality", "Certify it.", **at, from_=from_time, to=to_time)
    if line["participant"] != home:
        partner = line["participant"]
        return [
            act("medusa_recall", f"Follow a recall of {partner}.", **at, from_=from_time,
                follow=partner),
            act("medusa_revise", f"Follow revisions of {partner}.", **at, action="follow",
                follow=partner),
            certify,
        ]  # fmt: skip
    found = [act("medusa_recall", "Take final rows back.", **at, from_=from_time)]
    if is_source:
        found.append(act("medusa_revise", "Add, remove or replace records.", **at, action="add"))
    return [*found, certify]


def participant_acts(home: str) -> list[dict[str, Any]]:
    """What may be done about a participant."""
    return [
        act("medusa_pause", "Pause it.", participants=[home], action="pause"),
        act("medusa_pause", "Let it run again.", participants=[home], action="resume"),
        act("medusa_deploy", "Deploy its contracts.", participant=home),
        act("medusa_drill", "Drill a fault.", participant=home),
    ]


def move_acts(
    homes: set[str], moves: list[dict[str, Any]], prices: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Moves that may end, and fragments that a contract in force lets move, of homes shown."""
    ends = [
        act("medusa_move", f"Take {one['fragment']} back.", participant=one["payer"],
            fragment=one["fragment"], action="back")
        for one in moves
        if one["state"] != "ended" and one["payer"] in homes
    ]  # fmt: skip
    moved = {(one["payer"], one["fragment"]) for one in moves if one["state"] != "ended"}
    begins = [
        act("medusa_move", f"Hand {fragment} over to {one['provider']}.", participant=one["payer"],
            fragment=fragment, action="to", partner=one["provider"])
        for one in prices
        for fragment in one["fragments"] or ()
        if one["payer"] in homes
        and not any(payer == one["payer"] and is_fragment_named(name, fragment)
                    for payer, name in moved)
    ]  # fmt: skip
    return ends + begins
