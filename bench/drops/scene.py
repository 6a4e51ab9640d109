"""The scene: a load that fits, an overload of some times the capacity, and a load that fits again.

Two queries read one stream. `trends` tolerates loss, `alarms` does not, and a third fragment sums
the alarms in windows that overlap, so that a drop must spare whole windows at two levels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from bench.drops.modelled import Costs, ModelledHome
from medusa_core.drops.utility import Qos, UtilityGraph, loss_graph
from medusa_core.network import Aggregate, Network, Output, Source

WIDTH_US = 2_000_000
CALM_S, OVERLOAD_S = 60, 120
LEFT_S = 3_600
"""How long corrections may take at most."""

BASE_LOAD = 0.5
"""Before and after the overload, in times of the capacity."""

DELAY = UtilityGraph(((0, 1), (10_000, 1), (60_000, 0)))
TRUE_QOS: Mapping[str, Qos] = {
    "trends": Qos(delay=DELAY, loss=loss_graph(((0, 1), (0.8, 0.8), (1, 0)))),
    "sums": Qos(delay=DELAY, loss=loss_graph(((0, 1), (0.2, 0.6), (1, 0)))),
}
_ALIKE = loss_graph(((0, 1), (0.25, 0.95), (0.5, 0.8), (0.75, 0.5), (1, 0)))


class Method(Enum):
    """What an overloaded participant does: drops by QoS, drops alike of all outputs, nothing."""

    QOS = "by QoS"
    ALIKE = "alike"
    NOTHING = "nothing"


NETWORK = Network(
    name="scene",
    sources=(
        Source(name="readings", columns={"at_us": "bigint", "key": "string"}, time="at_us"),
    ),
    boxes=(
        Aggregate(name="trend", input="readings", size="2s", group_by=("key",),
                  columns={"records": "count(*)"}, fragment="trend"),
        Aggregate(name="alarm", input="readings", size="2s", group_by=("key",),
                  columns={"records": "count(*)"}, fragment="alarm"),
        Aggregate(name="summed", input="alarm", size="6s", advance="2s", group_by=("key",),
                  columns={"records": "sum(records)"}, fragment="summed"),
    ),
    outputs=(Output(name="trends", input="trend"), Output(name="sums", input="summed")),
    bucket="2s",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of the buckets of the overload; `corrected_s` after it all was final."""

    times: float
    method: Method
    utility: Mapping[str, float]
    dropped: Mapping[str, float]
    delay_s_max: float
    corrected_s: float | None
    computed_max: int
    differing: int

    @property
    def total(self) -> float:
        """The mean utility of an output."""
        return sum(self.utility.values()) / len(self.utility)


def home_of(
    times: float, method: Method, costs: Costs, overload_s: int = OVERLOAD_S
) -> ModelledHome:
    """The home of a run."""
    per_s = 1_000_000 / (2 * costs.record_us)

    def records(at_us: int) -> int:
        is_over = CALM_S * 1_000_000 <= at_us < (CALM_S + overload_s) * 1_000_000
        return int((times if is_over else BASE_LOAD) * per_s * WIDTH_US / 1e6)

    qos: dict[str, Qos] = {}
    if method is not Method.NOTHING:
        qos = dict(TRUE_QOS)
    if method is Method.ALIKE:
        qos = {name: Qos(delay=its.delay, loss=_ALIKE) for name, its in TRUE_QOS.items()}
    return ModelledHome(network=NETWORK, width_us=WIDTH_US, qos=qos, records=records, costs=costs)


def run(times: float, method: Method, overload_s: int = OVERLOAD_S) -> Outcome:
    """One run, until everything is final."""
    home = home_of(times, method, Costs(), overload_s)
    ends_ms = (CALM_S + overload_s) * 1_000
    home.run(ends_ms)
    home.run(ends_ms + LEFT_S * 1_000, is_done=lambda: _has_caught_up(home, ends_ms))
    corrected_s = None
    if _has_caught_up(home, ends_ms):
        last_ms = max(a.at_ms for a in home.answers if a.bucket_us * 1e-3 < ends_ms)
        corrected_s = max(last_ms - ends_ms, 0) / 1_000
    return _outcome(home, times, method, corrected_s, overload_s)


def _has_caught_up(home: ModelledHome, ends_ms: int) -> bool:
    """Whether every bucket of the overload is final."""
    reached = (
        max((s.range.to_us for s in home.catalog.segments(name)), default=0) for name in TRUE_QOS
    )
    return all(to_us >= ends_ms * 1_000 for to_us in reached) and home.is_all_final()


def _outcome(
    home: ModelledHome, times: float, method: Method, corrected_s: float | None, overload_s: int
) -> Outcome:
    utility: dict[str, float] = {}
    dropped: dict[str, float] = {}
    delays_ms: list[float] = []
    computed: dict[tuple[str, int], int] = {}
    over = range(CALM_S * 1_000_000, (CALM_S + overload_s) * 1_000_000, WIDTH_US)
    for name, qos in TRUE_QOS.items():
        first = {a.bucket_us: a for a in reversed(home.answers) if a.stream == name}
        seen = [first[at] for at in over if at in first]
        kept = [a.at_ms - (a.bucket_us + WIDTH_US) / 1_000 for a in seen if not a.is_dropped]
        lost = 1 - len(kept) / len(over)
        on_time = sum(map(qos.delay.at, kept)) / len(kept) if kept else 0.0
        utility[name], dropped[name] = qos.loss.at(lost) * on_time, lost
        delays_ms += kept
    for answer in home.answers:
        of = answer.stream, answer.bucket_us
        computed[of] = computed.get(of, 0) + 1
    return Outcome(
        times=times,
        method=method,
        utility=utility,
        dropped=dropped,
        delay_s_max=max(delays_ms, default=0.0) / 1_000,
        corrected_s=corrected_s,
        computed_max=max(computed.values()),
        differing=_differing(home),
    )


def _differing(home: ModelledHome) -> int:
    """How many final buckets, or kept ones of the overload, are not what all records give."""
    exact = ModelledHome(
        network=NETWORK, width_us=WIDTH_US, qos={}, records=home.records,
        costs=Costs(step_ms=0, record_us=0),
    )  # fmt: skip
    exact.run(home.clock.now_ms + 1)
    wrong = 0
    for name in TRUE_QOS:
        expected, final = exact.final(name), home.final(name)
        wrong += sum(expected.get(at) != digest for at, digest in final.items())
        kept = [a for a in home.answers if a.stream == name and not a.is_dropped]
        wrong += sum(expected.get(a.bucket_us) != a.digest for a in kept)
    return wrong
