"""`medusa replay`: recorded files in, stable outputs out."""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core.errors import CheckFailed, Refused
from medusa_core.grid import parse_duration_us
from medusa_core.knowledge import RECORDS_PER_STEP_MAX, Limits
from medusa_core.names import Participant, PlanId
from medusa_core.network import Network
from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import counted
from pipelines.cli.arguments import add_json, positive
from pipelines.cli.terminal_progress import Progress

if TYPE_CHECKING:
    from pipelines.homes.home import Home
    from pipelines.participant.replay import ReplayOrder, ReplayResult
    from pipelines.quality.sample_check import SampleCheck

SOLO = Participant("solo")
"""The participant of a replay that nobody else takes part in."""


def run_replay(
    settings: Settings,
    *,
    network: str,
    inputs: Sequence[str],
    export: Path | None,
    keep: Path | None,
    bucket: str | None,
    records_per_step_max: int | None,
    unpacked_ratio_max: int | None,
    report: Path | None,
    checks: bool,
    as_json: bool,
) -> int:
    """Run, check a sample of the result and print what was done.

    Raises CheckFailed if the sample does not equal its recomputation; the home is kept then. See
    pipelines.participant.replay for what is refused.
    """
    from pipelines.homes.home import make_home
    from pipelines.language.load import load_network
    from pipelines.participant.replay import ReplayOrder, inputs_of_network, make_folder, replay
    from pipelines.storage.file_limits import UNPACKED_RATIO_MAX, FileLimits

    loaded = load_network(network)
    order = ReplayOrder(
        network=loaded,
        inputs=inputs_of_network(loaded, inputs),
        width_us=parse_duration_us(bucket or loaded.bucket),
        limits=Limits(records_per_step_max=records_per_step_max or RECORDS_PER_STEP_MAX),
        file_limits=FileLimits(unpacked_ratio_max=unpacked_ratio_max or UNPACKED_RATIO_MAX),
    )
    if report is not None:
        make_folder(report.absolute().parent, "--report")
        if report.is_dir():
            raise Refused(f"{report} is a folder: give --report the name of a file")
    progress = Progress()
    with _folder(keep) as directory:
        own = replace(settings, directory=directory)
        with make_home(own, SOLO, keep=keep is not None) as home:
            result = replay(order, home, export, say=progress)
            progress.end()
            checked = None
            if checks:
                result, checked = _checked(home, result, loaded)
            if report is not None:
                write_report(home, order, result, report)
            if as_json:
                document = {**result.document(), "checked": checked and checked.document()}
                print(json.dumps(document, indent=1))
            else:
                print(summary(result, keep, checked))
            if checked is not None and checked.mismatches:
                raise CheckFailed(
                    f"{checked.mismatches[0].sentence}; what was computed is kept in {directory}: "
                    "report it with the network and its input"
                )
    return 0


def _checked(
    home: Home, result: ReplayResult, network: Network
) -> tuple[ReplayResult, SampleCheck]:
    """A sample of the outputs, compared with a recomputation; its time counts as the replay's."""
    from pipelines.quality.sample_check import check_sample

    began_s = clock.monotonic_s()
    checked = check_sample(home, network, PlanId(result.plan))
    took_s = clock.monotonic_s() - began_s
    seconds = {**result.seconds, "check": took_s, "total": result.seconds["total"] + took_s}
    return replace(result, seconds=seconds), checked


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
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


def write_report(home: Home, order: ReplayOrder, result: ReplayResult, path: Path) -> None:
    """The HTML report of a replay."""
    from pipelines.report.page import write_page

    write_page(path, home=home, network=order.network, result=result.document())


def summary(result: ReplayResult, keep: Path | None, checked: SampleCheck | None) -> str:
    """What was done, for a terminal."""
    from pipelines.report.next_steps import next_commands

    document = result.document()
    rows = [
        (name, f["rows"], f["buckets"], f["segments"]) for name, f in document["streams"].items()
    ]
    lines = [
        table(("stream", "rows", "non-empty buckets", "segments"), rows),
        "",
    ]
    jobs = counted(document["spark_jobs"], "Spark job")
    if result.verification_jobs:
        jobs += f" and {result.verification_jobs} of verification"
    lines.append(
        f"{counted(document['steps'], 'step')}, {jobs}, step p50 "
        f"{document['step_ms_p50']:.0f} ms, {document['seconds']['total']:.1f} s in all"
    )
    if result.steps_resumed:
        lines.append(f"went on after {result.steps_resumed} commits of an earlier run")
    if result.quarantined:
        kept = "" if keep else "; --keep DIR keeps them to be looked at"
        lines.append(f"{result.quarantined:,} records in quarantine{kept}")
    lines += [f"warning: {difference}" for difference in result.differences]
    if keep is not None:
        stream = next(iter(result.exported), None) or next(iter(result.streams))
        commands = next_commands(keep, stream=stream, has_quarantine=bool(result.quarantined))
        lines += ["", *commands, ""]
    if checked is not None and not checked.mismatches:
        lines.append(checked.sentence)
    return "\n".join(lines)


HELP = "run a network over recorded files to the end"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa replay`."""
    shipped = "netmon, netmon3, road_sensors, trade_bars or a file with a value named `network`"
    parser.add_argument("network", metavar="NETWORK", help=shipped)
    parser.add_argument(
        "--input",
        action="append",
        nargs="+",
        required=True,
        metavar="[STREAM=]FILE",
        help="CSV or Parquet, gzip or not; STREAM= where there are several sources",
    )
    parser.add_argument("--export", type=Path, metavar="DIR", help="write outputs as CSV there")
    kept = "keep catalog and storage there; the same call goes on from the last commit"
    parser.add_argument("--keep", type=Path, metavar="DIR", help=kept)
    parser.add_argument("--bucket", metavar="WIDTH", help="bucket width, such as 10s")
    parser.add_argument("--records-per-step-max", type=positive, default=None, metavar="N")
    unpacked = "how many times its size an input file may unpack to (default: 200)"
    parser.add_argument("--unpacked-ratio-max", type=positive, metavar="N", help=unpacked)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write an HTML report there")
    unchecked = "do not check a sample of the result by an independent recomputation"
    parser.add_argument("--no-check", action="store_true", help=unchecked)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run the network over the files and print what was done."""
    return run_replay(
        settings,
        network=options.network,
        inputs=[word for words in options.input for word in words],
        export=options.export,
        keep=options.keep,
        bucket=options.bucket,
        records_per_step_max=options.records_per_step_max,
        unpacked_ratio_max=options.unpacked_ratio_max,
        report=options.report,
        checks=not options.no_check,
        as_json=options.json,
    )
