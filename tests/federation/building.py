"""A federation of real homes in one folder: contracts applied, participants that tick in turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from medusa_core.bound_headroom import Headroom
from medusa_core.decide import Decision
from medusa_core.knowledge import Limits
from medusa_core.names import Participant, StreamName
from medusa_core.states import Transition
from pipelines.base.settings import Settings
from pipelines.catalog.server.home_databases import drop_home
from pipelines.exchange.importer import Imported
from pipelines.homes.home import known_homes
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.participant.assembly import has_ended, loop_of, wait_for_leases
from pipelines.participant.driver import Applied
from pipelines.participant.home_session import HomeSession, open_session
from pipelines.participant.housekeeper import TrimmedLine
from pipelines.participant.loop import ParticipantLoop
from pipelines.sinks.delivery import DeliveryResult
from pipelines.sources.live.live_source import Polled
from pipelines.spark.results import Verified
from tests.exchange.served import served_home
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.catalog.server.embedded_server import EmbeddedServer


IDLE_S = 0.5
"""How long all wait where none has anything to do: each look costs every home its queries."""
LEASE_MS = 4_000
"""More than a lease of a process that was killed before lasts."""
HELD_MS = 3_600_000
"""How long a lease here is held: a test that stands still for a while has not lost it."""
ROUNDS_S_MAX = 240
"""Rounds take seconds, and a minute on a slow machine that pauses; the rest is for a hang."""
PROBLEMS_MAX = 3
"""How many errors of each participant the failure message of `rounds_until` shows."""

REPLICATED = """
from medusa_core.network import Aggregate, Filter, Network, Output, Source

network = Network(
    name="replicated",
    sources=(Source(name="given", columns={"ts_us": "bigint", "orig_h": "string", "resp_p": "int"},
                    time="ts_us"),),
    boxes=(
        Aggregate(name="per_source", input="given", size="2s", group_by=("orig_h",),
                  columns={"n": "count(*)", "ports": "count(distinct resp_p)"},
                  fragment="counting"),
        Filter(name="often", input="per_source", cases={"yes": "n > 1"}, fragment="choosing"),
    ),
    outputs=(Output(name="counted", input="per_source"), Output(name="busy", input="often")),
    bucket="1s",
)
"""
"""Fragment counting reads `given` and writes `counted`, choosing reads that and writes `busy`."""


def write_replicated(
    folder: Path,
    *,
    given: str = "source: {kind: generate, seed: 1, rate_per_s: 20, sources: 4}\n",
    counted: str = "",
    busy: str = "",
    counting: Iterable[str] = ("beta", "gamma"),
) -> Path:
    """Contracts of one that lands (alpha), two that compute the same (beta and gamma: replicas 0
    and 1 of fragment counting) and one that reads what they do (delta computes choosing).

    `given`, `counted` and `busy` are further lines of the streams' contracts, such as
    `verify: 2` of counted or `bound: 6s` of busy.
    """
    runs = dict.fromkeys(counting, "fragments: [counting]")
    runs |= {"alpha": "sources: [given]", "delta": "fragments: [choosing]"}
    for kind in ("participants", "streams", "networks"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    (folder / "networks" / "replicated.py").write_text(REPLICATED)
    for name, runs_what in runs.items():
        (folder / "participants" / f"{name}.yaml").write_text(
            f"participant: {name}\nruns:\n  - network: networks/replicated.py\n    {runs_what}\n"
        )
    for stream, more in (("given", given), ("counted", counted), ("busy", busy)):
        (folder / "streams" / f"{stream}.yaml").write_text(f"stream: {stream}\n{more}")
    return folder


@dataclass
class Heard:
    """What a loop said, kept for the test."""

    decisions: list[Decision] = field(default_factory=list)
    steps: list[Applied] = field(default_factory=list)
    imports: list[Imported] = field(default_factory=list)
    landed: list[tuple[StreamName, Polled]] = field(default_factory=list)
    deliveries: list[DeliveryResult] = field(default_factory=list)
    trims: list[TrimmedLine] = field(default_factory=list)
    transitions: list[Transition] = field(default_factory=list)
    verifications: list[Verified] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    alarms: list[tuple[str, str | None]] = field(default_factory=list)
    headrooms: tuple[Headroom, ...] = ()

    def decided(self, decision: Decision) -> None:
        self.decisions.append(decision)

    def applied(self, applied: Applied) -> None:
        self.steps.append(applied)

    def imported(self, imported: Imported) -> None:
        self.imports.append(imported)

    def transitioned(self, transition: Transition) -> None:
        self.transitions.append(transition)

    def verified(self, verified: Verified) -> None:
        self.verifications.append(verified)

    def polled(self, stream: StreamName, polled: Polled) -> None:
        self.landed.append((stream, polled))

    def delivered(self, result: DeliveryResult) -> None:
        self.deliveries.append(result)

    def placed(self, decision: object) -> None:
        """Nothing is placed here."""

    def trimmed(self, line: TrimmedLine) -> None:
        self.trims.append(line)

    def headroom(self, headrooms: Sequence[Headroom]) -> None:
        self.headrooms = tuple(headrooms)

    def error(self, error: Exception) -> None:
        self.errors.append(error)

    def alarm(self, of: str, because: str | None) -> None:
        if because is not None or any(raised == of for raised, _ in self.alarms):
            self.alarms.append((of, because))


@dataclass(frozen=True)
class Running:
    """A participant whose session is open and that has its leases."""

    home_session: HomeSession
    loop: ParticipantLoop
    heard: Heard
    leases: LeaseRenewer
    session: Callable[[], SparkSession]


@contextmanager
def seated(
    settings: Settings,
    name: str,
    session: Callable[[], SparkSession],
    limits: Limits | None = None,
    *,
    is_served: bool = True,
) -> Iterator[Running]:
    """A participant as `medusa run` would make it, its exchange served, ticked by the test.

    `is_served`: False if another process serves its exchange.
    """
    with ExitStack() as stack:
        home_session = stack.enter_context(open_session(settings, Participant(name)))
        heard = Heard()
        if is_served:
            stack.enter_context(served_home(settings, Participant(name)))
        leases = stack.enter_context(
            LeaseRenewer(home_session.home.catalog, f"test-{name}", lease_ms=HELD_MS)
        )
        wait_for_leases(home_session, leases, LEASE_MS, heard)
        loop = loop_of(home_session, leases, session, heard, stack, limits or Limits())
        yield Running(home_session, loop, heard, leases, session)


def run_here(
    settings: Settings,
    name: str,
    session: Callable[[], SparkSession],
    limits: Limits | None = None,
) -> None:
    """Run a participant in this process until all its streams have ended."""
    with seated(settings, name, session, limits) as running:
        rounds_until([running], lambda: has_ended(running.home_session))


class EndedHereError(Exception):
    """The participant is ended at a point."""


def ends_at(point: str) -> Callable[[str], None]:
    """A visitor of failpoints that ends a participant of this process where it reaches one."""

    def visit(reached: str) -> None:
        if reached == point:
            raise EndedHereError

    return visit


def no_spark() -> NoReturn:
    """The session of a participant that computes nothing."""
    raise AssertionError("nothing is computed here")


@contextmanager
def federation_of(server: EmbeddedServer, folder: Path) -> Iterator[Settings]:
    """A folder for homes whose databases lie in the suite's server; they are dropped at the end."""
    settings = replace(
        Settings.from_environment({}), catalog_url=server.superuser_url(), directory=folder
    )
    try:
        yield settings
    finally:
        for database in known_homes(folder).values():
            drop_home(server.superuser_url(), database)


def idles_until_told(running: Running, words: str) -> None:
    """Let a participant tick, to no effect, until this is the matter with a line that it imports.

    A partner that has not answered within a moment is asked again at the next tick.
    """

    def is_told() -> bool:
        assert running.loop.tick().is_idle
        return any(words in (imported.problem or "") for imported in running.heard.imports[-1:])

    until(is_told, f"the problem {words!r} is reported", ROUNDS_S_MAX)


def rounds_until(
    running: Iterable[Running], is_done: Callable[[], bool], seconds_max: float = ROUNDS_S_MAX
) -> None:
    """Let every participant tick in turn until something holds.

    Where all are idle, time passes until one of them is to do something, as in a loop that runs.
    How many rounds that takes depends on the machine: what is given up after is time.
    """
    participants = list(running)
    gives_up_s = time.monotonic() + seconds_max
    while not is_done():
        assert time.monotonic() < gives_up_s, (
            f"not done after {seconds_max} s; heard last: {last_problems(participants)}"
        )
        ticked = [one.loop.tick() for one in participants]
        if all(one.is_idle for one in ticked):
            wakes_ms = (one.loop.wakes_in_ms() for one in participants)
            time.sleep(min([IDLE_S, *(ms / 1_000 for ms in wakes_ms if ms is not None)]))


def last_problems(participants: Iterable[Running]) -> str:
    """What is the matter with whom: with lines at the last look, alarms that last, last errors."""
    found: list[str] = []
    for one in participants:
        name, heard = one.home_session.home.participant, one.heard
        lines = {f"{i.stream} by {i.producer}": i.problem for i in heard.imports}
        told = [
            *(f"{of}: {what}" for of, what in (lines | dict(heard.alarms)).items() if what),
            *map(repr, heard.errors[-PROBLEMS_MAX:]),
        ]
        found += [f"{name}: {words}" for words in told]
    return "; ".join(found) or "no problem"
