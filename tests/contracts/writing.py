"""Contracts folders for tests, and the smallest model of what deploying them leaves in a home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from medusa_core.names import Participant
from pipelines.catalog.records import PlanRecord
from pipelines.contracts.apply_changes import HomeChanges
from pipelines.contracts.home_snapshot import (
    DeployedFragment,
    Grant,
    HomeSnapshot,
    LineSnapshot,
)

NETWORK = '''"""A user's network: what is big, computed in two fragments."""
from medusa_core.network import Filter, Map, Network, Output, Source

network = Network(
    name="mine",
    sources=(Source(name="ticks", columns={"ts_us": "bigint", "n": "int"}, time="ts_us"),),
    boxes=(
        Filter(name="big", input="ticks", cases={"yes": "n > 1"}, fragment="first"),
        Map(name="doubled", input="big", columns={"m": "n * 2"}, fragment="second"),
    ),
    outputs=(Output(name="large", input="big"), Output(name="result", input="doubled")),
)
'''

WITH_FUNCTION = '''"""A user's network with a function."""
from medusa_core.network import Function, Network, Output, Source

def doubled(frame):
    return frame.selectExpr("n * 2 AS m", "stime")

network = Network(
    name="mine",
    sources=(Source(name="ticks", columns={"ts_us": "bigint", "n": "int"}, time="ts_us"),),
    boxes=(Function(name="twice", input="ticks", function=doubled, columns={"m": "int"}),),
    outputs=(Output(name="result", input="twice"),),
)
'''

ALPHA = """\
participant: alpha
runs:
  - network: mine.py
    bucket: 10s
    sources: [ticks]
    fragments: [first]
"""
BETA = """\
participant: beta
runs:
  - network: mine.py
    bucket: 10s
    fragments: [second]
"""
READER = '''"""A network that reads what another one writes."""
from medusa_core.network import Filter, Network, Output, Source

network = Network(
    name="reader",
    sources=(Source(name="many", columns={"ts_us": "bigint", "n": "int"}, stream="alpha/large"),),
    boxes=(Filter(name="huge", input="many", cases={"yes": "n > 100"}),),
    outputs=(Output(name="largest", input="huge"),),
)
'''
READS = """\
participant: {name}
runs:
  - network: reader.py
    fragments: [main]
"""
TICKS = """\
stream: ticks
source:
  kind: directory
  path: incoming
"""
FILES = {
    "mine.py": NETWORK,
    "participants/alpha.yaml": ALPHA,
    "participants/beta.yaml": BETA,
    "streams/ticks.yaml": TICKS,
}

COMPUTES = """\
participant: {name}
runs:
  - network: mine.py
    bucket: 10s
    fragments: [{fragments}]
"""
REPLICATED = {
    "mine.py": NETWORK,
    "participants/alpha.yaml": ALPHA.replace("    fragments: [first]\n", ""),
    "participants/beta.yaml": COMPUTES.format(name="beta", fragments="first"),
    "participants/gamma.yaml": COMPUTES.format(name="gamma", fragments="first"),
    "participants/delta.yaml": COMPUTES.format(name="delta", fragments="second"),
    "streams/ticks.yaml": TICKS,
}
"""Alpha lands ticks, beta and gamma compute large of them, delta computes result of that."""


def write_contracts(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    """Write the files into a folder and return it."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def brought_in(snapshot: HomeSnapshot, changes: HomeChanges) -> HomeSnapshot:
    """What stands in a home once the changes are brought in."""
    streams, plans = dict(snapshot.streams), dict(snapshot.plans)
    fragments, log = dict(snapshot.fragments), dict(snapshot.log)
    lines = {(line.stream, line.producer): line for line in snapshot.lines}
    for deployment in changes.deployments:
        streams |= {s.name: s for s in deployment.streams}
        plans[deployment.plan] = PlanRecord(
            id=deployment.plan, network=deployment.network, document=deployment.plan_document
        )
        for name, (inputs, outputs) in deployment.fragments.items():
            fragments[name] = DeployedFragment(
                network=deployment.network,
                inputs=inputs,
                outputs=outputs,
                starts_us=deployment.starts_us.get(name),
            )
        for a in deployment.assignments:
            assert a.epoch == len(log.get(a.fragment, ())) + 1, "epochs follow each other"
            assert a.plan in plans
            log[a.fragment] = (*log.get(a.fragment, ()), a)
            for stream in fragments[a.fragment].outputs:
                lines.setdefault(
                    (stream, a.producer),
                    LineSnapshot(stream=stream, producer=a.producer, boundary_us=None, end_us=None),
                )
    return HomeSnapshot(
        is_made=True,
        streams=streams,
        plans=plans,
        fragments=fragments,
        log=log,
        lines=tuple(lines.values()),
        sources={**snapshot.sources, **changes.sources},
        retentions={
            stream: kept_ms
            for stream, kept_ms in {**snapshot.retentions, **changes.retentions}.items()
            if kept_ms is not None
        },
        verified={
            stream: count
            for stream, count in {**snapshot.verified, **changes.verified}.items()
            if count > 1
        },
        shared=frozenset(
            {pair for pair in snapshot.shared if pair[0] not in changes.recipients}
            | {(stream, name) for stream, names in changes.recipients.items() for name in names}
        ),
        grants=frozenset(
            {
                grant
                for grant in snapshot.grants
                if (grant.stream, grant.reason) not in changes.readers
            }
            | {
                Grant(stream, partner, reason)
                for (stream, reason), partners in changes.readers.items()
                for partner in partners
            }
        ),
        sinks={
            key: text
            for key, text in {**snapshot.sinks, **changes.sinks}.items()
            if text is not None
        },
        clock_ms=1_000_000,
    )


def trimmed(snapshot: HomeSnapshot, stream: str, trimmed_us: int) -> HomeSnapshot:
    """The home, when a stream is trimmed before an event time in it."""
    lines = tuple(
        replace(line, trimmed_us=trimmed_us) if line.stream == stream else line
        for line in snapshot.lines
    )
    return replace(snapshot, lines=lines)


def reached(
    snapshot: HomeSnapshot, stream: str, boundary_us: int, end_us: int | None = None
) -> HomeSnapshot:
    """The home, when a stream has come that far in it."""
    lines = tuple(
        replace(line, boundary_us=boundary_us, end_us=end_us) if line.stream == stream else line
        for line in snapshot.lines
    )
    return replace(snapshot, lines=lines)


def nothing(*names: str) -> dict[Participant, HomeSnapshot]:
    """Homes that were not made yet."""
    return {Participant(name): HomeSnapshot() for name in names}
