"""`medusa supervise`: start and stop participants' jobs as they are desired, until interrupted."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, assert_never

from pipelines.base.settings import Settings, environment
from pipelines.cli.arguments import add_home, add_json, seconds

if TYPE_CHECKING:
    from pipelines.operations.job_supervision import SupervisionEvent, SupervisionResult

HELP = "start and stop jobs as they are desired, until interrupted"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa supervise`."""
    parser.add_argument("--once", action="store_true", help="look once, and end; jobs keep running")
    every = "how often it looks (default: 5)"
    parser.add_argument("--every", type=seconds, metavar="SECONDS", help=every)
    lease = "how long the leases of jobs last (default: 10)"
    parser.add_argument("--lease", type=seconds, metavar="SECONDS", help=lease)
    parser.add_argument("--explain", action="store_true", help="tell what would be done now")
    add_home(parser, "only this one (default: all in MEDUSA_DIR)")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Supervise all participants of the folder, or one; with --once for one iteration."""
    from pipelines.operations.job_supervision import (
        EVERY_S,
        SupervisionRequest,
        supervise_forever,
        supervise_once,
    )

    request = SupervisionRequest(
        participant=options.participant, every_s=options.every or EVERY_S, lease_s=options.lease
    )
    if not (options.once or options.explain):
        supervise_forever(
            settings, request, environment(), lambda event: _print(event, as_json=options.json)
        )
    result = supervise_once(settings, request, environment(), explain=options.explain)
    _print_result(result, as_json=options.json)
    if not options.explain:
        result.check()
    return 0


def _print(event: SupervisionEvent, *, as_json: bool) -> None:
    from pipelines.operations.job_supervision import HomesUnavailable, JobGivenUp, JobsChanged

    match event:
        case JobsChanged(result=result):
            _print_result(result, as_json=as_json)
        case JobGivenUp(sentence=sentence) | HomesUnavailable(sentence=sentence):
            print(f"medusa: {sentence}", file=sys.stderr, flush=True)
        case _:
            assert_never(event)


def _print_result(result: SupervisionResult, *, as_json: bool) -> None:
    from pipelines.operations.job_supervision import document

    print(json.dumps(document(result), indent=1) if as_json else render(result), flush=True)


def render(result: SupervisionResult) -> str:
    """The decisions for people, a line each."""
    return "\n".join(result.lines() or ["no job is desired: see medusa job start"])
