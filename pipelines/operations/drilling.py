"""A drill on the federation as it runs: a fault, answers without it, its end, corrections, laws.

What is judged are the streams that the named participants compute, and those that others compute
from what they send: every answer since the drill began. A fault has an end of its own, so a drill
that is cut short leaves nothing wrong for longer than it was to last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from medusa_core.certificates import Suite
from medusa_core.errors import CheckFailed
from medusa_core.first_answers import FirstAnswer, first_answers
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import Participant, StreamName
from medusa_core.states import State
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.cli.fault import Asked, run_fault
from pipelines.homes.home import open_home
from pipelines.operations.certifying import broken_of, certify
from pipelines.operations.drill_forms import Drill
from pipelines.operations.own_lines import computed_line
from pipelines.operations.printed_documents import said_by
from pipelines.report.answer_figures import Mark, read_answers
from pipelines.report.answer_page import write_answer_page

LOOK_S = 0.5
REPORTS = "reports"


def strike(settings: Settings, drill: Drill) -> str:
    """Make the fault; a freeze is over when this comes back. What was done, in a line."""
    scene, names = drill["scene"], drill["names"]
    lasts = f"{drill['lasts_ms']}ms"
    match scene:
        case "cut" | "one-way":
            asked = Asked(what="cut", names=names, lasts=lasts, one_way=scene == "one-way")
        case "slow":
            asked = Asked(what="slow", names=names, lasts=lasts, by=f"{drill['by_ms']}ms")
        case "freeze":
            asked = Asked(what="freeze", names=names, lasts=lasts)
        case _:
            asked = Asked(what="kill", names=names)
    return said_by(run_fault, settings, asked)


def heal(settings: Settings, drill: Drill) -> str:
    """End the fault, if it has not ended by itself; what was done, in a line."""
    return said_by(run_fault, settings, Asked(what="heal", names=drill["names"]))


def watch(settings: Settings, drill: Drill, say: Callable[[str], None]) -> Mapping[str, int]:
    """Wait while the fault lasts, telling of tentative answers; how many came of each stream.

    It is over early once every stream that is judged has some, so that there is a drill to look at.
    """
    is_over = drill["scene"] == "freeze"  # making it took as long as it lasts
    ends_s = clock.monotonic_s() + (0 if is_over else drill["lasts_ms"] / 1_000)
    counts: dict[str, int] = {}
    while True:
        for one in drill["judged"]:
            answers = [a for a in _answers(settings, one) if a.is_tentative]
            name = f"{one['home']}/{one['stream']}"
            if len(answers) > counts.get(name, 0):
                last = answers[-1].event
                say(f"{name}: {len(answers)} tentative, the last without {list(last.missing)}")
            counts[name] = len(answers)
        if clock.monotonic_s() >= ends_s or (counts and min(counts.values()) > 1):
            return counts
        clock.sleep_s(LOOK_S)


def recover(settings: Settings, drill: Drill, say: Callable[[str], None]) -> Mapping[str, Any]:
    """Wait until nothing of the drill is tentative any more and answers go on.

    Raises CheckFailed (L1) if that takes longer than the drill's patience.
    """
    ends_s = clock.monotonic_s() + drill["waits_s"]
    missing: list[str] | None = None
    while True:
        now = [(one, reason) for one in drill["judged"] for reason in _unsettled(settings, one)]
        told = [f"{one['home']}/{one['stream']} {reason}" for one, reason in now]
        if told != missing:
            say("; ".join(told) or "all is final again, and goes on")
            missing = told
        if not told:
            return {"recovered": [f"{one['home']}/{one['stream']}" for one in drill["judged"]]}
        if clock.monotonic_s() >= ends_s:
            raise CheckFailed(
                f"L1: {drill['waits_s']:g} s after the end of the fault {'; '.join(told)}: see "
                "docs/recover.md, and the logs of these participants"
            )
        clock.sleep_s(LOOK_S)


def _unsettled(settings: Settings, one: Mapping[str, Any]) -> Iterator[str]:
    with open_home(settings, Participant(one["home"])) as home:
        line = computed_line(home, one["stream"])
        if line.tentative_us is not None:
            yield "is tentative"
        elif (line.stable_through_us or 0) <= one["from_us"] and not line.has_ended:
            yield "has not gone on"
        else:
            for state in home.catalog.states():
                if state.state is not State.STABLE:
                    yield f"is {state.state.value}: {state.because}"


def judge(settings: Settings, drill: Drill, pages: Path, title: str) -> Mapping[str, Any]:
    """Certify what was answered since the drill began, and write a page of each home.

    Raises CheckFailed, naming the laws that were broken; pages are there all the same. What came
    late (S6) counts if the drill says so.
    """
    broken: list[str] = []
    late: list[str] = []
    written: list[str] = []
    certificates: list[Any] = []
    docs = ""
    ranges: dict[str, list[tuple[str, int, int]]] = {}
    for one in drill["judged"]:
        with open_home(settings, Participant(one["home"])) as home:
            line = computed_line(home, one["stream"])
            through_us = line.stable_through_us
        kept_us = line.kept_from_us or 0
        from_us = max(one["from_us"], kept_us)
        if through_us is None or through_us <= from_us:
            continue
        document = certify(settings, Participant(one["home"]), one["stream"], from_us, through_us)
        for law, sentence in broken_of(document):
            (late if law == Suite.AVAILABILITY.law else broken).append(sentence)
        docs = document["page"]
        certificates += document["certificates"]
        ranges.setdefault(one["home"], []).append((one["stream"], from_us, through_us))
    pages.mkdir(parents=True, exist_ok=True)
    for name, streams in ranges.items():
        with open_home(settings, Participant(name)) as home:
            figures = [read_answers(home, StreamName(s), a, b) for s, a, b in streams]
            page = pages / f"{title}-{name}.html"
            marks = [Mark(m["at_ms"], m["label"]) for m in drill.get("marks", {}).get(name, ())]
            write_answer_page(page, home=home, streams=figures, docs=Path(docs), marks=marks)
            written.append(str(page))
    if drill["must_be_in_time"]:
        broken += late
    if broken:
        raise CheckFailed(f"{'; '.join(broken)}: see {', '.join(written)}")
    return {
        "passed": True,
        "checks": len(certificates),
        "late": late,
        "pages": written,
        "certificates": docs,
    }


def mark(settings: Settings, drill: Drill, label: str) -> Mapping[str, Any]:
    """When something was done, by the clock of each home that is judged."""
    found = {}
    for name in {one["home"] for one in drill["judged"]}:
        with open_home(settings, Participant(name)) as home:
            found[name] = [{"at_ms": home.catalog.read_clock_ms(), "label": label}]
    return found


def _answers(settings: Settings, one: Mapping[str, Any]) -> list[FirstAnswer]:
    with open_home(settings, Participant(one["home"])) as home:
        line = computed_line(home, one["stream"])
        part = Range(one["from_us"], FOREVER_US)
        events = home.catalog.history(line.stream.name, line.producer, part)
        answers = first_answers(part, events)
    return [answer for answer in answers if answer.came_at_ms >= one["clock_ms"]]
