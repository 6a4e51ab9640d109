"""The contracts and the network of a chain, written as a user would write them.

Three sources are joined at the head; each hop behind it reads the stream of the one before over the
exchange, and the last one's output promises X. A hop passes its records on, as in the originals'
chains, so that a tentative row is a record that came without those of a lost input.
"""

from __future__ import annotations

from pathlib import Path

import yaml

from bench.dpc.scenario import BUCKET_S, LANDING, RATE_PER_S, SOURCE_OF, X_S, Chain

OUTPUT = "answers"
NETWORK = "networks/chain.py"
_NETWORK = """\
from medusa_core.network import Filter, Map, Network, Output, Source, Union

COLUMNS = {{"seq": "bigint", "ts_us": "bigint", "orig_h": "string", "resp_p": "int"}}
SOURCES = {sources!r}
DEPTH = {depth}

hops = [
    Union(name="gathered", inputs=SOURCES, fragment="hop1"),
    Map(
        name="passed1",
        input="gathered",
        columns={{"seq": "seq", "orig_h": "orig_h", "resp_p": "resp_p"}},
        fragment="hop1",
    ),
]
for number in range(2, DEPTH + 1):
    before = "passed1" if number == 2 else f"passed{{number - 1}}.kept"
    hops.append(
        Filter(
            name=f"passed{{number}}", input=before, cases={{"kept": "resp_p >= 0"}},
            fragment=f"hop{{number}}",
        )
    )
network = Network(
    name="chain",
    sources=tuple(Source(name=name, columns=COLUMNS, time="ts_us") for name in SOURCES),
    boxes=tuple(hops),
    outputs=(Output(name="{output}", input="passed1" if DEPTH == 1 else f"passed{{DEPTH}}.kept"),),
    bucket="{bucket}s",
)
"""


def stream_of(chain: Chain, hop: int) -> str:
    """The stream that a hop (1 to depth) gives."""
    if hop == chain.depth:
        return OUTPUT
    return "passed1" if hop == 1 else f"passed{hop}_kept"


def lines_of(chain: Chain) -> tuple[tuple[str, str], ...]:
    """Who writes which stream, head first."""
    return tuple((hop, stream_of(chain, at)) for at, hop in enumerate(chain.hops, start=1))


def write_contracts(chain: Chain, folder: Path) -> Path:
    """The folder for `medusa apply`."""
    make_folders(folder)
    sources = tuple(SOURCE_OF[lander] for lander in LANDING)
    (folder / NETWORK).write_text(
        _NETWORK.format(sources=sources, depth=chain.depth, output=OUTPUT, bucket=f"{BUCKET_S:g}")
    )
    write_landing(folder)
    for hop in chain.hops:
        write_computing(folder, hop, hop)
    write_promise(folder, chain.policy)
    return folder


def make_folders(folder: Path) -> None:
    """Where the contracts go."""
    for kind in ("participants", "streams", "networks"):
        (folder / kind).mkdir(parents=True)


def write_landing(folder: Path) -> None:
    """The participants that land, and what is generated for them."""
    for seed, lander in enumerate(LANDING, start=1):
        source = SOURCE_OF[lander]
        _write(folder / "participants" / f"{lander}.yaml", {
            "participant": lander, "runs": [{"network": NETWORK, "sources": [source]}],
        })  # fmt: skip
        fed = {"kind": "generate", "seed": seed, "rate_per_s": RATE_PER_S, "sources": 100}
        _write(folder / "streams" / f"{source}.yaml", {"stream": source, "source": fed})


def write_computing(folder: Path, participant: str, fragment: str) -> None:
    """A participant that computes a fragment."""
    _write(folder / "participants" / f"{participant}.yaml", {
        "participant": participant, "runs": [{"network": NETWORK, "fragments": [fragment]}],
    })  # fmt: skip


def write_promise(folder: Path, policy: str) -> None:
    """X of the output, under one policy throughout."""
    _write(folder / "streams" / f"{OUTPUT}.yaml", {
        "stream": OUTPUT, "bound": f"{X_S:g}s",
        "during_failure": policy, "during_stabilization": policy,
    })  # fmt: skip


def _write(file: Path, document: object) -> None:
    file.write_text(yaml.safe_dump(document, sort_keys=False))
