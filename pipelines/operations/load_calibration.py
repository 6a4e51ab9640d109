"""Calibration: what a record costs a fragment, measured by running its plan over kept records.

The fragment's own boxes are replayed over the kept history of its inputs in a temporary home: once
to warm up, then over half of it and over all of it. The same is done without any box, which gives
what landing a record costs; a provider does not land. What the second half costs more, less
landing, is divided by its records. Nothing in the participant's home is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.names import Participant, StreamName
from medusa_core.network import Network
from pipelines.base.process_tree import ProcessTree
from pipelines.base.settings import Settings
from pipelines.homes.deployed_fragments import fragment_named, fragments_in_force
from pipelines.homes.home import Home, chosen_participant, make_home, open_home
from pipelines.language.check import check_network
from pipelines.language.fragment_networks import network_of_fragment
from pipelines.operations.recorded_replay import SOLO, replay_folder
from pipelines.participant.kept_history import ALL, KeptHistory, kept_history
from pipelines.participant.replay import replay
from pipelines.participant.replay_order import ReplayOrder, with_landed_sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS_MIN = 20_000
"""Fewer records do not stand out from what a step costs whatever it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a fragment costs: microseconds of CPU for each record that it reads.

    `records` were measured; `seconds` of CPU are what they took, landing left out.
    """

    participant: Participant
    fragment: str
    streams: tuple[StreamName, ...]
    records: int
    seconds: float

    @property
    def cpu_us(self) -> float:
        """Microseconds for a record, to three decimal places, above 0."""
        return max(round(self.seconds / self.records * 1e6, 3), 0.001)

    @property
    def reference(self) -> tuple[str, ...]:
        """As the field `reference` of a movement contract has it."""
        name = self.fragment.replace("/", ".")
        return tuple(
            f"{name}/{stream}={self.cpu_us:.3f}".rstrip("0").rstrip(".") for stream in self.streams
        )


def calibrate_fragment(
    settings: Settings, participant: str | None, fragment: str, say: Callable[[str], None]
) -> Calibration:
    """Measure what a record costs a fragment of this home, FRAGMENT, NETWORK.FRAGMENT or
    NETWORK/FRAGMENT.

    Raises Refused for an unknown one, one that calls functions, and too few kept records.
    """
    here = chosen_participant(settings, participant)
    with open_home(settings, here) as home:
        known = fragments_in_force(home.catalog)
        own = {a.fragment for a in home.catalog.assignments() if a.producer.participant == here}
        found = known[fragment_named(fragment, here, known.keys() & own)]
        checked = check_network(found.network)
        histories = {
            StreamName(str(port)): kept_history(home, stream, ALL, None)
            for port, stream in found.inputs.items()
        }
        whole = _common(histories)
        half = Range(whole.from_us, (whole.from_us + whole.to_us) // 2)
        behind = Range(half.to_us, whole.to_us)
        if (kept := sum(_rows(its, behind) for its in histories.values())) < RECORDS_MIN:
            raise Refused(
                f"the second half of what is kept of the inputs of {found.id} has {kept:,} "
                f"records in the home of {here}: calibrate it when there are {RECORDS_MIN:,}"
            )
        network = with_landed_sources(network_of_fragment(checked, found), histories)
        landing = replace(network, boxes=(), outputs=())
        with _session() as session:
            measure = _Measurement(settings, session, histories, say)
            measure.taken(network, half)
            (first, records), (all_, total) = (measure.taken(network, p) for p in (half, whole))
            land = measure.taken(landing, whole)[0] - measure.taken(landing, half)[0]
    return Calibration(
        participant=here,
        fragment=found.id,
        streams=tuple(sorted(found.input_streams)),
        records=total - records,
        seconds=max(all_ - first - land, 0.0),
    )


def _common(histories: Mapping[StreamName, KeptHistory]) -> Range:
    """The range in which all are kept and final."""
    common: Range | None = ALL
    for history in histories.values():
        common = None if common is None else common.intersection(history.range)
    if common is None:
        raise Refused("the inputs of the fragment have no common range of kept records: wait")
    return common


def _rows(history: KeptHistory, part: Range) -> int:
    return sum(
        digest.rows for segment in history.segments for digest in segment.within(part).values()
    )


class _Measurement:
    """Replays over a part of histories, and what CPU they take; one session for all."""

    def __init__(
        self,
        settings: Settings,
        session: SparkSession,
        histories: Mapping[StreamName, KeptHistory],
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._session = session
        self._histories = histories
        self._say = say
        self._tree = ProcessTree()

    def taken(self, network: Network, part: Range) -> tuple[float, int]:
        """Seconds of CPU of a replay, and how many records it read."""
        within = {name: its.within(part) for name, its in self._histories.items()}
        histories = {name: its for name, its in within.items() if its is not None}
        if len(histories) < len(within):
            raise Refused(
                "half of the kept records of an input are in no range of the others: wait"
            )
        order = ReplayOrder(
            network=network,
            inputs={},
            histories=histories,
            width_us=max(its.width_us for its in histories.values()),
        )
        with replay_folder() as directory:
            own = replace(self._settings, directory=directory)
            with make_home(own, SOLO, keep=False) as home:
                self._tree.rescan()
                before_ns = self._tree.spent_ns()
                result = replay(order, home, None, say=self._say, sessions=self._of_home)
                self._tree.rescan()
                spent_ns = self._tree.spent_ns() - before_ns
        records = sum(result.streams[str(name)]["rows"] for name in histories)
        return spent_ns / 1e9, records

    def _of_home(self, home: Home) -> AbstractContextManager[Callable[[], SparkSession]]:
        return nullcontext(lambda: self._session)


@contextmanager
def _session() -> Iterator[SparkSession]:
    from pipelines.spark.session import close_session, open_session

    with replay_folder() as directory:
        session = open_session(directory)
        try:
            yield session
        finally:
            close_session(session)
