"""Homes to look at: a replay of ordinary connections, and one of whatever a file may hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.grid import parse_duration_us
from medusa_core.knowledge import Limits
from medusa_core.names import StreamName
from medusa_core.network import Filter, Map, Network, Output, Source
from pipelines.base.settings import Settings
from pipelines.homes.home import Home, make_home
from pipelines.operations.recorded_replay import SOLO
from pipelines.participant.replay import ReplayResult, replay
from pipelines.participant.replay_order import ReplayOrder
from tests.generated_code import generated_in_long

SCRIPT = '<script>alert("it\'s in")</script>&amp;'
RED = "\x1b[31mred\x1b]0;title\x07\u202e"

nasty_network = Network(
    name="nasty",
    sources=(Source(name="events", columns={"ts_us": "bigint", "who": "string"}, time="ts_us"),),
    boxes=(
        Filter(
            name="split",
            input="events",
            cases={"marked": f"contains(who, '{SCRIPT[:8]}')"},
            otherwise="plain",
        ),
        Map(name="shout", input="split.marked", columns={"said": f"who || ' {SCRIPT[:16]}'"}),
        Map(name="keep", input="split.plain", columns={"who": "who"}),
    ),
    outputs=(Output(name="shouts", input="shout"), Output(name="others", input="keep")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A replay that was kept, still open, so that commands attach to its server."""

    home: Home
    network: Network
    result: ReplayResult
    outputs: Mapping[str, Path]

    @property
    def directory(self) -> Path:
        """What MEDUSA_DIR has to be."""
        return self.home.directory


@contextmanager
def kept_replay(
    directory: Path, network: Network, inputs: Sequence[Path], spark: Any, limits: Limits
) -> Iterator[Kept]:
    """Replay the network over the files in the run's one Spark session, and stay open."""
    settings = Settings(catalog_url=None, directory=directory / "kept", test_data=directory)
    order = ReplayOrder(
        network=network,
        inputs={StreamName(network.sources[0].name): tuple(inputs)},
        width_us=parse_duration_us(network.bucket),
        limits=limits,
    )
    with make_home(settings, SOLO, keep=True) as home:
        with generated_in_long(spark):
            result = replay(
                order, home, directory / "out", sessions=lambda home: nullcontext(lambda: spark)
            )
        outputs = {name: Path(path) for name, path in result.exported.items()}
        yield Kept(home=home, network=network, result=result, outputs=outputs)


def nasty_csv(path: Path) -> Path:
    """Records with markup, quotes, terminal escapes; one line is no record."""
    quoted = SCRIPT.replace('"', '""')
    lines = [
        "ts_us,who",
        f'1700000001000000,"{quoted}"',
        f"1700000002000000,{RED}",
        f"no time {RED},somebody",
        "1700000003000000,plain",
        "1700000003000000,",
    ]
    path.write_text("\n".join(lines) + "\n")
    return path
