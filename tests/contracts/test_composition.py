"""Networks that read streams of each other: what is deployed where, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Conflict, Refused
from medusa_core.names import Participant, StreamName
from pipelines.catalog.records import StreamRecord
from pipelines.contracts.apply_changes import decide_changes
from pipelines.contracts.composition import check_acyclic
from pipelines.contracts.federation import Federation, read_federation
from pipelines.contracts.home_snapshot import READING, HomeSnapshot
from pipelines.contracts.imported_streams import PartnerStream
from tests.contracts.writing import (
    ALPHA,
    BETA,
    FILES,
    READER,
    READS,
    brought_in,
    reached,
    trimmed,
    write_contracts,
)

Reader = Callable[..., Federation]
Homes = Mapping[Participant, HomeSnapshot]
A, B, G = map(Participant, ("alpha", "beta", "gamma"))
COMPOSED = {
    **FILES,
    "reader.py": READER,
    "participants/gamma.yaml": READS.format(name="gamma"),
}
"""Alpha computes large, beta and gamma read it: beta within the same network."""


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    def reader(changed: Mapping[str, str] | None = None) -> Federation:
        return read_federation(
            write_contracts(tmp_path / "c", COMPOSED | dict(changed or {})), tmp_path
        )

    return reader


def applied(federation: Federation, homes: Homes) -> Homes:
    decided = decide_changes(federation, homes, None)
    return {home.participant: brought_in(homes[home.participant], home) for home in decided}


ALL: Homes = dict.fromkeys((A, B, G), HomeSnapshot(clock_ms=0))


def test_a_reading_home_gets_the_fragment_that_writes_and_an_import_of_its_network(
    read: Reader,
) -> None:
    homes = applied(read(), ALL)
    assert set(homes[G].log) == {"mine/first", "import/large", "reader/main"}
    assert {its.network for name, its in homes[G].fragments.items() if name != "reader/main"} == {
        "mine"
    }
    assert homes[G].fragments["reader/main"].inputs == ("large",)
    assert {(line.stream, line.producer.participant) for line in homes[G].lines} == {
        ("large", "alpha"), ("largest", "gamma")
    }  # fmt: skip
    assert "reader/main" not in homes[A].log


def test_a_stream_is_granted_to_those_whose_networks_read_it(read: Reader) -> None:
    decided = decide_changes(read(), ALL, None)
    assert [home.readers for home in decided] == [
        {("large", READING): {"beta", "gamma"}}, {}, {}
    ]  # fmt: skip


def test_the_same_contracts_again_change_nothing(read: Reader) -> None:
    homes = applied(read(), ALL)
    assert all(home.is_same for home in decide_changes(read(), homes, None))


def test_a_network_that_comes_later_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    before = read_federation(write_contracts(tmp_path / "before", FILES), tmp_path)
    both = {A: HomeSnapshot(clock_ms=0), B: HomeSnapshot(clock_ms=0)}
    homes = applied(before, both) | {G: HomeSnapshot(clock_ms=0)}
    after = read_federation(write_contracts(tmp_path / "after", COMPOSED), tmp_path)
    assert applied(after, homes)[B] == homes[B]
    assert applied(after, homes)[A].log == homes[A].log


def test_a_network_that_is_taken_out_of_the_contracts_keeps_what_it_reads(
    read: Reader, tmp_path: Path
) -> None:
    homes = applied(read(), ALL)
    less = FILES | {"participants/gamma.yaml": "participant: gamma\n"}
    federation = read_federation(write_contracts(tmp_path / "less", less), tmp_path)
    assert applied(federation, homes)[G] == homes[G]


def test_a_stream_of_ones_own_home_needs_no_import_and_no_grant(read: Reader) -> None:
    own = ALPHA + "  - network: reader.py\n    fragments: [main]\n"
    changed = {
        "participants/alpha.yaml": own,
        "participants/gamma.yaml": "participant: gamma\n",
        "reader.py": READER.replace("alpha/large", "large"),
    }
    homes = applied(read(changed), ALL)
    assert set(homes[A].log) == {"landing/ticks", "mine/first", "reader/main"}
    assert not homes[G].log


def test_a_reader_of_a_replicated_stream_chooses_among_all_who_write_it(read: Reader) -> None:
    changed = {
        "participants/beta.yaml": BETA.replace("[second]", "[first, second]"),
        "streams/large.yaml": "stream: large\nreplicas: 2\nverify: 2\n",
    }
    federation = read(changed)
    mine, reader = federation.networks
    assert mine.chosen_by(G) == {"large"}
    assert reader.writers_of(StreamName("large")) == (A, B)
    homes = applied(federation, ALL)
    assert homes[G].verified == {"large": 2}
    assert homes[G].fragments["import/large"].outputs == ("large",)


def test_a_bound_reaches_back_through_the_network_that_is_read(read: Reader) -> None:
    federation = read({
        "streams/largest.yaml": "stream: largest\nbound: 30s\n",
        "streams/ticks.yaml": COMPOSED["streams/ticks.yaml"] + "lag: 2s\n",
    })  # fmt: skip
    mine, reader = federation.networks
    for promise in (mine.promises["ticks"], mine.promises["large"], reader.promises["largest"]):
        assert promise.bound is not None
        assert (promise.bound.bound_ms, promise.lag_ms) == (30_000, 2_000)
    assert mine.promises["result"].bound is None


def test_a_bound_is_refused_that_the_way_through_all_networks_exceeds(read: Reader) -> None:
    federation = read({"streams/largest.yaml": "stream: largest\nbound: 10s\n"})
    decide_changes(federation, ALL, None)
    federation = read({
        "streams/largest.yaml": "stream: largest\nbound: 1s\n",
        "reader.py": READER.replace("outputs=", 'bucket="1s", outputs='),
        **{f"participants/{name}.yaml": text.replace("10s", "1s")
           for name, text in (("alpha", ALPHA), ("beta", BETA))},
    })  # fmt: skip
    with pytest.raises(Refused, match="largest"):
        decide_changes(federation, ALL, None)


COLUMNS = '"ts_us": "bigint", "n": "int"'
BACK = READER.replace('"reader"', '"back"').replace("largest", "least").replace("alpha/", "")
CASES = {
    "no such stream": (
        {"reader.py": READER.replace("alpha/large", "alpha/larger")},
        ("gamma.yaml, line 3: runs[0].network cannot be run: source many of network reader reads "
         "stream alpha/larger, which no network that anybody runs writes: did you mean 'large'?"),
    ),
    "another writer": (
        {"reader.py": READER.replace("alpha/large", "beta/large")},
        "reads stream beta/large, which alpha writes: name the writer, or none",
    ),
    "other columns": (
        {"reader.py": READER.replace('"n": "int"', '"n": "bigint"')},
        "with columns (ts_us bigint, n bigint), and it has (ts_us bigint, n int): declare these",
    ),
    "columns in another order": (
        {"reader.py": READER.replace(COLUMNS, ", ".join(reversed(COLUMNS.split(", "))))},
        "declare these, in this order",
    ),
    "a bucket that is no multiple": (
        {"reader.py": READER.replace("outputs=", 'bucket="15s", outputs=')},
        "output largest has buckets of 15000000 us, no multiple of the 10000000 us",
    ),
    "landed again": (
        {"participants/gamma.yaml": READS.format(name="gamma") + "    sources: [many]\n"},
        ("gamma.yaml, line 5: runs[0].sources[0] is many, which reads stream alpha/large: that has "
         "landed already; leave it out"),
    ),
    "read twice": (
        {"reader.py": READER.replace(
            "sources=(", 'sources=(Source(name="again", columns={"n": "int"}, stream="large"), ')},
        "sources again and many of network reader both read stream large",
    ),
    "a key": (
        {"reader.py": READER.replace('stream="alpha', 'key=("n",), stream="alpha')},
        "reads stream alpha/large, whose records have landed already: leave key out",
    ),
    "no name": (
        {"reader.py": READER.replace("alpha/large", "alpha/mine/large")},
        "participant that source 'many' of network reader reads, 'alpha/mine'",
    ),
    "its own output": (
        {"reader.py": READER.replace("alpha/large", "largest")}, "two streams of network reader"
    ),
    "an output of the same name as in another network": (
        {"reader.py": READER.replace("largest", "result")},
        "stream result belongs to network mine and to reader: rename it in one of them",
    ),
    "a feed for what is read": (
        {"streams/large.yaml": "stream: large\nsource: {kind: directory, path: incoming}\n"},
        "feeds large, which is computed",
    ),
    "a cycle through three networks": (
        {
            "reader.py": READER.replace("alpha/large", "rounder"),
            "back.py": BACK.replace('stream="large"', 'stream="largest"'),
            "round.py": READER.replace('"reader"', '"round"').replace("largest", "rounder")
            .replace("alpha/large", "least"),
            "participants/gamma.yaml": READS.format(name="gamma")
            + "  - {network: back.py, fragments: [main]}\n"
            + "  - {network: round.py, fragments: [main]}\n",
        },
        "streams are computed from each other: ",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_read_is_refused_with_what_to_do(read: Reader, case: str) -> None:
    changed, sentence = CASES[case]
    with pytest.raises(Refused) as refused:
        read(changed)
    assert sentence in str(refused.value)


def test_a_cycle_is_named_in_the_direction_of_the_data(read: Reader) -> None:
    changed, _ = CASES["a cycle through three networks"]
    with pytest.raises(Refused) as refused:
        read(changed)
    path = str(refused.value).split(": ", 1)[1].split(";")[0].split(" -> ")
    assert path[0] == path[-1]
    follows = {
        "gamma/largest": "gamma/least",
        "gamma/least": "gamma/rounder",
        "gamma/rounder": "gamma/largest",
    }
    assert all(follows[one] == other for one, other in pairwise(path))


def test_fragments_of_two_networks_may_read_each_other_without_a_cycle(read: Reader) -> None:
    """Mine -> reader -> a second fragment that belongs to mine."""
    network = FILES["mine.py"].replace(
        " boxes=(",
        ' boxes=(Filter(name="odd", input="back", cases={"yes": "n % 2 = 1"}, fragment="third"),',
    ).replace(
        'sources=(', 'sources=(Source(name="back", columns={"ts_us": "bigint", "n": "int"}, '
        'stream="largest"), '
    ).replace("outputs=(", 'outputs=(Output(name="odds", input="odd"), ')  # fmt: skip
    federation = read({
        "mine.py": network,
        "participants/beta.yaml": BETA.replace("[second]", "[second, third]"),
    })  # fmt: skip
    order = [fragment.id for fragment in federation.order]
    assert order.index("mine/first") < order.index("reader/main") < order.index("mine/third")
    homes = applied(federation, ALL)
    assert set(homes[B].log) == {
        "mine/first", "mine/second", "mine/third", "import/large", "reader/main", "import/largest"
    }  # fmt: skip
    assert all(home.is_same for home in decide_changes(federation, homes, None))


def offering(lineage: tuple[tuple[str, str], ...]) -> Callable[..., PartnerStream]:
    """A partner elsewhere whose stream `seen` is computed as the lineage says."""

    def offers(writer: Participant, stream: StreamName, reader: Participant) -> PartnerStream:
        assert stream == "seen"
        record = StreamRecord(
            name=stream,
            kind="derived",
            width_us=10 * 1_000_000,
            columns={"ts_us": "bigint", "n": "int"},
        )
        return PartnerStream(record=record, replicas=(2,), lineage=lineage)

    return offers


ELSEWHERE = {
    "reader.py": READER.replace("alpha/large", "delta/seen"),
    "participants/delta.yaml": "participant: delta\n"
    "public_key: ed25519:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n",
}


def read_offered(
    folder: Path, lineage: tuple[tuple[str, str], ...], changed: Mapping[str, str] | None = None
) -> Federation:
    files = COMPOSED | ELSEWHERE | dict(changed or {})
    return read_federation(write_contracts(folder / "c", files), folder, offering(lineage))


def test_a_partners_stream_is_deployed_with_the_replica_that_the_partner_has(
    tmp_path: Path,
) -> None:
    federation = read_offered(tmp_path, (("delta/raw", "delta/seen"),))
    homes = applied(federation, ALL)
    assert set(homes[G].log) == {"delta/seen", "import/seen", "reader/main"}
    (line,) = [line for line in homes[G].lines if line.stream == "seen"]
    assert (line.producer.participant, line.producer.replica) == ("delta", 2)
    assert not {"delta/seen", "import/seen"} & set(homes[A].log)
    assert all(home.is_same for home in decide_changes(federation, homes, None))


@pytest.mark.parametrize(
    ("contract", "sentence"),
    [
        ("readers: [beta]", "is to read seen, which delta writes and grants: leave it out"),
        ("bound: 30s", "promises a bound of seen, which a partner writes"),
        ("replicas: 2", "is declared for seen, which a partner writes (delta)"),
        ("source: {kind: directory, path: x}", "feeds seen, which a partner writes"),
    ],
)
def test_a_contract_does_not_say_what_only_the_writer_of_a_stream_can(
    tmp_path: Path, contract: str, sentence: str
) -> None:
    with pytest.raises(Refused) as refused:
        read_offered(tmp_path, (), {"streams/seen.yaml": f"stream: seen\n{contract}\n"})
    assert sentence in str(refused.value)


def test_a_copy_of_a_partners_stream_is_kept_and_due_as_the_readers_contract_says(
    tmp_path: Path,
) -> None:
    contract = {"streams/seen.yaml": "stream: seen\nretention: 7d\nlag: 3s\n"}
    federation = read_offered(tmp_path, (), contract)
    (gamma,) = (d for d in decide_changes(federation, ALL, None) if d.participant == G)
    assert gamma.retentions == {"seen": 7 * 86_400_000}
    assert gamma.promises["seen"].lag_ms == gamma.promises["largest"].lag_ms == 3_000


def test_without_an_offer_a_stream_has_buckets_that_suit_all_who_read_it(tmp_path: Path) -> None:
    again = ELSEWHERE["reader.py"].replace('"reader"', '"again"').replace("largest", "larger")
    files = COMPOSED | ELSEWHERE | {
        "again.py": again.replace("outputs=", 'bucket="15s", outputs='),
        "participants/gamma.yaml": READS.format(name="gamma")
        + "  - {network: again.py, fragments: [main]}\n",
    }  # fmt: skip
    federation = read_federation(write_contracts(tmp_path / "c", files), tmp_path)
    (imported,) = (n for n in federation.networks if n.name == "delta/seen")
    assert imported.width_us == 5 * SECOND_US


def test_two_networks_read_a_partners_stream_that_is_imported_once(tmp_path: Path) -> None:
    again = ELSEWHERE["reader.py"].replace('"reader"', '"again"').replace("largest", "larger")
    runs = READS.format(name="gamma") + "  - {network: again.py, fragments: [main]}\n"
    federation = read_offered(tmp_path, (), {"again.py": again, "participants/gamma.yaml": runs})
    homes = applied(federation, ALL)
    assert set(homes[G].log) == {"delta/seen", "import/seen", "reader/main", "again/main"}


def test_of_two_partners_streams_of_one_name_a_home_reads_one(tmp_path: Path) -> None:
    again = ELSEWHERE["reader.py"].replace("delta", "omega").replace("largest", "larger")
    files = {
        "again.py": again.replace('"reader"', '"again"'),
        "participants/omega.yaml": ELSEWHERE["participants/delta.yaml"].replace("delta", "omega"),
        "participants/gamma.yaml": READS.format(name="gamma")
        + "  - {network: again.py, fragments: [main]}\n",
    }
    with pytest.raises(Refused, match="another source reads omega/seen: a home holds one stream"):
        read_offered(tmp_path, (), files)


def test_a_cycle_through_homes_elsewhere_is_refused_with_its_whole_path(tmp_path: Path) -> None:
    lineage = (
        ("gamma/largest", "omega/middle"),
        ("omega/middle", "delta/raw"),
        ("delta/raw", "delta/seen"),
        ("delta/other", "delta/raw"),
    )
    with pytest.raises(Refused) as refused:
        read_offered(tmp_path, lineage)
    path = str(refused.value).split(": ", 1)[1].split(";")[0].split(" -> ")
    assert sorted(path[1:]) == ["delta/raw", "delta/seen", "gamma/largest", "omega/middle"]
    edges = {*lineage, ("delta/seen", "gamma/largest")}
    assert all(edge in edges for edge in pairwise(path))


EDGES = st.lists(st.tuples(st.sampled_from("abcdefg"), st.sampled_from("abcdefg")), max_size=12)


@given(EDGES)
def test_streams_are_refused_exactly_if_a_topological_order_does_not_exist(
    edges: list[tuple[str, str]],
) -> None:
    sorter = TopologicalSorter[str]()
    for reads, writes in edges:
        sorter.add(writes, reads)
    try:
        sorter.prepare()
    except CycleError:
        with pytest.raises(Refused) as refused:
            check_acyclic([tuple(edges)])
        path = str(refused.value).split(": ", 1)[1].split(";")[0].split(" -> ")
        assert path[0] == path[-1]
        assert set(pairwise(path)) <= set(edges)
    else:
        check_acyclic([tuple(edges)])


SECOND_US = 1_000_000
LATE = {"participants/gamma.yaml": READS.format(name="gamma") + "    from: {start}\n"}


def starting(read: Reader, start: str, **more: str) -> Federation:
    return read({name: text.format(start=start) for name, text in LATE.items()} | more)


@pytest.mark.parametrize(
    ("start", "starts_us"),
    [
        ("origin", None),
        ("now", 110 * SECOND_US),
        ("1970-01-01T00:05:00Z", 300 * SECOND_US),
        ("1970-01-01T00:05:03Z", 310 * SECOND_US),
    ],
)
def test_a_network_starts_where_its_contract_says_and_stays_there(
    read: Reader, start: str, starts_us: int | None
) -> None:
    at_101_s = {name: replace(home, clock_ms=101_000) for name, home in ALL.items()}
    homes = applied(starting(read, start), at_101_s)
    assert homes[G].fragments["reader/main"].starts_us == starts_us
    assert homes[G].fragments["mine/first"].starts_us is None
    later = {name: replace(home, clock_ms=900_000) for name, home in homes.items()}
    assert all(home.is_same for home in decide_changes(starting(read, start), later, None))
    assert all(home.is_same for home in decide_changes(read(), later, None)), "none is declared"


def test_the_table_says_where_a_network_starts(read: Reader) -> None:
    decided = decide_changes(starting(read, "1970-01-01T00:05:00Z"), ALL, None)
    shown = {(c.what, c.name): c.detail for c in decided[2].changes}
    assert shown["network", "reader"].endswith(", starts at 1970-01-01T00:05:00Z")


@pytest.mark.parametrize("start", ["origin", "1970-01-01T00:06:00Z"])
def test_a_start_is_not_changed_in_place(read: Reader, start: str) -> None:
    homes = applied(starting(read, "1970-01-01T00:05:00Z"), ALL)
    with pytest.raises(Refused, match="network reader starts at 1970-01-01T00:05:00Z in the home"):
        decide_changes(starting(read, start), homes, None)


def test_homes_that_come_later_start_a_network_where_it_started(read: Reader) -> None:
    delta = Participant("delta")
    homes = applied(starting(read, "now"), {**ALL, A: HomeSnapshot(clock_ms=101_000)})
    more = {"participants/delta.yaml": READS.format(name="delta") + "    from: now\n"}
    federation = starting(read, "now", **more)
    later = applied(federation, {**homes, delta: HomeSnapshot(clock_ms=900_000)})
    assert later[delta].fragments["reader/main"].starts_us == 110 * SECOND_US
    apart = replace(later[delta].fragments["reader/main"], starts_us=None)
    fragments = {**later[delta].fragments, "reader/main": apart}
    with pytest.raises(Conflict, match=r"network reader starts at .* and at .* operators must"):
        decide_changes(
            federation, {**later, delta: replace(later[delta], fragments=fragments)}, None
        )


@pytest.mark.parametrize(
    ("start", "sentence"),
    [
        ("soon", "runs[0].from is 'soon': write origin, now or an event time, such as 2026"),
        ("[now]", "runs[0].from"),
    ],
)
def test_a_start_that_is_none_is_refused(read: Reader, start: str, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        starting(read, start)
    assert sentence in str(refused.value)


def test_participants_agree_on_the_start_of_a_network(read: Reader) -> None:
    more = {"participants/delta.yaml": READS.format(name="delta") + "    from: origin\n"}
    with pytest.raises(
        Refused, match=r"gives network reader another start than .*delta.yaml, line"
    ):
        starting(read, "now", **more)


def test_a_late_network_is_told_from_when_on_its_input_is_kept(
    read: Reader, tmp_path: Path
) -> None:
    """Windows of 30 s that are there whole begin with the bucket in which the first one ends."""
    windows = READER.replace("Filter, ", "Aggregate, ").replace(
        'Filter(name="huge", input="many", cases={"yes": "n > 100"})',
        'Aggregate(name="huge", input="many", size="30s", advance="10s", columns={"n": "sum(n)"})',
    )
    before = read_federation(write_contracts(tmp_path / "before", FILES), tmp_path)
    both = {A: HomeSnapshot(clock_ms=0), B: HomeSnapshot(clock_ms=0)}
    homes = dict(applied(before, both)) | {G: HomeSnapshot(clock_ms=0)}
    alpha = reached(trimmed(homes[A], "large", 100 * SECOND_US), "large", 200 * SECOND_US)
    homes[A] = alpha
    late = {"reader.py": windows}
    with pytest.raises(Refused) as refused:
        decide_changes(read(late), homes, None)
    first = "1970-01-01T00:02:00Z"
    assert (
        "fragment reader/main of gamma reads stream large from its first bucket on, and alpha "
        "keeps it from 1970-01-01T00:01:40Z on: "
        f"write from: {first} under runs, or a later time"
    ) in str(refused.value)
    for start in ("1970-01-01T00:01:50Z", "1970-01-01T00:01:40Z"):
        with pytest.raises(Refused, match=f"write from: {first} under"):
            decide_changes(starting(read, start, **late), homes, None)
    applied(starting(read, first, **late), homes)
