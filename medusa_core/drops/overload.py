"""Whether a participant is overloaded, by the load equation over what it knows, and what it drops.

The load of a fragment is what its records of a second of event time cost, by its last steps, and
what a step costs besides, once within the time that an overload is tolerated. For inputs that
arrive as event time passes that is what the loop needs of each second, and an overload is known
before anything is late. It is noticed, and acted on, when the oldest bucket that could be computed
has waited for as long as the delay graph loses nothing, less what the path to the output takes.
A longer backlog is to be gone in that time, too, so that less of the capacity is there for it: at
twice the time half of it, and down to a quarter; not where something would be lost for good.

Only outputs with a QoS are dropped, and fragments that compute nothing else. Nothing is remembered:
drops end when the load has fallen, or the wait.

Limits: the fragments of one plan are counted; recorded inputs are always behind, so that no QoS is
declared of what is computed from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from math import lcm

from medusa_core import owed
from medusa_core.drops.keeping import is_unit_kept, seed_of
from medusa_core.drops.load_equation import LoadedBox, LoadedNetwork
from medusa_core.drops.road_map import DropPlan, plan_for
from medusa_core.drops.utility import AfterDrop, Qos, UtilityGraph
from medusa_core.fragments import Fragment
from medusa_core.frozen import freeze
from medusa_core.grid import Range, ceil_us
from medusa_core.knowledge import FragmentKnowledge, Knowledge
from medusa_core.names import StreamName
from medusa_core.network import Filter, Map, Union
from medusa_core.partial import fresh
from medusa_core.paths import rests_ms
from medusa_core.step_costs import Cost, MeanCost

HEADROOM = 0.95
"""Of the capacity that steps are planned for: what they cost is an estimate."""

BACKLOG_MAX = 4.0
"""A backlog counts as at most so many times the load: with ample room it is computed in order."""

NOTICE_SHARE_MIN = 0.1
"""An overload is tolerated for at least this part of what the delay graph allows."""

UNIT_WINDOWS = 2
"""How long a unit is where windows overlap, in lengths of them: before it, more must be kept."""

BLOCKS_PER_REACH = 8
"""In how many pieces that part of a reader is looked at for which a bucket may be needed."""

BY_RECORD = (Filter, Map, Union)
"""Boxes whose rows each follow from one record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overload:
    """The load is above what the capacity allows.

    `by_record`: records are dropped one by one, else by whole windows.
    """

    load: float
    load_max: float
    behind_ms: int
    notice_ms: int
    plan: DropPlan
    home: DroppingHome
    by_record: bool

    @property
    def is_noticed(self) -> bool:
        """Whether it has lasted for so long that records are dropped."""
        return self.behind_ms >= self.notice_ms

    @property
    def numbers(self) -> dict[str, int | float]:
        """The figures behind the decision, for its reason."""
        return {
            "load": round(self.load, 3),
            "load_max": round(self.load_max, 3),
            "behind_ms": self.behind_ms,
            "notice_ms": self.notice_ms,
            "plan": self.plan.number,
            "load_after": round(self.plan.load, 3),
            "utility_lost": round(self.plan.lost, 3),
        }

    def share_of(self, fragment: FragmentKnowledge) -> float:
        """How much is kept of a fragment, at most: of what the outputs behind it keep."""
        return self.home.network.share_of(fragment.fragment.id, self.plan.shares)

    def is_needed(self, fragment: FragmentKnowledge, part: Range) -> bool:
        """Whether a row of `part` is in a window that is kept, here or behind."""
        return self.home.is_needed(fragment.fragment, part, self.plan.shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppingHome:
    """The fragments of a home as boxes with a load, their readers, and the QoS of outputs."""

    fragments: Mapping[str, FragmentKnowledge]
    network: LoadedNetwork
    written: frozenset[StreamName]
    qos: Mapping[str, Qos]
    readers: Mapping[StreamName, tuple[Fragment, ...]]
    units_us: Mapping[str, int]
    seeds: Mapping[str, int]
    grid_us: int

    def __post_init__(self) -> None:
        freeze(self, "fragments", "qos", "readers", "units_us", "seeds")

    def is_needed(self, fragment: Fragment, part: Range, shares: Mapping[str, float]) -> bool:
        """Whether an output keeps a unit that `part` of a fragment's outputs is needed for."""
        for stream in fragment.outputs:
            if stream in self.qos:
                if self._is_kept(stream, part, shares[stream]):
                    return True
            elif stream in self.network.outputs:
                return True
            for reader in self.readers.get(stream, ()):
                if self._is_read(reader, stream, part, shares):
                    return True
        return False

    def _is_read(
        self, reader: Fragment, stream: StreamName, part: Range, shares: Mapping[str, float]
    ) -> bool:
        """Whether a kept unit of a reader needs something of `part`."""
        backs = (reader.reaches(output).get(stream, (0, 0))[0] for output in reader.outputs)
        reach = Range(part.from_us, part.to_us + max(backs, default=0)).widened(self.grid_us)
        length_us = reach.to_us - reach.from_us
        block_us = ceil_us(max(length_us // BLOCKS_PER_REACH, 1), self.grid_us)
        for from_us in range(reach.from_us, reach.to_us, block_us):
            block = Range(from_us, from_us + block_us)
            need = reader.needed_by_all(block).get(stream)
            if need and need.overlaps(part) and self.is_needed(reader, block, shares):
                return True
        return False

    def _is_kept(self, output: StreamName, part: Range, share: float) -> bool:
        """Whether a unit of an output that `part` touches is kept."""
        unit_us, seed = self.units_us[output], self.seeds[output]
        units = range(part.from_us // unit_us, -(-part.to_us // unit_us))
        return any(is_unit_kept(unit, share, seed) for unit in units)


def has_qos(knowledge: Knowledge) -> bool:
    """Whether an output of this home may be dropped."""
    return any(o.qos for f in knowledge.fragments for o in f.outputs.values())


def needs_costs(knowledge: Knowledge) -> bool:
    """Whether a decision asks what steps cost: for a bound, or for a load."""
    return has_qos(knowledge) or any(known.bound is not None for known in knowledge.fragments)


def overload_of(
    knowledge: Knowledge, notices: Mapping[str, int], now_ms: int
) -> Overload | None:  # fmt: skip
    """The overload of a participant; None if there is none or nothing may be dropped.

    `notices`: those of `notices_ms`.
    """
    if not notices:
        return None
    home = _home_of(knowledge, notices)
    loses = any(qos.after is AfterDrop.GAP for qos in home.qos.values())
    own = [f for f in home.fragments.values() if f.provider is None]
    if loses and any(f.cost.mean is None for f in own):
        return None  # nothing is lost for good by a guess of what steps cost
    waits = [
        (behind_ms, notice)
        for fragment, notice in notices.items()
        if home.fragments[fragment].provider is None
        and (behind_ms := behind(home.fragments[fragment], now_ms)) is not None
    ]
    behind_ms, notice_ms = max(waits, key=lambda w: w[0] / w[1], default=(0, 1))
    # A backlog alone loses nothing for good: what fits into the capacity catches up.
    backlog = 1.0 if loses else min(max(behind_ms / notice_ms, 1.0), BACKLOG_MAX)
    load_max = knowledge.limits.capacity * HEADROOM / backlog
    if home.network.load <= load_max:
        return None
    loss: dict[str, UtilityGraph] = {name: qos.loss for name, qos in home.qos.items()}
    plan = plan_for(home.network, loss, load_max)
    dropped = [
        f.fragment
        for id_, f in home.fragments.items()
        if home.network.share_of(id_, plan.shares) < 1
    ]
    return Overload(
        load=home.network.load,
        load_max=load_max,
        behind_ms=behind_ms,
        notice_ms=notice_ms,
        plan=plan,
        home=home,
        by_record=not loses and all(map(passes_records_singly, dropped)),
    )


def passes_records_singly(fragment: Fragment) -> bool:
    """Whether what remains is right row by row when single records are left out."""
    return all(isinstance(box, BY_RECORD) for box in fragment.boxes)


def behind(fragment: FragmentKnowledge, now_ms: int) -> int | None:
    """How long the next bucket of a fragment could have been computed already; None: not yet."""
    ready = owed.frontier(fragment)
    if ready is None:
        return None
    first = Range(ready.from_us, min(ready.from_us + fragment.width_us, ready.to_us))
    fresh_ms = fresh(fragment, first)
    return None if fresh_ms is None else max(now_ms - fresh_ms, 0)


def tolerated_ms(
    knowledge: Knowledge, notices: Mapping[str, int], now_ms: int
) -> int | None:  # fmt: skip
    """How long corrections may take until a bucket is late by its QoS; None: no output has one."""
    left = [
        notices[f.fragment.id] - (behind(f, now_ms) or 0)
        for f in knowledge.fragments
        if f.fragment.id in notices and f.provider is None
    ]
    return max(min(left), 0) if left else None


def notices_ms(knowledge: Knowledge) -> dict[str, int]:
    """For each fragment with a QoS, here or behind, how long it may be late and nothing is lost.

    The good part of the delay graph, as it is seen so much earlier on the path.
    """
    if not has_qos(knowledge):
        return {}
    rests = rests_ms(knowledge.fragments)
    good_ms: dict[StreamName, float] = {}
    found: dict[str, int] = {}
    for fragment in reversed(knowledge.fragments):
        behind_ms = [good_ms[stream] for stream in fragment.outputs if stream in good_ms]
        own_ms = [output.qos.good_ms for output in fragment.outputs.values() if output.qos]
        if not behind_ms + own_ms:
            continue
        limit_ms = min(behind_ms + own_ms)
        rest_ms = fragment.cost.path_ms + rests[fragment.fragment.id]
        found[fragment.fragment.id] = max(
            int(max(limit_ms - rest_ms, limit_ms * NOTICE_SHARE_MIN)), 1
        )
        for stream in fragment.inputs:
            good_ms[stream] = min(good_ms.get(stream, limit_ms), limit_ms)
    return found


def _home_of(knowledge: Knowledge, notices: Mapping[str, int]) -> DroppingHome:
    fragments = {f.fragment.id: f for f in knowledge.fragments}
    writers = {s: id_ for id_, f in fragments.items() for s in f.outputs}
    readers: dict[StreamName, tuple[Fragment, ...]] = {}
    for known in fragments.values():
        for stream in known.inputs:
            readers[stream] = (*readers.get(stream, ()), known.fragment)
    sources = {s for f in fragments.values() for s in f.inputs if s not in writers}
    boxes = tuple(
        LoadedBox(
            name=id_,
            inputs=tuple(writers.get(s, s) for s in f.inputs),
            record_us=0.0,
            # Steps may take as long as an overload is tolerated, also those of other outputs.
            fixed=_load_of(f, notices.get(id_, max(notices.values(), default=0))),
        )
        for id_, f in fragments.items()
    )
    here: set[str] = {f.fragment.name for f in fragments.values()}
    outputs: dict[str, str] = {
        stream: id_
        for id_, f in fragments.items()
        for stream in f.outputs
        if f.outputs[stream].qos or _is_kept_whole(f.fragment, stream, readers, here)
    }
    qos: dict[str, Qos] = {
        s: o.qos for f in fragments.values() for s, o in f.outputs.items() if o.qos
    }
    plan = min((f.plan for f in fragments.values()), default="")
    grid_us = lcm(*(f.width_us for id_, f in fragments.items() if id_ in notices))
    units_us = {o: _unit_us(fragments[outputs[o]].fragment, StreamName(o), grid_us) for o in qos}
    network = LoadedNetwork(
        boxes=boxes,
        rates=dict.fromkeys(sorted(sources), 0.0),
        outputs=outputs,
        overlaps=_overlaps(knowledge.fragments, readers, units_us, grid_us),
    )
    return DroppingHome(
        fragments=fragments,
        network=network,
        written=frozenset(writers),
        qos=qos,
        readers=readers,
        units_us=units_us,
        seeds={o: seed_of(f"{plan} {first}") for o, first in _sharing(network, qos).items()},
        grid_us=grid_us,
    )


def _is_kept_whole(
    fragment: Fragment, stream: StreamName, readers: Mapping[StreamName, object], here: Set[str]
) -> bool:
    """Whether all of a stream is needed: it has no QoS, and is an output or is read elsewhere."""
    if stream not in readers or any(o.name == stream for o in fragment.network.outputs):
        return True
    port = fragment.outputs[stream]
    homes = {box.name: box.fragment for box in fragment.network.boxes}
    read_by = {homes[arc.end] for arc in fragment.network.box_arcs if arc.start == port}
    return not read_by <= here


def _load_of(fragment: FragmentKnowledge, notice_ms: int) -> float:
    """The seconds of work per second that a fragment takes, by what lies ahead of it."""
    if fragment.provider is not None:
        return 0.0
    every_ms = max(fragment.width_us / 1_000, notice_ms, 1)
    cost = mean_cost(fragment.cost)
    return _records_per_s(fragment) * cost.record_us / 1e6 + cost.step_ms / every_ms


def mean_cost(cost: Cost) -> MeanCost:
    """What steps cost on average; of steps that were not measured what is taken for it."""
    return cost.mean or MeanCost(cost.step_ms, cost.record_us)


def _records_per_s(fragment: FragmentKnowledge) -> float:
    """Records per second of event time that its inputs have, where they are ahead of its outputs.

    Where nothing is ahead, by what it read last.
    """
    start_us, rate = owed.start_us(fragment), 0.0
    for name, input_ in fragment.inputs.items():
        from_us = start_us - fragment.fragment.delay_us(name)
        ahead = [s for s in input_.segments if s.range.to_us > from_us] or input_.segments
        if not ahead:
            continue
        whole = Range(min(max(ahead[0].range.from_us, from_us), ahead[-1].range.from_us),
                      ahead[-1].range.to_us)  # fmt: skip
        records = sum(d.rows for s in ahead for d in s.within(whole).values())
        rate += records * 1e6 / (whole.to_us - whole.from_us)
    return rate


def _unit_us(fragment: Fragment, output: StreamName, grid_us: int) -> int:
    """How long a unit of an output is: whole buckets of all, and some windows if these overlap."""
    back_us = max((back_us for back_us, _ in fragment.reaches(output).values()), default=0)
    return grid_us if back_us <= grid_us else ceil_us(UNIT_WINDOWS * back_us, grid_us)


def _overlaps(
    fragments: Sequence[FragmentKnowledge], readers: Mapping[StreamName, Sequence[Fragment]],
    units_us: Mapping[str, int], grid_us: int,
) -> dict[tuple[str, str], float]:  # fmt: skip
    """Fragment and output behind it -> how much of it a unit needs before its time, in units."""
    before_us: dict[tuple[str, str], int] = {}
    for known in reversed(fragments):
        id_ = known.fragment.id
        before_us |= {(id_, stream): 0 for stream in known.outputs if stream in units_us}
        for stream in known.outputs:
            for reader in readers.get(stream, ()):
                backs = [reader.reaches(o).get(stream, (0, 0))[0] for o in reader.outputs]
                more_us = max(max(backs, default=0) - grid_us, 0)
                for output in units_us:
                    if (behind_us := before_us.get((reader.id, output))) is not None:
                        key = (id_, output)
                        before_us[key] = max(before_us.get(key, 0), behind_us + more_us)
    return {key: us / units_us[key[1]] for key, us in before_us.items() if us}


def _sharing(network: LoadedNetwork, outputs: Iterable[str]) -> dict[str, str]:
    """Output -> the first by name of those that share boxes with it, over others too.

    These keep the same units, so that a box that they share is needed for no more than for one.
    """
    first = {output: output for output in outputs}
    boxes = {box.name for box in network.boxes}
    for name, behind in network.behind.items():
        groups = {first[output] for output in behind if output in first}
        if name in boxes and len(groups) > 1:
            first = {o: min(groups) if its in groups else its for o, its in first.items()}
    return first
