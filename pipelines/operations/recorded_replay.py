"""Run a network over recorded files to their end, in a home of its own, and check a sample."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from medusa_core.columns import declare_columns
from medusa_core.errors import CheckFailed, Refused, Unavailable
from medusa_core.grid import Range, parse_duration_us
from medusa_core.knowledge import RECORDS_PER_STEP_MAX, Limits
from medusa_core.names import Participant, PlanId, StreamName
from medusa_core.network import Network
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.homes.home import Home, chosen_participant, make_home, open_home
from pipelines.language.check import check_network
from pipelines.language.load import load_network
from pipelines.participant.kept_history import ALL, KeptHistory, kept_history
from pipelines.participant.replay import (
    ReplayResult,
    Sessions,
    StartingSession,
    make_folder,
    replay,
)
from pipelines.participant.replay_order import (
    ReplayOrder,
    inputs_of_network,
    streams_of_network,
    with_landed_sources,
)
from pipelines.participant.viewed_history import viewed_history
from pipelines.report.page import write_page
from pipelines.storage.file_limits import UNPACKED_RATIO_MAX, FileLimits

if TYPE_CHECKING:
    from pipelines.quality.sample_check import SampleCheck

SOLO = Participant("solo")
"""The participant of a replay that nobody else takes part in."""

QUARANTINED_PART_MAX = 0.1
"""Of all records: with more in quarantine a replay warns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRequest:
    """Which network over which files, or over which streams of a home.

    `network`: the name of a shipped one, or a file that defines one. `inputs`: files, as
    STREAM=FILE where the network has several sources. `streams`: of the home of `participant` (None
    for the only one), as SOURCE=STREAM: their final rows in `part`, `as_of` a version or a time by
    the home's clock. `views`: of the same home, as SOURCE=VIEW. `export`: folder for the outputs as
    CSV.
    `keep`: folder of a home that stays, in which the same request continues after the last commit;
    None for a temporary one. `bucket`: width, None for the network's. `report`: HTML file to write.
    `checks`: recompute a sample of the result by another engine and compare.
    """

    network: str
    inputs: Sequence[str]
    export: Path | None = None
    keep: Path | None = None
    bucket: str | None = None
    records_per_step_max: int = RECORDS_PER_STEP_MAX
    unpacked_ratio_max: int = UNPACKED_RATIO_MAX
    report: Path | None = None
    checks: bool = True
    streams: Sequence[str] = ()
    views: Sequence[str] = ()
    participant: str | None = None
    part: Range = ALL
    as_of: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedReplay:
    """A replay and the check of its sample; `directory` is that of its home.

    `histories` are the streams that sources read in the place of files. `landed` counts the records
    of all sources; `reason` is the most frequent one for which a record is in quarantine.
    """

    result: ReplayResult
    check: SampleCheck | None
    directory: Path
    histories: Mapping[StreamName, KeptHistory]
    landed: int
    reason: str | None = None

    @property
    def warning(self) -> str | None:
        """A sentence about many records in quarantine, if there are many."""
        quarantined = self.result.quarantined
        share = quarantined / max(quarantined + self.landed, 1)
        if share <= QUARANTINED_PART_MAX:
            return None
        return f"{share:.0%} of the records are in quarantine, most of them because: {self.reason}"

    @property
    def failure(self) -> CheckFailed | None:
        """Why there is no result, or a wrong one, and what to do; None if neither."""
        if self.result.quarantined and not self.landed:
            return CheckFailed(
                f"all {self.result.quarantined:,} records are in quarantine, most of them because: "
                f"{self.reason}; they are kept in {self.directory}: correct the network's source, "
                "or the files"
            )
        if self.check is None or not self.check.mismatches:
            return None
        return CheckFailed(
            f"{self.check.mismatches[0].sentence}; what was computed is kept in {self.directory}: "
            "report it with the network and its input"
        )


def run_replay(
    settings: Settings, request: ReplayRequest, progress: Callable[[str], None]
) -> CheckedReplay:
    """Replay and check a sample; `progress` is called with a sentence whenever more is done.

    A home in which the check failed, or in which no record landed, is kept. Raises Refused for a
    network, input or folder that cannot be used; see pipelines.participant.replay.
    """
    loaded = load_network(request.network)
    with _histories(settings, loaded, request) as histories:
        return _run(settings, request, loaded, histories, progress)


def _run(
    settings: Settings,
    request: ReplayRequest,
    loaded: Network,
    histories: Mapping[StreamName, KeptHistory],
    progress: Callable[[str], None],
) -> CheckedReplay:
    network = with_landed_sources(loaded, histories)
    order = ReplayOrder(
        network=network,
        inputs=inputs_of_network(network, request.inputs, histories),
        histories=histories,
        width_us=parse_duration_us(request.bucket or network.bucket),
        limits=Limits(records_per_step_max=request.records_per_step_max),
        file_limits=FileLimits(unpacked_ratio_max=request.unpacked_ratio_max),
    )
    if request.report is not None:
        make_folder(request.report.absolute().parent, "--report")
        if request.report.is_dir():
            raise Refused(f"{request.report} is a folder: give --report the name of a file")
    check_network(network)  # before a home is made and Spark started for it
    done: CheckedReplay | None = None
    try:
        with replay_folder(request.keep) as directory, closing(StartingSession()) as session:
            own, keeps = replace(settings, directory=directory), request.keep is not None
            with make_home(own, SOLO, keep=keeps, meanwhile=session.start) as home:
                done = _replayed(home, order, request, session.of_home, progress)
                if done.failure is not None:
                    raise done.failure
    except CheckFailed:
        if done is None:
            raise
    return done


@contextmanager
def _histories(
    settings: Settings, network: Network, request: ReplayRequest
) -> Iterator[Mapping[StreamName, KeptHistory]]:
    """What each source reads that reads a stream or a view of a home.

    Nothing in the home is changed, but that what a view has is held until the replay has ended.
    """
    streams = streams_of_network(network, request.streams)
    views = streams_of_network(network, request.views, "--view", "VIEW")
    for source in streams.keys() & views.keys():
        raise Refused(
            f"source {source} of network {network.name} is given a stream and a view: give one"
        )
    if not streams and not views:
        yield {}
        return
    participant, reader = chosen_participant(settings, request.participant), uuid4().hex
    try:
        with open_home(settings, participant) as home:
            found = {
                source: kept_history(home, stream, request.part, request.as_of)
                for source, stream in streams.items()
            }
            for source, view in views.items():
                found[source] = viewed_history(home, view, reader, request.as_of)
        _check_columns(network, found)
        yield found
    finally:
        if views:
            # A home that cannot be reached now lets the hold expire.
            with suppress(Unavailable), open_home(settings, participant) as home:
                for view in views.values():
                    home.catalog.close_view(view, reader)


def _check_columns(network: Network, found: Mapping[StreamName, KeptHistory]) -> None:
    for name, history in found.items():
        source = network.source(name)
        declared = declare_columns(f"source {name!r} of network {network.name}", source.columns)
        if declared != history.columns:
            shown, its = (
                ", ".join(f"{c.name} {c.type}" for c in columns)
                for columns in (declared, history.columns)
            )
            raise Refused(
                f"source {name} of network {network.name} has columns ({shown}), and stream "
                f"{history.stream} has ({its}): declare these, in this order"
            )


def _replayed(
    home: Home, order: ReplayOrder, request: ReplayRequest, sessions: Sessions,
    progress: Callable[[str], None],
) -> CheckedReplay:  # fmt: skip
    result, check = replay(order, home, request.export, say=progress, sessions=sessions), None
    if request.checks:
        result, check = _checked(home, result, order.network)
    if request.report is not None:
        write_page(request.report, home=home, network=order.network, result=result.document())
    reasons = home.catalog.quarantine_reasons(limit=1)
    sources = [result.streams.get(source.stream_name, {}) for source in order.network.sources]
    return CheckedReplay(
        result=result,
        check=check,
        directory=home.directory,
        histories=order.histories,
        landed=sum(figures.get("rows", 0) for figures in sources),
        reason=reasons[0].reason if reasons else None,
    )


def _checked(
    home: Home, result: ReplayResult, network: Network
) -> tuple[ReplayResult, SampleCheck]:
    """A sample of the outputs, compared with a recomputation; its time counts as the replay's."""
    from pipelines.quality.sample_check import check_sample

    began_s = clock.monotonic_s()
    check = check_sample(home, network, PlanId(result.plan))
    took_s = clock.monotonic_s() - began_s
    seconds = {**result.seconds, "check": took_s, "total": result.seconds["total"] + took_s}
    return replace(result, seconds=seconds), check


@contextmanager
def replay_folder(keep: Path | None = None) -> Iterator[Path]:
    """The folder to keep, or one that is removed unless a check fails."""
    if keep is not None:
        yield keep.absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="medusa-replay-"))
    # The embedded server may run as another user, who must be able to pass through.
    folder.chmod(0o711)
    is_kept = False
    try:
        yield folder
    except CheckFailed:
        is_kept = True
        raise
    finally:
        if not is_kept:
            shutil.rmtree(folder)
