"""The command line: parse, open, call one function, print, exit code.

Nothing heavy is imported before a command needs it: `medusa --help` knows neither Spark nor Arrow.
Exit codes are those of medusa_core.errors; a fault of ours is 70, one sentence, and a log file that
holds the trace.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from medusa_core.errors import MedusaError, Refused
from pipelines.base.interrupts import interruptible
from pipelines.base.settings import Settings
from pipelines.cli.contract import add_contract_commands
from pipelines.cli.usage import UsageParser

BUG, INTERRUPTED = 70, 130
Command = Callable[[argparse.Namespace, Settings], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    # Libraries that log an interrupted call would print its trace; we say it in a sentence.
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        with interruptible():
            options = parser().parse_args(arguments)
            settings = Settings.from_environment(os.environ)
            command: Command = options.command
            return command(options, settings)
    except MedusaError as error:
        print(f"medusa: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("medusa: interrupted; what was committed stays", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone (`| head`): not an error, and nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        print(f"medusa: {_bug(error)}", file=sys.stderr)
        return BUG


def _bug(error: Exception) -> str:
    with tempfile.NamedTemporaryFile(
        "w", prefix="medusa-", suffix=".log", delete=False, encoding="utf-8"
    ) as log:
        traceback.print_exception(error, file=log)
    return f"a fault of Medusa's own ({type(error).__name__}); the trace is in {log.name}"


def parser() -> UsageParser:
    """All commands and their options."""
    top = UsageParser(
        prog="medusa",
        description="Federated, fault-tolerant stream processing: an answer in time, and the right "
        "answer in the end.",
        epilog="MEDUSA_DIR (default .medusa) holds catalog, storage, logs and reports; "
        "MEDUSA_CATALOG_URL names another Postgres.",
    )
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def add(name: str, command: Command, text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = commands.add_parser(name, help=text, description=text)
        added.set_defaults(command=command)
        return added

    added = add("demo", _demo, "a replay that is checked, a partner that is cut off and comes back")
    added.add_argument("--records", type=_positive, default=200_000, help="how many to generate")
    added.add_argument("--seed", type=int, default=1)
    scene = "only one of the two (default: both)"
    added.add_argument("--scene", choices=("replay", "federation"), help=scene)

    added = add("replay", _replay, "run a network over recorded files to the end")
    shipped = "netmon, netmon3, road_sensors, trade_bars or a file with a value named `network`"
    added.add_argument("network", metavar="NETWORK", help=shipped)
    added.add_argument(
        "--input",
        action="append",
        nargs="+",
        required=True,
        metavar="[STREAM=]FILE",
        help="CSV or Parquet, gzip or not; STREAM= where there are several sources",
    )
    added.add_argument("--export", type=Path, metavar="DIR", help="write outputs as CSV there")
    kept = "keep catalog and storage there; the same call goes on from the last commit"
    added.add_argument("--keep", type=Path, metavar="DIR", help=kept)
    added.add_argument("--bucket", metavar="WIDTH", help="bucket width, such as 10s")
    added.add_argument("--records-per-step-max", type=_positive, default=None, metavar="N")
    unpacked = "how many times its size an input file may unpack to (default: 200)"
    added.add_argument("--unpacked-ratio-max", type=_positive, metavar="N", help=unpacked)
    added.add_argument("--report", type=Path, metavar="FILE", help="write an HTML report there")
    unchecked = "do not check a sample of the result by an independent recomputation"
    added.add_argument("--no-check", action="store_true", help=unchecked)
    _json(added)

    added = add("generate", _generate, "write generated connections for netmon")
    added.add_argument("directory", type=Path, metavar="DIR")
    added.add_argument("--records", type=_positive, default=200_000)
    added.add_argument("--seed", type=int, default=1)
    added.add_argument("--files", type=_positive, default=1)
    added.add_argument("--format", choices=("csv", "parquet"), default="csv")

    added = add("streams", _streams, "the streams of a home and how far each has come")
    _home(added)
    _json(added)

    added = add("read", _read, "rows of a stream, final ones, in event-time order")
    added.add_argument("stream", metavar="STREAM", nargs="?")
    added.add_argument("--from", dest="from_", metavar="TIME", help="ISO 8601 or Unix seconds")
    added.add_argument("--to", metavar="TIME", help="event time, exclusive")
    past = "a version, or an ISO 8601 time by the home's clock: what was there then"
    added.add_argument("--as-of", metavar="V|TIME", help=past)
    marks = "all: tentative rows too, with their marks (default: stable)"
    added.add_argument("--stability", choices=("stable", "all"), default="stable", help=marks)
    added.add_argument("--limit", type=_positive, default=20, metavar="N")
    added.add_argument("--quarantine", action="store_true", help="the records put aside, instead")
    _home(added)
    _json(added)

    added = add("changes", _changes, "what changed of a stream since a version, row by row")
    added.add_argument("stream", metavar="STREAM")
    since = "after which version (0: all), or the position that an answer named"
    added.add_argument("--since", metavar="V", help=since)
    added.add_argument("--until", metavar="V", help="up to which version (default: the newest)")
    kept = "after what this cursor was moved to; a new one is placed"
    added.add_argument("--cursor", metavar="NAME", help=kept)
    begins = "buckets from this event time on; of a new cursor origin (default), now or a time"
    added.add_argument("--from", dest="from_", metavar="TIME", help=begins)
    added.add_argument("--to", metavar="TIME", help="buckets before this event time")
    rows = "about so many rows, in whole versions (default: 10000)"
    added.add_argument("--limit", type=_positive, default=10_000, metavar="N", help=rows)
    _hold(added)
    _home(added)
    _json(added)

    added = add("cursor", _cursor, "the cursors of consumers: list, move, drop")
    added.add_argument("what", choices=("list", "move", "drop"))
    added.add_argument("stream", metavar="STREAM", nargs="?")
    added.add_argument("name", metavar="NAME", nargs="?")
    applied = "the version up to which changes are applied, or the position of that answer"
    added.add_argument("--to", metavar="V", help=applied)
    _hold(added)
    _home(added)
    _json(added)

    added = add("quarantine", _quarantine, "records put aside: export them, hand in repaired ones")
    what = "write them as JSON lines, or land those whose values were given"
    added.add_argument("what", choices=("export", "retry"), help=what)
    added.add_argument("stream", metavar="STREAM", help="of which source")
    added.add_argument("file", type=Path, metavar="FILE", help="written anew, or as it was edited")
    added.add_argument("--explain", action="store_true", help="tell what would land")
    _home(added)
    _json(added)

    added = add("status", _status, "how homes stand: leases, streams, what would be done next")
    every = "again and again, every so many seconds (default: 2)"
    added.add_argument(
        "--watch", nargs="?", type=_seconds, const=2.0, metavar="SECONDS", help=every
    )
    _home(added, "whose home (default: all in MEDUSA_DIR)")
    _json(added)

    added = add("run", _run, "run a participant: land, import, compute, until told to stop")
    added.add_argument("--until-ended", action="store_true", help="stop when all has ended")
    standby = (
        "wait, warmed up, for as long as another driver runs it, and take over when it is gone"
    )
    added.add_argument("--standby", action="store_true", help=standby)
    lane = "backlog: only correct what is owed, beside the live driver, and end (default: live)"
    added.add_argument("--lane", choices=("live", "backlog"), default="live", help=lane)
    _running(added)

    added = add("job", _job, "say which participants' jobs shall run, and see what became of them")
    what = "start: it shall run, stop: it shall not, or list"
    added.add_argument("what", choices=("start", "stop", "list"), metavar="WHAT", help=what)
    added.add_argument("names", nargs="*", metavar="P", help="which participants (default: all)")
    lane = "live, or backlog: correct what is owed beside it, and end (default: live)"
    added.add_argument("--lane", choices=("live", "backlog"), default="live", help=lane)
    done = "it is done when all has ended, and is not started again"
    added.add_argument("--until-ended", action="store_true", help=done)
    added.add_argument("--because", metavar="TEXT", help="why, in a sentence; it is kept")
    _json(added)

    added = add("supervise", _supervise, "start and stop jobs as they are desired, until told")
    added.add_argument("--once", action="store_true", help="look once, and end; jobs go on")
    every = "how often it looks (default: 5)"
    added.add_argument("--every", type=_seconds, metavar="SECONDS", help=every)
    lease = "how long the leases of jobs last (default: 10)"
    added.add_argument("--lease", type=_seconds, metavar="SECONDS", help=lease)
    added.add_argument("--explain", action="store_true", help="tell what would be done now")
    _home(added, "only this one (default: all in MEDUSA_DIR)")
    _json(added)

    added = add("tick", _tick, "one turn of a participant: land, import, decide, apply")
    _running(added)
    _json(added)

    added = add("apply", _apply, "bring the contracts into the catalogs of the homes")
    contracts = "participants/*.yaml and streams/*.yaml are read there (default: contracts)"
    added.add_argument(
        "--contracts", type=Path, default=Path("contracts"), metavar="DIR", help=contracts
    )
    added.add_argument("--participant", metavar="P", help="only this one's home (default: all)")
    begins = "at which bucket the new plan of a changed network begins: ISO 8601, or now"
    added.add_argument("--from", dest="from_", metavar="BUCKET", help=begins)
    added.add_argument("--explain", action="store_true", help="print the plan, change nothing")
    _json(added)

    added = add("simulate", _simulate, "run seeded faults, or markets, and check the laws")
    added.add_argument("what", choices=("faults", "market"), metavar="faults|market")
    added.add_argument("--schedules", type=_positive, metavar="N", help="of faults (default: 100)")
    first = "the first schedule's or world's (default: 1)"
    added.add_argument("--seed", type=int, default=1, help=first)
    short = "short schedules in which trims, reads and kills come between each other"
    of_kind = added.add_mutually_exclusive_group()
    of_kind.add_argument("--trims", action="store_true", help=short)
    several = "those alone in which fragments have several owners (default: one of four)"
    of_kind.add_argument("--replicas", action="store_true", help=several)
    traded = "those alone in which load is traded (default: three of twenty)"
    of_kind.add_argument("--markets", action="store_true", help=traded)
    jobs = "in how many processes at once (default: one for each CPU)"
    added.add_argument("--jobs", type=_positive, metavar="N", help=jobs)
    kept = "keep what is done there; the same call goes on with it"
    added.add_argument("--resume", type=Path, metavar="FILE", help=kept)
    shown = added.add_mutually_exclusive_group()
    shown.add_argument("--explain", action="store_true", help="print a line for each event")
    _json(shown)
    market = added.add_argument_group("a market (default: the matrix of all that are compared)")
    market.add_argument("--participants", type=int, metavar="N", help="how many (default: 995)")
    market.add_argument("--contracts", type=int, metavar="N", help="each has so many at least")
    levels = "price levels above the lowest; each is worth one fragment"
    market.add_argument("--levels", type=int, metavar="N", help=levels)
    share = "the total load as a share of all thresholds"
    market.add_argument("--utilisation", type=float, metavar="SHARE", help=share)
    market.add_argument("--load", metavar="uniform|pareto", help="how it is spread at first")
    units = "fragments that make up a threshold (default: 80)"
    market.add_argument("--fragments", type=int, metavar="N", help=units)
    scheme = "only this one, such as bounded or plain; may be repeated"
    market.add_argument("--scheme", action="append", metavar="NAME", help=scheme)
    market.add_argument("--seeds", type=int, metavar="N", help="how many worlds of each kind")

    added = add("fault", _fault, "drills: cut and slow down links, kill and freeze participants")
    verbs = ("cut", "slow", "heal", "kill", "freeze", "list")
    what = "cut A B, slow A B, heal [A [B]], kill P, freeze P, or list what is wrong and who runs"
    added.add_argument("what", choices=verbs, metavar="WHAT", help=what)
    added.add_argument("names", nargs="*", metavar="P", help="which participants")
    lasts = "how long, such as 10s; it ends by itself (default: until it is healed)"
    added.add_argument("--for", dest="for_", metavar="DURATION", help=lasts)
    added.add_argument("--one-way", action="store_true", help="only what A sends to B is lost")
    added.add_argument("--by", metavar="DURATION", help="how much longer each call takes")
    added.add_argument("--explain", action="store_true", help="tell what would be done")
    _json(added)

    added = add("deliver", _deliver, "deliver what there is now to the sinks of a home, once")
    added.add_argument("--stream", metavar="STREAM", help="only its sinks (default: all)")
    added.add_argument("--sink", metavar="NAME", help="only the sink of this name")
    target = added.add_argument_group("a sink of a home without contracts")
    target.add_argument("--parquet", type=Path, metavar="DIR", help="Parquet files there")
    target.add_argument("--csv", type=Path, metavar="DIR", help="CSV files there")
    named = "a table there; write what is secret as '${NAME}', a variable of the environment"
    target.add_argument("--postgres", metavar="URL", help=named)
    target.add_argument("--table", metavar="SCHEMA.TABLE", help="which; it is made if need be")
    unique = "columns by which its rows are replaced (default: the stream's key)"
    target.add_argument("--key", metavar="COLUMN,…", help=unique)
    begins = "event time to begin at: origin (default), now, or ISO 8601"
    target.add_argument("--from", dest="from_", metavar="TIME", help=begins)
    target.add_argument("--withdraw", action="store_true", help="deliver there no more, instead")
    _home(added)
    _json(added)

    added = add("trim", _trim, "let go of what nobody needs, compact files, remove orphans")
    added.add_argument("streams", metavar="STREAM", nargs="*", help="which (default: all)")
    until = added.add_mutually_exclusive_group()
    keep = "event time to keep behind the end of what is stable, such as 7d (default: as declared)"
    until.add_argument("--keep", metavar="DURATION", help=keep)
    until.add_argument("--before", metavar="TIME", help="event time: ISO 8601 or Unix seconds")
    added.add_argument("--compact", action="store_true", help="make one file of many small ones")
    added.add_argument("--orphans", action="store_true", help="remove files that nothing names")
    grace = "how old an orphan is at least (default: 1h)"
    added.add_argument("--grace", metavar="DURATION", help=grace)
    added.add_argument("--explain", action="store_true", help="print it all, change nothing")
    _home(added)
    _json(added)

    added = add("recall", _recall, "take back what is final of a stream, with all that it led to")
    added.add_argument("stream", metavar="STREAM", help="which")
    begins = "from which bucket on: ISO 8601 or Unix seconds"
    added.add_argument("--from", dest="from_", metavar="TIME", required=True, help=begins)
    why = "why, in a sentence; it is kept, and told to those who read the stream"
    added.add_argument("--because", metavar="TEXT", help=why)
    partner = "agree to what this partner recalled of it, and go on reading behind"
    added.add_argument("--follow", metavar="P", help=partner)
    added.add_argument("--yes", action="store_true", help="do not ask")
    added.add_argument("--explain", action="store_true", help="print what would go, change nothing")
    _home(added)
    _json(added)

    added = add("explain", _explain, "why it is so: where producers of a stream disagree")
    added.add_argument("what", choices=("diverged",), metavar="diverged")
    added.add_argument("stream", metavar="STREAM", nargs="?", help="only of this stream")
    _home(added)
    _json(added)

    added = add("quality", _quality, "check closed windows against the laws, write certificates")
    added.add_argument("what", choices=("run",), metavar="run")
    added.add_argument("stream", metavar="STREAM", nargs="?", help="which (default: all)")
    begins = "where the window begins, a bucket: ISO 8601 or Unix seconds (default: all kept)"
    added.add_argument("--from", dest="from_", metavar="TIME", help=begins)
    ends = "where it ends, exclusive (default: as far as it is closed)"
    added.add_argument("--to", metavar="TIME", help=ends)
    modes = ("lose-row", "duplicate-row", "change-value", "change-type", "skip-correction",
             "boundary-back", "late")  # fmt: skip
    breaks = f"break a copy of it first, to see the check fail: {', '.join(modes)}"
    added.add_argument("--break", dest="break_mode", choices=modes, metavar="MODE", help=breaks)
    page = "write a page there: how late answers came, what was tentative and corrected"
    added.add_argument("--report", type=Path, metavar="FILE", help=page)
    _home(added)
    _json(added)

    text = "contracts between participants: check them, ask what-if, export what a stream promises"
    add_contract_commands(commands.add_parser("contract", help=text, description=text))

    added = add("round", _round, "a round of the market now: offer load, answer partners' offers")
    added.add_argument(
        "--explain", action="store_true", help="print what would be decided, change nothing"
    )
    _home(added, "who (default: the only one)")
    _json(added)

    added = add("migrate", _migrate, "bring a catalog to this version's schema")
    _home(added)

    added = add("init", _init, "write a small project of your own that runs")
    folder = "a new folder, or one that has none of the files (default: this one)"
    added.add_argument("directory", type=Path, nargs="?", metavar="DIR", help=folder)
    named = "what the network and the participant are called (default: as the folder is)"
    added.add_argument("--name", metavar="NAME", help=named)

    added = add("completion", _completion, "print the completion script of a shell")
    shells = ("bash", "zsh", "fish")
    added.add_argument("shell", nargs="?", choices=shells, metavar="SHELL", help=", ".join(shells))
    added.add_argument("--words", nargs="*", help=argparse.SUPPRESS)

    added = add("up", _up, "start Airflow and a database, and keep them running")
    port = "of Airflow's pages and API (default: as before, at first 8080)"
    added.add_argument("--port", type=_port, metavar="N", help=port)
    host = "the address they listen on (default: as before, at first 127.0.0.1)"
    added.add_argument("--host", metavar="ADDRESS", help=host)
    stays = "stay here until interrupted, as containers and service managers want it"
    added.add_argument("--foreground", action="store_true", help=stays)

    add("down", _down, "end what `medusa up` has started, jobs of participants too")

    added = add("doctor", _doctor, "look whether this machine has all that is needed")
    _json(added)
    return top


def _hold(added: argparse._ActionsContainer) -> None:
    hold = "for how long a cursor keeps what it needs from being trimmed (default: 7d)"
    added.add_argument("--hold", metavar="DURATION", default="7d", help=hold)


def _json(added: argparse._ActionsContainer) -> None:
    added.add_argument("--json", action="store_true", help="print one JSON document")


def _running(added: argparse.ArgumentParser) -> None:
    lease = "how long a lease lasts (default: 10); it is renewed in time"
    added.add_argument("--lease", type=_seconds, default=10.0, metavar="SECONDS", help=lease)
    added.add_argument("--records-per-step-max", type=_positive, default=None, metavar="N")
    added.add_argument(
        "--explain", action="store_true", help="print what would be decided, change nothing"
    )
    _home(added, "who (default: the only one)")


def _home(
    added: argparse.ArgumentParser, whose: str = "whose home (default: the only one)"
) -> None:
    added.add_argument("--participant", metavar="P", help=whose)


def _positive(text: str) -> int:
    try:
        number = int(text.replace("_", ""))
    except ValueError:
        number = 0
    if not 0 < number < 2**62:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return number


def _port(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0
    if not 0 < number < 65_536:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, 1 to 65535")
    return number


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 86_400:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, at most a day")
    return number


def _demo(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.demo import demo

    return demo(settings, records=options.records, seed=options.seed, scene=options.scene)


def _replay(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.replay import run_replay

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


def _generate(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.generate import generate

    return generate(
        options.directory,
        seed=options.seed,
        records=options.records,
        files=options.files,
        format_=options.format,
    )


def _streams(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.read import show_streams

    return show_streams(settings, options.participant, as_json=options.json)


def _read(options: argparse.Namespace, settings: Settings) -> int:
    if options.quarantine:
        from pipelines.cli.quarantine import show_quarantine

        return show_quarantine(
            settings,
            options.participant,
            options.stream,
            limit=options.limit,
            as_json=options.json,
        )
    from pipelines.cli.read import Asked, show_rows

    if options.stream is None:
        raise Refused("name the stream to read, or give --quarantine")
    return show_rows(
        settings,
        options.participant,
        options.stream,
        Asked(
            from_=options.from_,
            to=options.to,
            as_of=options.as_of,
            with_tentative=options.stability == "all",
            limit=options.limit,
        ),
        as_json=options.json,
    )


def _changes(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.changes.consumer_cursors import hold_ms_of
    from pipelines.cli.changes import show_changes

    return show_changes(
        settings,
        options.participant,
        options.stream,
        since=options.since,
        until=options.until,
        cursor=options.cursor,
        from_=options.from_,
        to=options.to,
        limit=options.limit,
        hold_ms=hold_ms_of(options.hold),
        as_json=options.json,
    )


def _cursor(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.changes.consumer_cursors import hold_ms_of
    from pipelines.cli.cursor import run_cursor

    return run_cursor(
        settings,
        options.participant,
        options.what,
        options.stream,
        options.name,
        to=options.to,
        hold_ms=hold_ms_of(options.hold),
        as_json=options.json,
    )


def _quarantine(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.quarantine import export_quarantine, retry_quarantine

    if options.what == "export":
        if options.explain:
            raise Refused("an export changes nothing: leave --explain out")
        return export_quarantine(
            settings, options.participant, options.stream, options.file, as_json=options.json
        )
    return retry_quarantine(
        settings,
        options.participant,
        options.stream,
        options.file,
        explain=options.explain,
        as_json=options.json,
    )


def _status(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.status import show_status

    return show_status(settings, options.participant, as_json=options.json, every_s=options.watch)


def _run(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.run import explain_tick, run, run_order

    order = run_order(options)
    return explain_tick(settings, order) if options.explain else run(settings, order)


def _job(options: argparse.Namespace, settings: Settings) -> int:
    from medusa_core.commits import Lane
    from pipelines.cli.job import Asked, run_job

    asked = Asked(
        what=options.what,
        names=options.names,
        lane=Lane(options.lane),
        until_ended=options.until_ended,
        because=options.because,
        as_json=options.json,
    )
    return run_job(settings, asked)


def _supervise(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.supervise import run_supervise

    return run_supervise(
        settings,
        options.participant,
        once=options.once,
        explain=options.explain,
        as_json=options.json,
        every_s=options.every,
        lease_s=options.lease,
    )


def _tick(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.run import explain_tick, run_order, tick

    order = run_order(options)
    if options.explain:
        return explain_tick(settings, order)
    return tick(settings, order, as_json=options.json)


def _round(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.round import run_round

    return run_round(settings, options.participant, explain=options.explain, as_json=options.json)


def _apply(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.apply import run_apply

    return run_apply(
        settings,
        contracts=options.contracts,
        participant=options.participant,
        from_=options.from_,
        explain=options.explain,
        as_json=options.json,
    )


def _simulate(options: argparse.Namespace, settings: Settings) -> int:
    if options.what == "market":
        from pipelines.cli.simulate_market import market_of

        return market_of(options)
    from pipelines.cli.simulate import refuse_market_options, simulate_faults

    refuse_market_options(options)
    return simulate_faults(
        schedules=options.schedules or 100,
        seed=options.seed,
        explain=options.explain,
        as_json=options.json,
        jobs=options.jobs,
        trims=options.trims,
        replicas=options.replicas,
        markets=options.markets,
        resume=options.resume,
    )


def _fault(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.fault import Asked, run_fault

    asked = Asked(
        what=options.what,
        names=options.names,
        lasts=options.for_,
        by=options.by,
        one_way=options.one_way,
        explain=options.explain,
        as_json=options.json,
    )
    return run_fault(settings, asked)


def _deliver(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.deliver import Asked, run_deliver

    asked = Asked(
        stream=options.stream,
        sink=options.sink,
        parquet=options.parquet,
        csv=options.csv,
        postgres=options.postgres,
        table=options.table,
        key=options.key,
        begins=options.from_,
        withdraw=options.withdraw,
    )
    return run_deliver(settings, options.participant, asked, as_json=options.json)


def _trim(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.trim import Wanted, run_trim

    wanted = Wanted(
        streams=options.streams,
        keep=options.keep,
        before=options.before,
        compact=options.compact,
        orphans=options.orphans,
        grace=options.grace,
        explain=options.explain,
    )
    return run_trim(settings, options.participant, wanted, as_json=options.json)


def _recall(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.recall import Asked, run_recall

    asked = Asked(
        stream=options.stream,
        begins=options.from_,
        because=options.because,
        follow=options.follow,
        explain=options.explain,
        yes=options.yes,
        as_json=options.json,
    )
    return run_recall(settings, options.participant, asked)


def _explain(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.explain import explain_diverged

    return explain_diverged(settings, options.participant, options.stream, as_json=options.json)


def _quality(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.quality import quality_run

    return quality_run(
        settings,
        options.participant,
        options.stream,
        from_=options.from_,
        to=options.to,
        break_mode=options.break_mode,
        report=options.report,
        as_json=options.json,
    )


def _migrate(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.migrate import run_migrate

    return run_migrate(settings, options.participant)


def _init(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.init import run_init

    return run_init(options.directory, name=options.name)


def _completion(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.completion import run_completion

    return run_completion(parser(), settings, shell=options.shell, words=options.words)


def _up(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.up import checked_host, run_up

    return run_up(
        settings,
        port=options.port,
        host=None if options.host is None else checked_host(options.host),
        is_foreground=options.foreground,
    )


def _down(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.up_down import run_down

    return run_down(settings)


def _doctor(options: argparse.Namespace, settings: Settings) -> int:
    from pipelines.cli.doctor import examine

    return examine(settings, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
