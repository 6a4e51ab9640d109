"""`medusa down`: stop what `medusa up` started, and nothing else."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pipelines.base.settings import Settings

if TYPE_CHECKING:
    from pipelines.operations.platform_stop import PlatformStop

HELP = "stop what `medusa up` started, jobs of participants included"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa down`: none."""


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Stop the platform."""
    from pipelines.operations.platform_stop import stop_platform

    print(render(stop_platform(settings, print)))
    return 0


def render(result: PlatformStop) -> str:
    """The result for a terminal."""
    if result.was_up:
        return "down: all that was started has ended"
    if result.lost:
        return f"down: ended {result.lost} processes that a lost supervisor had left behind"
    return "nothing is up here"
