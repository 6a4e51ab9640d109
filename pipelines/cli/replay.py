"""`medusa replay`: recorded files, or the kept history of streams, in; stable outputs out."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.cli.arguments import add_home, add_json, event_times, positive
from pipelines.cli.terminal_progress import Progress

if TYPE_CHECKING:
    from pipelines.operations.recorded_replay import CheckedReplay, ReplayRequest

HELP = "run a network over recorded files, or over kept streams, to the end"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa replay`."""
    shipped = "netmon, netmon3, road_sensors, trade_bars or a network file, Python or SQL"
    parser.add_argument("network", metavar="NETWORK", help=shipped)
    parser.add_argument(
        "--input",
        action="append",
        nargs="+",
        default=[],
        metavar="[STREAM=]FILE",
        help="CSV, JSON lines, Zeek (gzip or not) or Parquet; STREAM= if there are several sources",
    )
    add_history(parser)
    add_home(parser)
    parser.add_argument("--export", type=Path, metavar="DIR", help="write outputs as CSV there")
    kept = "keep catalog and storage there; the same command continues after the last commit"
    parser.add_argument("--keep", type=Path, metavar="DIR", help=kept)
    parser.add_argument("--bucket", metavar="WIDTH", help="bucket width, such as 10s")
    step = "how many records a step reads at most"
    parser.add_argument("--records-per-step-max", type=positive, metavar="N", help=step)
    unpacked = "how many times its size an input file may unpack to (default: 200)"
    parser.add_argument("--unpacked-ratio-max", type=positive, metavar="N", help=unpacked)
    parser.add_argument("--report", type=Path, metavar="FILE", help="write an HTML report there")
    unchecked = "do not check a sample of the result by an independent recomputation"
    parser.add_argument("--no-check", action="store_true", help=unchecked)
    add_json(parser)


def add_history(parser: argparse.ArgumentParser) -> None:
    """Declare which part of which streams of a home is read."""
    history = "the final rows of a stream of a home; SOURCE= where there are several sources"
    parser.add_argument(
        "--stream",
        action="append",
        default=[],
        metavar="[SOURCE=]STREAM",
        help=history,
    )
    view = "what a view of the home keeps, in the place of --stream (medusa view)"
    parser.add_argument("--view", action="append", default=[], metavar="[SOURCE=]VIEW", help=view)
    parser.add_argument("--from", dest="from_", metavar="TIME", help="event time of --stream")
    parser.add_argument("--to", metavar="TIME", help="event time of --stream, exclusive")
    past = "--stream or --view at a version, or at an ISO 8601 time by the home's clock"
    parser.add_argument("--as-of", metavar="V|TIME", help=past)


def history_of(options: argparse.Namespace) -> dict[str, Any]:
    """These options as fields of a ReplayRequest; Refused for one that concerns nothing."""
    if not options.stream and (options.from_ or options.to):
        raise Refused("--from and --to are of --stream: name the stream of a home")
    if not options.stream and not options.view and options.as_of:
        raise Refused("--as-of is of --stream and --view: name a stream or a view of a home")
    return {
        "streams": tuple(options.stream),
        "views": tuple(options.view),
        "participant": options.participant,
        "part": event_times(options.from_, options.to),
        "as_of": options.as_of,
    }


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run the network over the files and print what was done."""
    from pipelines.operations.recorded_replay import run_replay

    request = _request(options)
    return followed(options, lambda progress: run_replay(settings, request, progress), options.keep)


def followed(
    options: argparse.Namespace,
    replayed: Callable[[Progress], CheckedReplay],
    keep: Path | None = None,
) -> int:
    """Show the progress of a replay, then its result; raises CheckFailed if its check failed."""
    progress = Progress()
    done = replayed(progress)
    progress.end()
    if options.json:
        checked = None if done.check is None else done.check.document()
        print(json.dumps({**done.result.document(), "checked": checked}, indent=1))
    else:
        print("\n".join(_lines(done, keep)))
    if done.failure is not None:
        raise done.failure
    return 0


def _request(options: argparse.Namespace) -> ReplayRequest:
    from medusa_core.knowledge import RECORDS_PER_STEP_MAX
    from pipelines.operations.recorded_replay import ReplayRequest
    from pipelines.storage.file_limits import UNPACKED_RATIO_MAX

    if not options.input and not options.stream and not options.view:
        raise Refused("give --input FILE, or --stream STREAM or --view VIEW of a home")
    return ReplayRequest(
        network=options.network,
        inputs=tuple(word for words in options.input for word in words),
        export=options.export,
        keep=options.keep,
        bucket=options.bucket,
        records_per_step_max=options.records_per_step_max or RECORDS_PER_STEP_MAX,
        unpacked_ratio_max=options.unpacked_ratio_max or UNPACKED_RATIO_MAX,
        report=options.report,
        checks=not options.no_check,
        **history_of(options),
    )


def _lines(done: CheckedReplay, keep: Path | None) -> Iterator[str]:
    """The result for a terminal."""
    from pipelines.report.next_steps import next_commands

    result, check = done.result, done.check
    document = result.document()
    rows = [
        (name, f["rows"], f["buckets"], f["segments"]) for name, f in document["streams"].items()
    ]
    yield table(("stream", "rows", "non-empty buckets", "segments"), rows)
    yield ""
    steps = f"{counted(document['steps'], 'step')}, {counted(document['spark_jobs'], 'Spark job')}"
    if result.verification_jobs:
        steps += f" and {result.verification_jobs} of verification"
    times = f"p50 {document['step_ms_p50']:.0f} ms, {document['seconds']['total']:.1f} s in all"
    yield f"{steps}, step {times}"
    if result.steps_resumed:
        yield f"continued after {result.steps_resumed} commits of an earlier run"
    if result.quarantined:
        kept = "" if keep else "; --keep DIR keeps them to be looked at"
        yield f"{result.quarantined:,} records in quarantine{kept}"
    if done.warning is not None:
        yield f"warning: {done.warning}"
    yield from (f"warning: {difference}" for difference in result.differences)
    if keep is not None:
        stream = next(iter(result.exported), None) or next(iter(result.streams))
        yield ""
        yield from next_commands(keep, stream=stream, has_quarantine=bool(result.quarantined))
        yield ""
    if check is not None and not check.mismatches:
        yield check.sentence
