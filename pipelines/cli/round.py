"""`medusa round`: a participant's round now, whether it runs or not, and whatever the clock says.

It is made with the participant's key in its own home, like the rounds of its loop: both may be at
work at once. Partners answer in a turn of their own.
"""

from __future__ import annotations

import argparse
import json
import sys

from pipelines.base.settings import Settings
from pipelines.base.text_table import printable
from pipelines.cli.arguments import add_home, add_json

ASKED_FOR = "asked for by medusa round"


def run_round(settings: Settings, participant: str | None, *, explain: bool, as_json: bool) -> int:
    """Open a round, decide and send, and print what was decided; with `explain` only print what
    would be."""
    from pipelines.homes.home import chosen_participant
    from pipelines.market.rounds.round_assembly import open_turns
    from pipelines.market.rounds.round_report import decision_documents, decision_lines
    from pipelines.participant.home_session import take_seat

    chosen = chosen_participant(settings, participant)
    problems: list[str] = []
    with (
        take_seat(settings, chosen) as seat,
        open_turns(
            settings.directory, chosen, seat.urls[0], seat.partners,
            lambda error: problems.append(str(error)), is_patient=True,
        ) as turns,
    ):  # fmt: skip
        if explain:
            facts, decisions = turns.explain()
            number, waiting = facts.round + 1, 0
        else:
            made = turns.turn(opens=ASKED_FOR)
            decisions, number, waiting = [*made.decisions], made.opened or 0, made.waiting
            facts = turns.facts()
    has_cost = facts.declared is not None
    if as_json:
        document = {
            "participant": chosen,
            "round": number,
            "is_explained": explain,
            "has_declared_cost": has_cost,
            "decisions": decision_documents(decisions),
            "not_sent": waiting,
            "problems": problems,
        }
        print(json.dumps(document, indent=1, allow_nan=False))
        return 0
    would = "would be" if explain else "is"
    print(f"round {number} of {chosen} {would} open")
    if not has_cost:
        print("what load costs is not declared, so nothing is offered or taken: see docs/load.md")
    lines = decision_lines(decisions) or ["nothing to offer, and nothing to answer"]
    print("\n".join(printable(line) for line in lines))
    for problem in problems:
        print(f"medusa: {printable(problem)}", file=sys.stderr)
    if waiting:
        print(f"{waiting} not sent yet: the next turn sends it again")
    return 0


HELP = "a round of the market now: offer load, answer partners' offers"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa round`."""
    parser.add_argument(
        "--explain", action="store_true", help="print what would be decided, change nothing"
    )
    add_home(parser, "who (default: the only one)")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Open a round now, or with --explain print what it would decide."""
    return run_round(settings, options.participant, explain=options.explain, as_json=options.json)
