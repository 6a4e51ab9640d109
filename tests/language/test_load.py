"""Networks by name and from a user's own file; and one sentence for every way that can go wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from medusa_core.errors import Refused
from medusa_core.network import Aggregate
from medusa_core.plans import Plan
from medusa_core.user_aggregates import value_of
from pipelines.homes.network_files import keep_file, kept_file, network_of_plan
from pipelines.language.check import check_network
from pipelines.language.load import SHIPPED, function_sources, load_network

OWN = '''"""A user's network."""
from medusa_core.network import Filter, Network, Output, Source

network = Network(
    name="mine",
    sources=(Source(name="ticks", columns={"ts_us": "bigint", "n": "int"}, time="ts_us"),),
    boxes=(Filter(name="big", input="ticks", cases={"yes": "n > 1"}),),
    outputs=(Output(name="result", input="big"),),
)
'''


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_network_is_found_by_name_and_passes_every_check(name: str) -> None:
    network = load_network(name)
    assert network.name == name
    check_network(network)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_network_is_one_file_under_60_lines(name: str) -> None:
    import pipelines.language.shipped

    file = Path(pipelines.language.shipped.__file__).with_name(f"{name}.py")
    assert len(file.read_text().splitlines()) < 60


def test_a_users_file_is_run_under_a_name_of_its_own(tmp_path: Path) -> None:
    modules, path = set(sys.modules), list(sys.path)
    for name in ("netmon.py", "json.py", "an odd näme.py", "no_suffix"):
        file = tmp_path / name
        file.write_text(OWN)
        assert load_network(str(file)).name == "mine"
    assert set(sys.modules) == modules
    assert sys.path == path
    assert load_network("netmon").name == "netmon"


BAD_FILES: list[tuple[str, str]] = [
    ("x = 1\nif x\n", "own.py, line 2: expected ':'; correct the Python"),
    ("import math\n\nmath.sqrt(-1)\n", "own.py, line 3: ValueError: math domain error"),
    ("import nonesuch\n", "own.py, line 1: no module named 'nonesuch'"),
    ("import sys\nsys.exit('bye')\n", "own.py, line 2: SystemExit: bye"),
    ("raise KeyError('a\\nb')\n", "own.py, line 1: KeyError"),
    ("x = 1\n", "own.py has no value named `network` at its top level"),
    (OWN.replace("network =", "mine ="), "at its top level; rename 'mine'"),
    ("network = {}\n", "own.py: `network` is 'dict'; write network = Network("),
    (OWN.replace('"ticks", cases', '"tick", cases'), "own.py, line 4: box big of network mine"),
    (OWN.replace('cases={"yes"', 'casess={"yes"'), "own.py, line 7: Filter has no field casess"),
    ("\0", "own.py"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD_FILES, ids=[s[-40:] for _, s in BAD_FILES])
def test_a_bad_file_is_one_sentence_with_file_and_line(
    tmp_path: Path, text: str, sentence: str
) -> None:
    file = tmp_path / "own.py"
    file.write_text(text)
    with pytest.raises(Refused) as refusal:
        load_network(str(file))
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_bytes_that_are_no_python_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    file.write_bytes(b"PAR1\x00\xff\xfe\x01")
    with pytest.raises(Refused, match=r"own\.py"):
        load_network(str(file))


def test_an_unknown_name_gets_the_nearest_and_the_list(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"no network 'netmom': did you mean 'netmon'\? name one of"):
        load_network("netmom")
    with pytest.raises(Refused, match="no network 'zzz': name one of netmon, netmon3, road_"):
        load_network("zzz")
    with pytest.raises(Refused, match=r"there is no file .*mine\.py: check the path"):
        load_network(str(tmp_path / "mine.py"))
    with pytest.raises(Refused, match="is a folder: name the network file inside it"):
        load_network(str(tmp_path))


WITH_FUNCTION = """
from medusa_core.network import Function, Network, Output, Source

LIMIT = {limit}


def above(frame, limit):
    return frame.where(f"n > {{limit}}")


def made(step):
    def box(frame, by={by}):
        return above(frame, LIMIT + step + by)  # {comment}
    return box


network = Network(
    name="mine",
    sources=(Source(name="ticks", columns={{"ts_us": "bigint", "n": "int"}}, time="ts_us"),),
    boxes=(Function(name="f", input="ticks", function=made({step}), columns={{"n": "int"}}),),
    outputs=(Output(name="result", input="f"),),
)
"""


def source_of(tmp_path: Path, **values: object) -> str:
    parts: dict[str, object] = {"limit": 1, "by": 2, "step": 3, "comment": "x"}
    file = tmp_path / f"own{len(list(tmp_path.iterdir()))}.py"
    file.write_text(WITH_FUNCTION.format(**(parts | values)))
    return function_sources(load_network(str(file)))["f"]


def test_what_a_function_box_means_is_its_source_and_all_it_remembers(tmp_path: Path) -> None:
    first = source_of(tmp_path)
    assert first == source_of(tmp_path)
    assert "def box(frame, by=2)" in first
    assert "def above(frame, limit)" in first
    changed = [
        source_of(tmp_path, limit=10),
        source_of(tmp_path, by=10),
        source_of(tmp_path, step=10),
        source_of(tmp_path, comment="y"),
    ]
    assert len({first, *changed}) == 5


def test_a_function_that_remembers_what_no_plan_can_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"function f of network mine remembers 'LIMIT', a range"):
        source_of(tmp_path, limit="range(3)")


WITH_AGGREGATE = """
from medusa_core.network import Aggregate, Network, Output, Source, UserAggregate

LEAST = {least}


def largest(*numbers):
    return (max((n for n in numbers if n is not None), default=LEAST),)


top = UserAggregate(
    name="top", takes=("int",), state=("int",), gives="int", init=largest,
    add=lambda state, n: largest(*state, n), merge=lambda one, other: largest(*one, *other),
    result=lambda state: state[0],
)
network = Network(
    name="small",
    sources=(Source(name="s", columns={{"at_us": "bigint", "n": "int"}}, time="at_us"),),
    boxes=(Aggregate(name="tops", input="s", size="10s", columns={{"n": "top(n)"}},
                     aggregates=(top,)),),
    outputs=(Output(name="counted", input="tops"),),
)
"""


def test_what_an_aggregate_function_means_is_the_text_of_its_functions_and_what_they_use(
    tmp_path: Path,
) -> None:
    found = []
    for least in (0, 0, 1):
        file = tmp_path / "own.py"
        file.write_text(WITH_AGGREGATE.format(least=least))
        found.append(function_sources(load_network(str(file))))
    assert found[0] == found[1] != found[2]
    assert list(found[0]) == ["tops.top"]
    assert "default=LEAST" in found[0]["tops.top"]


def test_the_text_of_a_lambda_has_all_its_lines(tmp_path: Path) -> None:
    found = set()
    for least in ("0", "1"):
        file = tmp_path / "own.py"
        text = WITH_AGGREGATE.format(least=0)
        file.write_text(
            text.replace(
                "result=lambda state: state[0],",
                f"result=lambda state:\n        state[0]\n        or {least},",
            )
        )
        found.add(function_sources(load_network(str(file)))["tops.top"])
    assert all("result=lambda state:\n    state[0]\n    or " in text for text in found)
    assert len(found) == 2


MADE_IN_ONE_PLACE = """

def times(factor):
    def by(n):
        return n * factor
    return by


one, two, three = {made}
"""


def test_functions_of_one_place_differ_in_what_they_remember(tmp_path: Path) -> None:
    found = set()
    for made in (
        "times(1), times(2), times(3)",
        "times(1), times(3), times(2)",
        "(first := times(1)), times(2), first",
        "times(1), (second := times(2)), second",
    ):
        file = tmp_path / "own.py"
        text = WITH_AGGREGATE.replace("\n\ndef largest", MADE_IN_ONE_PLACE + "\n\ndef largest")
        text = text.replace("state: state[0]", "state: one(1) + two(state[0]) + three(state[0])")
        file.write_text(text.format(least=0, made=made))
        found.add(function_sources(load_network(str(file)))["tops.top"])
    assert len(found) == 4


def test_a_deployed_network_with_an_aggregate_function_runs_from_the_file_that_was_kept(
    tmp_path: Path,
) -> None:
    file = tmp_path / "own.py"
    file.write_text(WITH_AGGREGATE.format(least=0))
    network = load_network(str(file))
    plan = Plan(
        network=network, widths_us={}, function_sources=function_sources(network), engine={}
    )
    with pytest.raises(Refused, match="network small calls functions of its file and"):
        network_of_plan(json.loads(plan.document), tmp_path)
    keep_file(tmp_path, plan.id, file)
    file.unlink()
    (box,) = network_of_plan(json.loads(plan.document), tmp_path).boxes
    assert isinstance(box, Aggregate)
    assert value_of(box.aggregates[0], [(3,), (5,), (4,)]) == 5
    kept_file(tmp_path, plan.id).write_text(WITH_AGGREGATE.format(least=1))
    with pytest.raises(Refused, match="is not the network small that was deployed"):
        network_of_plan(json.loads(plan.document), tmp_path)


def test_networks_without_functions_have_no_sources() -> None:
    assert function_sources(load_network("netmon")) == {}


PARTS = """
from medusa_core.network import Aggregate, Network, Output, Source

network = Network(
    name="small",
    sources=(Source(name="s", columns={"at_us": "bigint"}, time="at_us"),),
    boxes=(Aggregate(name="counts", input="s", size="10s", columns={"n": "count(*)"}),),
    outputs=(Output(name="counted", input="counts"),),
)
"""


@pytest.mark.parametrize(
    ("right", "wrong", "sentence"),
    [
        ("size=", "sise=", "Aggregate has no field sise: did you mean 'size'?"),
        ('name="counts", ', "", "Aggregate lacks name: write, for instance, name='…'"),
        ('"count(*)"}),)', '"count(*)"}))', r"write a comma behind it, boxes=(Aggregate(…),)"),
        ("Aggregate, N", "Aggregate, Sort, N", "there is no Sort in a network: its parts are"),
        ("Aggregate, N", "Aggregate, join, N", "no join in a network: its parts are Network, "),
        ("Aggregate, N", "Aggregate, join, N", "Output, Partitions; did you mean 'Join'?"),
        (
            'name="counted", input="counts"',
            '"counted", "counts"',
            "Output takes its fields by name",
        ),
        (', time="at_us"', "", "source 's' of network small has no time: write time='…' with"),
        ('time="at_us"', "time=3", "time of source s is 3: write one text in quotes"),
        ('time="at_us"', 'time="at_us", key="at_us"', "key of source s is a text: write a tuple"),
        ('{"at_us": "bigint"}', '{"at_us": int}', "columns of source s has 'at_us': <class 'int'>"),
        ('{"n": "count(*)"}', '("n",)', "columns of Aggregate counts is a value of type tuple"),
        ('input="s"', 'input=("s",)', "input of box counts is ('s',): write one text in quotes"),
        ('input="s"', 'input="s", group_by=(1,)', "group_by of box counts has 1: write each"),
        ('"10s"', "10.5", "size of aggregate counts: duration 10.5 is not one"),
        ('(Output(name="counted", input="counts"),)', "['a']", "write a tuple of Output"),
        ('Output(name="counted", input="counts")', "'a'", "hold a value of type str"),
    ],
)
def test_a_mistake_in_a_part_is_named_in_the_words_of_a_network(
    right: str, wrong: str, sentence: str, tmp_path: Path
) -> None:
    assert right in PARTS
    (tmp_path / "mine.py").write_text(PARTS.replace(right, wrong))
    with pytest.raises(Refused) as refused:
        load_network(str(tmp_path / "mine.py"))
    assert sentence in str(refused.value)
    assert "mine.py, line" in str(refused.value)
