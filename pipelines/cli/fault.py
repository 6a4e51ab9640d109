"""`medusa fault`: cut, slow down and heal links, kill and freeze the processes of participants."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, assert_never

from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import duration, iso
from pipelines.cli.arguments import add_json

if TYPE_CHECKING:
    from pipelines.operations.fault_injection import FaultList, FaultRequest, FaultResult

HELP = "drills: cut and slow down links, kill and freeze participants"

VERBS: Mapping[str, tuple[tuple[int, ...], frozenset[str]]] = {
    "cut": ((2,), frozenset({"--for", "--one-way", "--explain"})),
    "slow": ((2,), frozenset({"--by", "--for", "--explain"})),
    "heal": ((0, 1, 2), frozenset({"--explain"})),
    "kill": ((1,), frozenset({"--explain"})),
    "freeze": ((1,), frozenset({"--for", "--explain"})),
    "list": ((0,), frozenset({"--json"})),
}
"""How many participants each verb takes, and which options."""

COUNTS = {0: "no participant", 1: "one participant", 2: "two participants"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa fault`."""
    what = "cut A B, slow A B, heal [A [B]], kill P, freeze P, or list what is wrong and who runs"
    parser.add_argument("what", choices=tuple(VERBS), metavar="WHAT", help=what)
    parser.add_argument("names", nargs="*", metavar="P", help="which participants")
    lasts = "how long, such as 10s; it ends by itself (default: until it is healed)"
    parser.add_argument("--for", dest="for_", metavar="DURATION", help=lasts)
    parser.add_argument("--one-way", action="store_true", help="only what A sends to B is lost")
    parser.add_argument("--by", metavar="DURATION", help="how much longer each call takes")
    parser.add_argument("--explain", action="store_true", help="tell what would be done")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Inject or heal a fault, or list the faults, and print what was done."""
    from pipelines.operations.fault_injection import document, inject_fault, list_faults

    _check(options)
    if options.what == "list":
        faults = list_faults(settings)
        as_json = options.json
        print(
            json.dumps(document(faults), indent=1, allow_nan=False)
            if as_json
            else render_list(faults)
        )
        return 0
    done = inject_fault(settings, _request(options), explain=options.explain, observer=_print)
    if done.has_resumed:
        print(f"{done.participants[0]} continues")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refused for a number of participants or an option that the verb does not take."""
    verb = options.what
    counts, allowed = VERBS[verb]
    if len(options.names) not in counts:
        expected = " or ".join(COUNTS[n] for n in counts)
        raise Refused(f"medusa fault {verb} takes {expected}, not {len(options.names)}")
    given = {
        "--for": options.for_ is not None,
        "--by": options.by is not None,
        "--one-way": options.one_way,
        "--explain": options.explain,
        "--json": options.json,
    }
    for option, is_given in given.items():
        if is_given and option not in allowed:
            raise Refused(f"medusa fault {verb} takes no {option}: leave it out")
    if verb == "slow" and options.by is None:
        raise Refused("say by how much to slow the link down with --by, such as --by 500ms")


def _request(options: argparse.Namespace) -> FaultRequest:
    from pipelines.operations.fault_injection import (
        CutRequest,
        FreezeRequest,
        HealRequest,
        KillRequest,
        SlowRequest,
    )

    names = options.names
    lasts_s = None if options.for_ is None else parse_duration_us(options.for_) / 1_000_000
    match options.what:
        case "cut":
            return CutRequest(
                one=names[0], other=names[1], one_way=options.one_way, lasts_s=lasts_s
            )
        case "slow":
            by_ms = parse_duration_us(options.by) // 1_000
            return SlowRequest(one=names[0], other=names[1], by_ms=by_ms, lasts_s=lasts_s)
        case "kill":
            return KillRequest(participant=names[0])
        case "freeze":
            return FreezeRequest(participant=names[0], lasts_s=lasts_s)
        case _:
            return HealRequest(participants=tuple(names))


def _print(result: FaultResult) -> None:
    print(render(result), flush=True)


def render(result: FaultResult) -> str:
    """What was done, or would be, for people."""
    from pipelines.operations.fault_injection import (
        CutRequest,
        FreezeRequest,
        HealRequest,
        KillRequest,
        SlowRequest,
    )

    request = result.request
    would = "would be so: " if result.is_explained else ""
    match request:
        case CutRequest(one=one, other=other):
            lost = f"nothing goes between {one} and {other}"
            if request.one_way:
                lost = f"nothing that {one} sends reaches {other}"
            return f"{would}{lost}, {_lasting(request.lasts_s)}{_means(result)}"
        case SlowRequest(one=one, other=other):
            slow = f"every call between {one} and {other} takes {request.by_ms} ms longer"
            return f"{would}{slow}, {_lasting(request.lasts_s)}"
        case KillRequest(participant=participant):
            verb = "would be killed" if result.is_explained else "killed"
            return f"{verb}: {_pids(result)} of {participant}"
        case FreezeRequest():
            return _freeze_text(result, request.participant, request.lasts_s)
        case HealRequest():
            return _heal_text(result)
        case _:
            assert_never(request)


def _means(result: FaultResult) -> str:
    """How a link to a partner on another machine is cut."""
    if result.calls_because is not None:
        return f"\nonly calls from here fail, because {result.calls_because}"
    return "\nthe packets between the two machines are dropped" if result.is_of_packets else ""


def _freeze_text(result: FaultResult, participant: str, lasts_s: float | None) -> str:
    lasting = f"until `medusa fault heal {participant}`" if lasts_s is None else _lasting(lasts_s)
    frozen = f"frozen {lasting}: {_pids(result)} of {participant}"
    if result.is_explained:
        return f"would be {frozen}"
    if lasts_s is None:
        return frozen
    return f"{frozen}\nit continues by itself, even if this command ends first"


def _heal_text(result: FaultResult) -> str:
    if not result.has_changed:
        return "nothing was wrong"
    names = result.participants
    healed = "every link" if not names else f"every link of {names[0]}"
    if len(names) == 2:
        healed = f"the link between {names[0]} and {names[1]}"
    continued = f"; continued: {_pids(result)}" if result.pids else ""
    would = "would be whole again" if result.is_explained else "whole again"
    return f"{would}: {healed}{continued}"


def _pids(result: FaultResult) -> str:
    word = "process" if len(result.pids) == 1 else "processes"
    return f"{word} {', '.join(map(str, result.pids))}"


def _lasting(seconds: float | None) -> str:
    return "until it is healed" if seconds is None else f"for {duration(int(seconds * 1_000_000))}"


def render_list(faults: FaultList) -> str:
    """Links with faults and processes for people, a line each."""
    from pipelines.operations.fault_injection import process_state

    links = [(f"{r.sender} to {r.receiver}", "lost", _until(r.until_s)) for r in faults.links.lost]
    links += [
        (f"{r.sender} to {r.receiver}", "packets lost", _until(r.until_s))
        for r in faults.links.packets
    ]
    links += [
        (f"{r.one} and {r.other}", f"{r.by_ms} ms slower", _until(r.until_s))
        for r in faults.links.slow
    ]
    processes = [(p.participant, p.pid, process_state(p)) for p in faults.processes]
    names = ("participant", "process", "state")
    return "\n\n".join(
        (
            table(("link", "what", "until"), links) if links else "every link is whole",
            table(names, processes) if processes else "no participant runs here",
        )
    )


def _until(until_s: float | None) -> str:
    return "healed" if until_s is None else iso(int(until_s * 1_000_000))
