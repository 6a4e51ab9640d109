"""`medusa branch make`: run a network over kept streams and keep the result under a label."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli import replay
from pipelines.cli.arguments import add_home, add_json

HELP = "run a network over kept streams, and keep the result under a label"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa branch make`."""
    parser.add_argument("label", metavar="LABEL")
    parser.add_argument("network", metavar="NETWORK", help="a shipped network or a file")
    replay.add_history(parser)
    add_home(parser)
    parser.add_argument("--bucket", metavar="WIDTH", help="bucket width, such as 10s")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Make the branch and print what was done."""
    from pipelines.operations.branches import BranchRequest, make_branch
    from pipelines.operations.recorded_replay import ReplayRequest

    request = ReplayRequest(
        network=options.network,
        inputs=(),
        bucket=options.bucket,
        **replay.history_of(options),
    )
    return replay.followed(
        options,
        lambda progress: make_branch(
            settings, BranchRequest(label=options.label, replay=request), progress
        ),
    )
