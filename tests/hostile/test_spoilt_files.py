"""Every file that a command reads, spoilt by chance: an answer or one sentence, never exit code 70.

The short run is part of the suite; `make fuzz` goes on for MEDUSA_FUZZ_SECONDS.
"""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, seed, settings

from medusa_core.bound_headroom import Headroom
from medusa_core.columns import declare_columns
from medusa_core.grid import Range
from medusa_core.names import Participant, PlanId, StreamName, Version
from medusa_core.plans import network_document
from medusa_core.segments import Producer, Segment, SegmentFile, Stability
from medusa_core.step_costs import Cost
from pipelines.catalog.records import StreamRecord
from pipelines.cli.status_text import status_text
from pipelines.exchange.contents import FileContents
from pipelines.homes.deployed_fragments import network_in
from pipelines.homes.headroom_file import HeadroomFile, read_headroom
from pipelines.homes.home import RECORD
from pipelines.language.load import load_network
from pipelines.platform.drills.link_faults import (
    FILE,
    NOTHING,
    Lost,
    Slow,
    document_of,
    read_faults,
    write_faults,
)
from pipelines.sinks.folder_target import RECORD as SINK_RECORD
from pipelines.sinks.folder_target import FolderTarget
from pipelines.sinks.sink_declaration import FolderSink, Pace
from pipelines.sinks.target import Owner, TargetRecord
from pipelines.sources.live.live_source import Polled
from pipelines.storage.arrow_schema import file_schema
from pipelines.storage.segment_files import read_rows
from pipelines.watching.alarms import Alarms, alarm_facts
from pipelines.watching.backlog import BacklogFile, backlog_facts
from tests.cli.watched import Watched
from tests.federation.building import write_replicated
from tests.hostile.conftest import Ended
from tests.hostile.fuzzing import Target, feed, odd_documents, spoilt
from tests.hostile.judging import a_sentence, fit_for_a_terminal, in_time
from tests.sweeps import examples, long_but

EXAMPLES, READER_EXAMPLES = examples(2, 15), examples(10, 100)
EXAMPLES_AT_ONCE = 200
SECONDS_MAX = 300
NESTED = b"[" * 100_000
LOOKS: Sequence[Sequence[str]] = (
    ("status",), ("streams", "--json"), ("read", "src"), ("cursor", "list"),
    ("trim", "--orphans", "--explain"), ("completion", "--words", "medusa", "read", ""),
)  # fmt: skip


@dataclass(frozen=True)
class Spoiling:
    """What is fed with spoilt content, and what it is spoilt from."""

    target: Target
    seeds: tuple[bytes, ...]


def fuzz(spoiling: Spoiling, count: int, number: int | None = None) -> None:
    """Feed spoilt content; with a number other content than without."""

    @settings(
        max_examples=count, deadline=None, database=None, print_blob=True,
        derandomize=number is None, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(data=spoilt((*spoiling.seeds, NESTED)))
    def once(data: bytes) -> None:
        feed(spoiling.target, data)

    for data in (*spoiling.seeds, b"", NESTED):
        feed(spoiling.target, data)
    (once if number is None else seed(number)(once))()


def judged(ended: Ended) -> None:
    """The command has ended with an answer, or with one sentence."""
    assert ended.code in range(7), ended.errors
    if ended.code and ended.errors:
        a_sentence(ended.errors, "^medusa: ", exit_code=ended.code)


@dataclass(frozen=True)
class Folder:
    """Commands on the watched home, and on contracts, with one file of theirs spoilt."""

    homes: Watched
    on: Callable[..., Ended]
    run: Callable[..., Ended]
    tmp_path: Path

    def record(self) -> Spoiling:
        """`home.json`, which every command on a home reads."""
        file = self.homes.settings.directory / RECORD
        whole = file.read_bytes()

        def look(data: bytes) -> None:
            file.write_bytes(data)
            try:
                judged(self.on(*LOOKS[crc32(data) % len(LOOKS)]))
            finally:
                file.write_bytes(whole)

        return Spoiling(look, (whole,))

    def repaired(self) -> Spoiling:
        """The file of repaired records."""
        file = self.tmp_path / "repaired.json"
        assert self.on("quarantine", "export", "src", str(file)).code == 0

        def retry(data: bytes) -> None:
            file.write_bytes(data)
            judged(self.on("quarantine", "retry", "src", str(file), "--explain"))

        return Spoiling(retry, (file.read_bytes(),))

    def contract(self, path: str) -> Spoiling:
        """One of the contracts, or the network that they name."""
        contracts = write_replicated(self.tmp_path / "contracts")
        file = contracts / path
        whole = file.read_bytes()

        def explain(data: bytes) -> None:
            file.write_bytes(data)
            judged(self.run("apply", "--explain", "--contracts", str(contracts)))

        return Spoiling(explain, (whole,))


COLUMNS = declare_columns("stream src", {"host": "string", "port": "int"})
SRC = StreamName("src")


def rows() -> bytes:
    """The file of a segment of `src`."""
    schema = file_schema(COLUMNS)
    values = {"string": ["a", None, "b"], "int32": [1, 2, None], "int64": [0, 0, 0]}
    table = pa.table([pa.array(values[str(f.type)], f.type) for f in schema], schema=schema)
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def file_of(folder: Path, data: bytes) -> SegmentFile:
    """The content as a file of a segment, with its hash."""
    (folder / "segment.parquet").write_bytes(data)
    return SegmentFile(
        path="segment.parquet", size_bytes=len(data), sha256=sha256(data).hexdigest(), rows=3
    )


def segments(folder: Path) -> Spoiling:
    """A file of a segment of this home, as a step reads it."""
    schema = file_schema(COLUMNS)
    return Spoiling(lambda data: read_rows(folder, file_of(folder, data), schema), (rows(),))


class Declared:
    """The lines of a home in which only `src` is declared."""

    def lines(self, stream: StreamName | None = None) -> tuple[Any, ...]:
        columns = {column.name: column.type for column in COLUMNS}
        record = StreamRecord(name=SRC, kind="source", width_us=10, columns=columns)
        return (SimpleNamespace(stream=record),)


def partners_files(folder: Path) -> Spoiling:
    """A file of a partner's segment, as it is looked into before it is imported."""

    def check(data: bytes) -> None:
        segment = Segment(
            stream=SRC, producer=Producer(Participant("beta"), 0), range=Range(0, 10),
            stability=Stability.STABLE, version=Version(1), plan=PlanId("0" * 32),
            files=(file_of(folder, data),),
        )  # fmt: skip
        lines: Any = Declared()
        FileContents(folder, lines).check(SRC, [segment])

    return Spoiling(check, (rows(),))


def plans(folder: Path) -> Spoiling:
    """The document of a plan, which a partner may have written."""
    network = load_network(str(write_replicated(folder / "contracts") / "networks/replicated.py"))
    whole = json.dumps({"network": network_document(network)}).encode()
    return Spoiling(lambda data: network_in(data.decode(errors="replace")), (whole,))


NOW_S = 1_700_000_000.0
ALPHA, BETA = Participant("alpha"), Participant("beta")


def injected_faults(folder: Folder) -> Spoiling:
    """The injected faults of links, which commands and clients of exchanges read."""
    faults = NOTHING.with_lost(Lost(ALPHA, BETA, NOW_S)).with_slow(Slow(ALPHA, BETA, 5, NOW_S))
    write_faults(folder.tmp_path, faults.with_packets(Lost(BETA, ALPHA)))
    file = folder.tmp_path / FILE

    def read(data: bytes) -> None:
        file.write_bytes(data)
        document_of(read_faults(file).at(NOW_S))

    return Spoiling(read, (file.read_bytes(),))


def logs_of_driver(folder: Folder, name: str, facts: str, shown: str) -> Spoiling:
    """One of the files that a driver leaves for `medusa status`, which shows it as `facts`."""
    (status,) = json.loads(folder.on("status", "--json").output)["homes"]
    reads: Mapping[str, Callable[[], Sequence[Mapping[str, Any]]]] = {
        "alarms": lambda: alarm_facts(folder.tmp_path, ALPHA, NOW_S),
        "bounds": lambda: read_headroom(folder.tmp_path, ALPHA, NOW_S),
        "sources": lambda: backlog_facts(
            folder.tmp_path, ALPHA, {SRC: '{"kind": "directory"}'}, NOW_S
        ),
    }
    (file,) = (folder.tmp_path / "logs").glob(name)
    assert shown in status_text({**status, facts: reads[facts]()})

    def show(data: bytes) -> None:
        file.write_bytes(data)
        fit_for_a_terminal(status_text({**status, facts: reads[facts]()}))

    return Spoiling(show, (file.read_bytes(),))


def alarms(folder: Folder) -> Spoiling:
    """The alarms of a driver that lives."""
    Alarms(folder.tmp_path, ALPHA).raise_("landing src", "the folder is gone", NOW_S)
    return logs_of_driver(folder, "alpha.alarms.*.json", "alarms", "landing src")


def headroom(folder: Folder) -> Spoiling:
    """What a driver estimates of a bound."""
    found = Headroom(
        fragment="sums", streams=(SRC,), bound_ms=5_000, cost=Cost(step_ms=9_000), rest_ms=1,
        wait_ms=500,
    )  # fmt: skip
    HeadroomFile(folder.tmp_path, ALPHA).write([found], NOW_S)
    return logs_of_driver(folder, "alpha.headroom.json", "bounds", "the bound of 5 s may not")


def backlog(folder: Folder) -> Spoiling:
    """What waits at a source."""
    polled = Polled(waiting_files=7, has_waiting=True, boundary_us=5, because="late", unclaimed=1)
    BacklogFile(folder.tmp_path, ALPHA).record(SRC, polled, NOW_S)
    return logs_of_driver(folder, "alpha.sources.json", "sources", "directory")


def delivered_folder(folder: Folder) -> Spoiling:
    """The record of a sink in the folder that it delivers to."""
    lake = folder.tmp_path / "lake"
    sink = FolderSink(kind="csv", path=lake, formulas="keep", pace=Pace())
    owner = Owner(home="h", participant=ALPHA, stream=SRC, sink="lake")
    record = TargetRecord(owner=owner, through_us=10, rows=0, last=(Range(0, 10), "x"))

    def opened() -> closing[FolderTarget]:
        return closing(FolderTarget(sink, owner, COLUMNS, 10))

    with opened() as target:
        target.begin(record)

    def open_it(data: bytes) -> None:
        (lake / SINK_RECORD).write_bytes(data)
        with opened():
            pass

    return Spoiling(open_it, ((lake / SINK_RECORD).read_bytes(),))


BY_VALUES: Mapping[str, Callable[[Folder], Spoiling]] = {
    "injected faults": injected_faults,
    "alarms": alarms,
    "headroom": headroom,
    "the backlog of sources": backlog,
    "the record of a sink": delivered_folder,
}
BY_COMMANDS: Mapping[str, Callable[[Folder], Spoiling]] = {
    "the record of homes": Folder.record,
    "repaired records": Folder.repaired,
    "a participant's contract": lambda folder: folder.contract("participants/beta.yaml"),
    "a stream's contract": lambda folder: folder.contract("streams/given.yaml"),
    "a network": lambda folder: folder.contract("networks/replicated.py"),
}
BY_READERS: Mapping[str, Callable[[Path], Spoiling]] = {
    "a segment": segments,
    "a partner's segment": partners_files,
    "a plan": plans,
}


@pytest.fixture
def folder(
    homes: Watched, on: Callable[..., Ended], run: Callable[..., Ended], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Folder:  # fmt: skip
    """The watched home."""
    # What a network or a contract names is looked for here, and nowhere else.
    monkeypatch.chdir(tmp_path)
    return Folder(homes, on, run, tmp_path)


@pytest.mark.sweep
@pytest.mark.parametrize("name", long_but(2, BY_COMMANDS))
def test_a_command_on_a_spoilt_file_answers_or_refuses_in_a_sentence(
    name: str, folder: Folder
) -> None:
    fuzz(BY_COMMANDS[name](folder), EXAMPLES)


@pytest.mark.sweep
@pytest.mark.parametrize("name", BY_READERS)
def test_a_reader_of_a_spoilt_file_answers_or_raises_an_error_of_ours(
    name: str, tmp_path: Path
) -> None:
    with in_time(SECONDS_MAX):
        fuzz(BY_READERS[name](tmp_path), READER_EXAMPLES)


@pytest.mark.parametrize("name", BY_VALUES)
def test_a_document_with_any_value_replaced_is_read_or_refused(name: str, folder: Folder) -> None:
    spoiling = BY_VALUES[name](folder)
    for whole in spoiling.seeds:
        spoiling.target(whole)
        for data in odd_documents(whole):
            feed(spoiling.target, data)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", [*BY_COMMANDS, *BY_READERS])
def test_on_spoilt_files_they_go_on_doing_so(name: str, folder: Folder) -> None:
    spoiling = (
        BY_COMMANDS[name](folder) if name in BY_COMMANDS else BY_READERS[name](folder.tmp_path)
    )
    kinds = len(BY_COMMANDS) + len(BY_READERS)
    ends = time.monotonic() + float(os.environ.get("MEDUSA_FUZZ_SECONDS", "600")) / kinds
    number = time.time_ns()
    while time.monotonic() < ends:
        number += 1
        fuzz(spoiling, EXAMPLES_AT_ONCE, number)
