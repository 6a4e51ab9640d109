"""Mistakes in networks of Python: each is refused with the place, and with what to write instead.

`network_mistakes.txt` has them all: a box that reads one of two sources, and under it the sentence;
`@` for one that begins with the file and line, `F` for one that begins with the file, `-` for one
that names the box alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from medusa_core.errors import Refused
from pipelines.language.check import check_network
from pipelines.language.load import load_network

FILE = """from dataclasses import replace
from medusa_core.network import *
TICKS = Source(name="ticks", time="ts_us", columns={
    "ts_us": "bigint", "symbol": "string", "price": "double", "size": "int"})
QUOTES = Source(name="quotes", time="ts_us", columns={
    "ts_us": "bigint", "symbol": "string", "bid": "decimal(10,2)", "ask": "decimal(10,2)"})
TOP = UserAggregate(name="top", takes=("int",), state=("int",), gives="int", init=lambda: (None,),
    add=lambda state, n: (max(n, state[0] or n),), merge=max, result=lambda state: state[0])
BIDS = Map(name="other", input="quotes", columns={"bid": "bid"})
OUTPUTS = (Output(name="out", input="x"), Output(name="bids", input="other"))
"""


def mistakes() -> Iterator[tuple[str, str]]:
    """Box and sentence of each."""
    lines = Path(__file__).with_name("network_mistakes.txt").read_text().splitlines()
    for box, answer in zip(lines[::2], lines[1::2], strict=True):
        yield box, answer.strip()


@pytest.mark.parametrize(("box", "answer"), list(mistakes()))
def test_a_mistake_is_refused_with_what_to_write(box: str, answer: str, tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    network = f'network = Network(name="n", sources=(TICKS, QUOTES), boxes=({box}, BIDS), '
    file.write_text(f"{FILE}{network}outputs=OUTPUTS)\n")
    with pytest.raises(Refused) as refused:
        check_network(load_network(str(file)))
    place, _, sentence = answer.partition(": ")
    where = {"@": f"{file}, line 11: ", "F": f"{file}: ", "-": ""}[place]
    assert str(refused.value) == f"{where}{sentence}"


def test_the_table_has_a_hundred_mistakes() -> None:
    assert len({box for box, _ in mistakes()}) >= 120


def test_every_kind_of_box_is_in_the_table() -> None:
    from pipelines.language.network_mistakes import _KINDS

    kinds = {box.partition("(")[0] for box, _ in mistakes()}
    assert kinds >= set(_KINDS) - {"Network", "Source", "Output", "Partitions"}
