"""`medusa check`: whether a network can run, and what its streams look like."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.cli.arguments import add_json

if TYPE_CHECKING:
    from pipelines.language.check import CheckedNetwork

HELP = "check a network without running it, and show the columns of its boxes and outputs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa check`."""
    shipped = "netmon, netmon3, road_sensors, trade_bars or a network file, Python or SQL"
    parser.add_argument("network", metavar="NETWORK", help=shipped)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Check the network and print its parts; Refused for one that cannot run."""
    from medusa_core.network import Aggregate
    from pipelines.language.check import check_network
    from pipelines.language.load import load_network
    from pipelines.language.zone_database import VERSION

    checked = check_network(load_network(options.network))
    if options.json:
        parts = [
            {"part": part, "kind": kind, "columns": dict(columns)}
            for part, kind, columns in _parts(checked)
        ]
        print(json.dumps({"network": checked.network.name, "parts": parts}, indent=1))
        return 0
    rows = [
        (kind, part, ", ".join(f"{name} {type_}" for name, type_ in columns))
        for part, kind, columns in _parts(checked)
    ]
    print(table(("kind", "name", "columns"), rows))
    for box in checked.network.boxes:
        if isinstance(box, Aggregate) and box.every is not None:
            print(
                f"\naggregate {box.name}: windows of {box.windows_shown}, time zone data {VERSION}"
            )
    print(f"\nnetwork {checked.network.name}: no errors")
    return 0


def _parts(checked: CheckedNetwork) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Sources, ports of boxes in the order of the arcs, and outputs: name, kind, columns."""
    network = checked.network
    kinds = {box.name: type(box).__name__ for box in network.boxes}
    for port, columns in checked.columns.items():
        yield str(port), kinds.get(port.owner, "Source"), [(c.name, c.type) for c in columns]
    for output in network.outputs:
        columns = checked.columns_of_output(output.name)
        yield output.name, "Output", [(c.name, c.type) for c in columns]
