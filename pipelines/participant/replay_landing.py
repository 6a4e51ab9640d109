"""Landing of the sources of a replay, at the same time as steps over what has landed.

All files of a replay are one finite set, so that nothing in it is late: a source promises its end
once all its files have landed. Where the statistics of the files that follow say that they have no
earlier records, it promises as far as that before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.commits import Lease, LeaseKey, QuarantinedRecord
from medusa_core.errors import Refused
from medusa_core.fragments import landing_fragment
from medusa_core.grid import FOREVER_US, ceil_us, floor_us
from medusa_core.names import StreamName
from medusa_core.network import Source
from medusa_core.segments import Producer
from medusa_core.suggest import counted
from pipelines.catalog.processing_roles import LandedFiles, Landing
from pipelines.homes.home import Home
from pipelines.homes.lease_renewer import LeaseRenewer
from pipelines.participant.replay_order import ReplayOrder, Say
from pipelines.sources.landing import landed_batch, log_batch
from pipelines.sources.recorded.earliest_times import earliest_time
from pipelines.sources.recorded.reader import Chunk, check_named_once, read_recorded_file
from pipelines.storage.arrow_schema import STIME, columns_of

HISTORY = "history"
"""The query under which the kept history of a stream lands."""


class LandingCatalog(Landing, LandedFiles, Protocol):
    """Where records land, and which have landed."""


class ReplayLanding:
    """Lands the records of all sources in a thread of its own, between enter and exit.

    What has landed before, in the same home, is left out.
    """

    def __init__(
        self, order: ReplayOrder, home: Home, leases: LeaseRenewer, producer: Producer, say: Say
    ) -> None:
        self._order, self._home, self._leases, self._say = order, home, leases, say
        self._producer = producer
        self._catalog: LandingCatalog = home.catalog
        self._landed = 0
        self._has_promised, self._is_left = Event(), Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="medusa-landing")
        self._all: Future[None] | None = None

    def __enter__(self) -> ReplayLanding:
        self._all = self._pool.submit(self._land_all)
        self._all.add_done_callback(lambda _: self._has_promised.set())
        return self

    def __exit__(self, *error: object) -> None:
        self._is_left.set()
        self._pool.shutdown()

    def promises(self) -> Iterator[int]:
        """How many records have landed, each time a source has promised something, and at the end.

        Raises what landing raises: Refused for bad input, Unavailable if a part is missing.
        """
        assert self._all is not None, "it lands between enter and exit"
        is_over = False
        while not is_over:
            self._has_promised.wait()
            self._has_promised.clear()
            is_over = self._all.done()
            if is_over:
                self._all.result()
            yield self._landed

    def _land_all(self) -> None:
        for source in self._order.network.sources:
            stream = StreamName(source.name)
            if stream in self._order.histories:
                self._land_history(stream)
            else:
                self._land_files(source, stream)
            if self._is_left.is_set():
                return
            self._promise_end(stream)

    def _land_files(self, source: Source, stream: StreamName) -> None:
        """Land the files of one source, those parts that have not landed yet."""
        order, files = self._order, self._order.inputs[stream]
        check_named_once(files)
        following = _earliest_behind(source, files)
        promised_us: int | None = None
        unpromised = 0
        for at, file in enumerate(files):
            query_id = f"recorded-{at}"
            batches = self._catalog.landed_batches(stream, query_id)
            self._landed += sum(batches.values())
            chunks = read_recorded_file(
                source, file, chunk_records=order.chunk_records, skip=len(batches),
                limits=order.file_limits,
            )  # fmt: skip
            for chunk in chunks:
                if self._is_left.is_set():
                    return
                _check_times(chunk, promised_us)
                self._land(stream, query_id, chunk.index, chunk.records, chunk.quarantined)
                unpromised += chunk.records.num_rows
            behind_us = following[at]
            is_enough = unpromised >= order.limits.records_per_step_max
            if is_enough and behind_us is not None and file is not files[-1]:
                promised_us, unpromised = self._promise(stream, behind_us), 0

    def _land(
        self, stream: StreamName, query_id: str, index: int, records: pa.Table,
        quarantined: tuple[QuarantinedRecord, ...] = (),
    ) -> None:  # fmt: skip
        columns = columns_of(f"source {stream!r}", self._order.network.source(stream).columns)
        batch = landed_batch(
            self._home.storage, stream, query_id, index, records, columns, self._order.width_us,
            quarantined,
        )  # fmt: skip
        log_batch(self._catalog, self._lease(stream), batch)
        self._landed += records.num_rows
        self._say(f"landed {self._landed:,} records, the last of {stream}")

    def _land_history(self, stream: StreamName) -> None:
        """Land the kept history of a stream, those parts that have not landed yet."""
        order, history = self._order, self._order.histories[stream]
        batches = self._catalog.landed_batches(stream, HISTORY)
        self._landed += sum(batches.values())
        if history.gaps:
            gaps = counted(history.gaps, "gap")
            self._say(f"stream {history.stream} has {gaps}: rows there are lost")
        for at, records in enumerate(history.tables(order.chunk_records)):
            if self._is_left.is_set():
                return
            if at not in batches:
                self._land(stream, HISTORY, at, records)

    def _promise(self, stream: StreamName, behind_us: int) -> int | None:
        """Promise that no earlier record follows; the boundary, or None if there is none yet.

        It is before the last bucket that has a record now, because all that follows may be
        quarantined, and after the first, with which the stream begins.
        """
        origin_us, end_us = _extent(self._catalog, stream, self._order.width_us)
        boundary_us = min(behind_us, end_us - self._order.width_us)
        if boundary_us <= origin_us:
            return None
        self._catalog.promise(
            self._lease(stream), stream, origin_us=origin_us, boundary_us=boundary_us, end_us=None
        )
        self._has_promised.set()
        return boundary_us

    def _promise_end(self, stream: StreamName) -> None:
        """Say that all of a stream has landed."""
        origin_us, end_us = _extent(self._catalog, stream, self._order.width_us)
        self._catalog.promise(
            self._lease(stream), stream, origin_us=origin_us, boundary_us=FOREVER_US, end_us=end_us
        )
        self._has_promised.set()

    def _lease(self, stream: StreamName) -> Lease:
        key = LeaseKey(fragment=landing_fragment(stream), producer=self._producer)
        return self._leases.lease(key)


def _earliest_behind(source: Source, files: Sequence[Path]) -> list[int | None]:
    """For each file the least event time of those behind it; None if that is not known."""
    earliest: list[int | None] = [FOREVER_US]
    for file in reversed(files[1:]):
        last_us = earliest[-1]
        own_us = None if last_us is None else earliest_time(source, file)
        earliest.append(None if last_us is None or own_us is None else min(last_us, own_us))
    return earliest[::-1]


def _check_times(chunk: Chunk, promised_us: int | None) -> None:
    least_us = pc.min(chunk.records[STIME]).as_py()
    if promised_us is not None and least_us is not None and least_us < promised_us:
        raise Refused(
            f"{chunk.file} has a record at {least_us} us, earlier than its statistics allow (no "
            f"record before {promised_us} us): write the file again"
        )


def _extent(catalog: Landing, stream: StreamName, width_us: int) -> tuple[int, int]:
    """Start of the first and end of the last bucket that has landed records; one bucket if none."""
    starts = catalog.landed_extent(stream)
    if starts is None:
        return 0, width_us
    return floor_us(starts[0], width_us), ceil_us(starts[1] + 1, width_us)
