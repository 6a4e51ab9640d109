"""`medusa fault`: cut, slow down and heal links, kill and freeze the processes of participants."""

from __future__ import annotations

import argparse
import json
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused, Unavailable
from medusa_core.grid import parse_duration_us
from medusa_core.names import Participant
from medusa_core.suggest import did_you_mean
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import duration, iso
from pipelines.cli.arguments import add_json

if TYPE_CHECKING:
    from pipelines.platform.drills.link_faults import LinkFaults
    from pipelines.platform.drills.run_processes import Running

VERBS: Mapping[str, tuple[tuple[int, ...], frozenset[str]]] = {
    "cut": ((2,), frozenset({"--for", "--one-way", "--explain"})),
    "slow": ((2,), frozenset({"--by", "--for", "--explain"})),
    "heal": ((0, 1, 2), frozenset({"--explain"})),
    "kill": ((1,), frozenset({"--explain"})),
    "freeze": ((1,), frozenset({"--for", "--explain"})),
    "list": ((0,), frozenset({"--json"})),
}
"""How many participants each is about, and which options it takes."""

COUNTS = {0: "no participant", 1: "one participant", 2: "two participants"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The command as it was typed."""

    what: str
    names: Sequence[str] = ()
    lasts: str | None = None
    by: str | None = None
    one_way: bool = False
    explain: bool = False
    as_json: bool = False

    def check(self) -> None:
        """Refused for a number of participants or an option that this does not take."""
        counts, options = VERBS[self.what]
        if len(self.names) not in counts:
            wanted = " or ".join(COUNTS[n] for n in counts)
            raise Refused(f"medusa fault {self.what} is about {wanted}, not {len(self.names)}")
        given = {
            "--for": self.lasts is not None,
            "--by": self.by is not None,
            "--one-way": self.one_way,
            "--explain": self.explain,
            "--json": self.as_json,
        }
        for option, is_given in given.items():
            if is_given and option not in options:
                raise Refused(f"medusa fault {self.what} takes no {option}: leave it out")
        if self.what == "slow" and self.by is None:
            raise Refused("say by how much the link is to be slower with --by, such as --by 500ms")


def run_fault(settings: Settings, asked: Asked) -> int:
    """Do what was asked, or say what would be done; raises Refused for a participant unknown."""
    asked.check()
    names = [_known(settings, name) for name in asked.names]
    if len(set(names)) < len(names):
        raise Refused(f"there is no link between {names[0]} and itself: name two participants")
    match asked.what:
        case "list":
            return _list(settings, as_json=asked.as_json)
        case "kill":
            return _kill(settings, names[0], explain=asked.explain)
        case "freeze":
            return _freeze(settings, names[0], _seconds(asked.lasts), explain=asked.explain)
        case "heal":
            return _heal(settings, names, explain=asked.explain)
        case "cut":
            return _cut(settings, names[0], names[1], asked)
        case _:
            return _slow(settings, names[0], names[1], asked)


def _known(settings: Settings, name: str) -> Participant:
    from pipelines.homes.home import known_homes

    homes = known_homes(settings.directory)
    for known in homes:
        if known == name:
            return known
    there = ", ".join(sorted(homes)) or "none"
    hint = did_you_mean(name, homes, "apply its contracts with medusa apply")
    raise Refused(
        f"there is no participant {name!r} in {settings.directory} (there: {there}): {hint}"
    )


def _seconds(lasts: str | None) -> float | None:
    return None if lasts is None else parse_duration_us(lasts) / 1_000_000


def _lasting(seconds: float | None) -> str:
    return "until it is healed" if seconds is None else f"for {duration(int(seconds * 1_000_000))}"


# links


def _cut(settings: Settings, one: Participant, other: Participant, asked: Asked) -> int:
    from pipelines.platform.drills.link_faults import Lost

    seconds = _seconds(asked.lasts)
    until_s = None if seconds is None else clock.wall_s() + seconds
    rows = [Lost(one, other, until_s), *([] if asked.one_way else [Lost(other, one, until_s)])]
    if asked.one_way:
        said = f"nothing that {one} sends reaches {other}, {_lasting(seconds)}"
    else:
        said = f"nothing goes between {one} and {other}, {_lasting(seconds)}"
    if asked.explain:
        print(f"would be so: {said}")
        return 0
    _change(settings, lambda faults: faults.with_lost(*rows))
    print(said)
    return 0


def _slow(settings: Settings, one: Participant, other: Participant, asked: Asked) -> int:
    from pipelines.platform.drills.link_faults import BY_MS_MAX, Slow

    assert asked.by is not None, "it was checked"
    by_ms = parse_duration_us(asked.by) // 1_000
    if not 1 <= by_ms <= BY_MS_MAX:
        raise Refused(f"--by {asked.by} is out of range: 1ms at least, 1h at most")
    seconds = _seconds(asked.lasts)
    first, second = sorted((one, other))
    row = Slow(first, second, by_ms, None if seconds is None else clock.wall_s() + seconds)
    said = f"every call between {one} and {other} takes {by_ms} ms longer, {_lasting(seconds)}"
    if asked.explain:
        print(f"would be so: {said}")
        return 0
    _change(settings, lambda faults: faults.with_slow(row))
    print(said)
    return 0


def _change(settings: Settings, change: Any, *, begins_anew: bool = False) -> None:
    from pipelines.platform.drills.link_faults import (
        FILE,
        NOTHING,
        faults_alone,
        read_faults,
        write_faults,
    )

    directory = settings.directory
    with faults_alone(directory):
        try:
            faults = read_faults(directory / FILE)
        except Refused:
            if not begins_anew:
                raise
            faults = NOTHING
        write_faults(directory, change(faults.at(clock.wall_s())))


# processes


def _of(settings: Settings, participant: Participant) -> list[Running]:
    """Who runs a participant: who drives it, else who waits; Unavailable if nobody does."""
    from pipelines.platform.drills.run_processes import running_in

    mine = [p for p in running_in(settings.directory) if p.participant == participant]
    if not mine:
        raise Unavailable(
            f"no medusa run of {participant} runs in {settings.directory}: start it, then try again"
        )
    return [process for process in mine if not process.waits] or mine


def _pids(processes: Sequence[Running]) -> str:
    word = "process" if len(processes) == 1 else "processes"
    return f"{word} {', '.join(str(process.pid) for process in processes)}"


def _kill(settings: Settings, participant: Participant, *, explain: bool) -> int:
    processes = _of(settings, participant)
    if explain:
        print(f"would be killed: {_pids(processes)} of {participant}")
        return 0
    killed = [process for process in processes if process.signal(signal.SIGKILL)]
    if not killed:
        raise Unavailable(f"{participant} has ended meanwhile: nothing was killed")
    print(f"killed: {_pids(killed)} of {participant}")
    return 0


def _freeze(
    settings: Settings, participant: Participant, seconds: float | None, *, explain: bool
) -> int:
    from pipelines.platform.drills.resume_later import thaw_later

    processes = _of(settings, participant)
    lasting = f"until `medusa fault heal {participant}`" if seconds is None else _lasting(seconds)
    if explain:
        print(f"would be frozen {lasting}: {_pids(processes)} of {participant}")
        return 0
    # Before anything is frozen there is somebody to let it go on.
    thawing = None if seconds is None else thaw_later(processes, seconds)
    frozen = [process for process in processes if process.signal(signal.SIGSTOP)]
    if not frozen:
        if thawing is not None:
            thawing.terminate()
        raise Unavailable(f"{participant} has ended meanwhile: nothing was frozen")
    print(f"frozen {lasting}: {_pids(frozen)} of {participant}", flush=True)
    if thawing is not None:
        print("it goes on by itself, even if this command is ended before", flush=True)
        thawing.wait()
        print(f"{participant} goes on")
    return 0


def _heal(settings: Settings, names: Sequence[Participant], *, explain: bool) -> int:
    from pipelines.platform.drills.link_faults import FILE
    from pipelines.platform.drills.run_processes import running_in

    wanted = set(names)

    def is_healed(link: frozenset[Participant]) -> bool:
        return wanted <= link

    thawed = [
        process
        for process in running_in(settings.directory)
        if process.is_frozen and (not wanted or wanted == {process.participant})
    ]
    what = "every link" if not names else f"every link of {names[0]}"
    if len(names) == 2:
        what = f"the link between {names[0]} and {names[1]}"
    goes_on = f"; goes on: {_pids(thawed)}" if thawed else ""
    if explain:
        print(f"would be whole again: {what}{goes_on}")
        return 0
    if not (settings.directory / FILE).exists() and not thawed:
        print("nothing was wrong")
        return 0
    _change(settings, lambda faults: faults.without(is_healed), begins_anew=not names)
    for process in thawed:
        process.signal(signal.SIGCONT)
    print(f"whole again: {what}{goes_on}")
    return 0


# telling


def _list(settings: Settings, *, as_json: bool) -> int:
    from pipelines.platform.drills.link_faults import FILE, read_faults
    from pipelines.platform.drills.run_processes import running_in

    faults = read_faults(settings.directory / FILE).at(clock.wall_s())
    processes = running_in(settings.directory)
    if as_json:
        print(json.dumps(_document(faults, processes), indent=1, allow_nan=False))
        return 0
    links = [(f"{r.sender} to {r.receiver}", "lost", _until(r.until_s)) for r in faults.lost]
    links += [(f"{r.one} and {r.other}", f"{r.by_ms} ms slower", _until(r.until_s))
              for r in faults.slow]  # fmt: skip
    print(table(("link", "what", "until"), links) if links else "every link is whole")
    print()
    rows = [(p.participant, p.pid, _state(p)) for p in processes]
    print(table(("participant", "process", "state"), rows) if rows else "no participant runs here")
    return 0


def _until(until_s: float | None) -> str:
    return "healed" if until_s is None else iso(int(until_s * 1_000_000))


def _state(process: Running) -> str:
    return "frozen" if process.is_frozen else "waits for leases" if process.waits else "runs"


def _document(faults: LinkFaults, processes: Sequence[Running]) -> Mapping[str, Any]:
    return {
        "lost": [
            {"from": row.sender, "to": row.receiver, "until_s": row.until_s} for row in faults.lost
        ],
        "slow": [
            {"between": [row.one, row.other], "by_ms": row.by_ms, "until_s": row.until_s}
            for row in faults.slow
        ],
        "processes": [
            {"participant": p.participant, "pid": p.pid, "state": _state(p)} for p in processes
        ],
    }


HELP = "drills: cut and slow down links, kill and freeze participants"


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
    """Make, end or list faults."""
    asked = Asked(
        what=options.what,
        names=options.names,
        lasts=options.for_,
        by=options.by,
        one_way=options.one_way,
        explain=options.explain,
        as_json=options.json,
    )
    return run_fault(settings, asked)
