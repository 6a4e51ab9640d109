"""What is decided from contracts and from what stands: the same logs in every home, whatever came
before, and a new plan only where nothing is final yet."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from medusa_core.errors import Conflict, Refused
from medusa_core.grid import FOREVER_US
from medusa_core.names import Participant, StreamName
from pipelines.contracts.apply_changes import HomeChanges, decide_changes
from pipelines.contracts.assignments import PlanStart
from pipelines.contracts.comparison_rows import Mark, readers_shown
from pipelines.contracts.federation import Federation, read_federation
from pipelines.contracts.home_snapshot import OWNER, READERS, READING, Grant, HomeSnapshot
from tests.contracts.writing import (
    ALPHA,
    BETA,
    FILES,
    NETWORK,
    TICKS,
    brought_in,
    nothing,
    reached,
    trimmed,
    write_contracts,
)

ALL, BOTH = nothing("alpha", "beta"), ("alpha", "beta")
A, B = Participant("alpha"), Participant("beta")
CHANGED = {**FILES, "mine.py": NETWORK.replace("n > 1", "n > 2")}
AGAIN = {**FILES, "mine.py": NETWORK.replace("n > 1", "n > 3")}
SECOND = 1_000_000
Homes = Mapping[Participant, HomeSnapshot]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


class Reader:
    """Reads contracts given as files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, files: Mapping[str, str] = FILES) -> Federation:
        shutil.rmtree(self._folder / "c", ignore_errors=True)
        return read_federation(write_contracts(self._folder / "c", files), self._folder)


def applied(
    federation: Federation,
    homes: Homes,
    asked: PlanStart | None = None,
    only: tuple[str, ...] = BOTH,
) -> Homes:
    decided = decide_changes(federation, homes, asked)
    done = {d.participant: brought_in(homes[d.participant], d) for d in decided}
    return {name: done[name] if name in only else homes[name] for name in homes}


def is_settled(federation: Federation, homes: Homes) -> bool:
    decided = decide_changes(federation, homes, None)
    return all(d.is_same and not d.deployments and not d.sources for d in decided)


def logs(homes: Homes, fragment: str) -> list[list[tuple[int, str, int | None]]]:
    """The log of a fragment in each home that knows it: epoch, owner, first bucket."""
    return [
        [(line.epoch, line.producer.participant, line.from_us) for line in home.log[fragment]]
        for home in homes.values()
        if fragment in home.log
    ]


def begun(homes: Homes) -> Homes:
    """The source has come to 40 s in alpha, what is computed of it to 30 s."""
    alpha = reached(reached(homes[A], "ticks", 40 * SECOND), "large", 30 * SECOND)
    return {**homes, A: alpha, B: reached(homes[B], "large", 20 * SECOND)}


def marks(decided: tuple[HomeChanges, ...], what: str) -> list[tuple[str, str]]:
    return [(c.mark.value, c.name) for home in decided for c in home.changes if c.what == what]


def test_a_home_lets_those_read_a_stream_that_compute_with_it_and_nobody_else(read: Reader) -> None:
    decided = decide_changes(read(), ALL, None)
    assert [home.readers for home in decided] == [{("large", READING): {"beta"}}, {}]
    assert marks(decided, "readers") == [("+", "large")]
    homes = applied(read(), ALL)
    assert marks(decide_changes(read(), homes, None), "readers") == [("=", "large")]


def test_what_the_owner_granted_to_others_stays_as_it_is(read: Reader) -> None:
    homes = applied(read(), ALL)
    by_hand = homes[A].grants | {grant("large", "gamma", OWNER), grant("large", "beta", OWNER)}
    decided = decide_changes(read(), {**homes, A: replace(homes[A], grants=by_hand)}, None)
    assert [c.detail for c in decided[0].changes if c.what == "readers"] == ["beta"]
    assert decided[0].is_same


def grant(stream: str, partner: str, reason: str) -> Grant:
    return Grant(StreamName(stream), Participant(partner), reason)


def test_readers_that_are_new_and_readers_that_end_are_named_among_the_others() -> None:
    beta, gamma, delta = (grant("large", name, READERS) for name in ("beta", "gamma", "delta"))
    cases = {
        Mark.NEW: ({beta}, set(), "beta"),
        Mark.CHANGED: ({beta, gamma}, {beta, delta}, "beta and gamma (new: gamma) (ended: delta)"),
        Mark.SAME: ({beta}, {beta}, "beta"),
    }
    for mark, (shall_be, is_now, detail) in cases.items():
        (shown,) = readers_shown(StreamName("large"), shall_be, is_now)
        assert (shown.mark, shown.detail) == (mark, detail)
    (ended,) = readers_shown(StreamName("large"), set(), {beta})
    assert (ended.mark, ended.detail) == (Mark.CHANGED, "nobody (ended: beta)")
    assert not list(readers_shown(StreamName("large"), set(), {grant("large", "beta", OWNER)}))


def test_a_partner_that_was_removed_is_left_out_until_it_has_joined_again(read: Reader) -> None:
    homes = applied(read(), ALL)
    alpha = replace(homes[A], grants=frozenset(), removed=frozenset({B}))
    decided = decide_changes(read(), {**homes, A: alpha}, None)
    assert (decided[0].is_same, decided[0].readers) == (True, {})
    (shown,) = [change for change in decided[0].changes if change.what == "readers"]
    assert (shown.mark, shown.detail) == (Mark.SAME, "nobody (left out: beta, removed)")
    still_granted = {**homes, A: replace(homes[A], removed=frozenset({B}))}
    assert applied(read(), still_granted)[A].grants == frozenset()
    again = applied(read(), {**homes, A: replace(alpha, removed=frozenset())})
    assert again[A].grants == {grant("large", "beta", READING)}


LISTED = {
    "streams/large.yaml": "stream: large\nreaders: [gamma]\n",
    "participants/gamma.yaml": "participant: gamma\n",
}


def test_whoever_a_streams_contract_lists_may_read_it_until_it_is_listed_no_more(
    read: Reader,
) -> None:
    homes = applied(read(FILES | LISTED), ALL)
    assert homes[A].grants == {grant("large", "beta", READING), grant("large", "gamma", READERS)}
    assert is_settled(read(FILES | LISTED), homes)
    less = LISTED | {"streams/large.yaml": "stream: large\n"}
    decided = decide_changes(read(FILES | less), homes, None)
    assert decided[0].readers == {("large", READERS): frozenset()}
    assert applied(read(FILES | less), homes)[A].grants == {grant("large", "beta", READING)}


def test_a_partner_that_reads_and_is_listed_is_granted_the_stream_for_both_reasons(
    read: Reader,
) -> None:
    both = LISTED | {"streams/large.yaml": "stream: large\nreaders: [beta]\n"}
    homes = applied(read(FILES | both), ALL)
    assert homes[A].grants == {grant("large", "beta", READING), grant("large", "beta", READERS)}
    assert applied(read(FILES | LISTED | {"streams/large.yaml": "stream: large\n"}), homes)[
        A
    ].grants == {grant("large", "beta", READING)}


@pytest.mark.parametrize(
    ("listed", "sentence"),
    [
        (
            "[gama]",
            "readers[0] is gama, without a contract as participant: did you mean 'gamma'?",
        ),
        ("[alpha]", "readers[0] is alpha, who writes large: leave it out"),
        ("[gamma, gamma]", "readers[1] names gamma again"),
        ("gamma", "readers is 'gamma': write a list, such as"),
    ],
)
def test_readers_that_cannot_be_are_refused(read: Reader, listed: str, sentence: str) -> None:
    changed = {"streams/large.yaml": f"stream: large\nreaders: {listed}\n"}
    with pytest.raises(Refused) as refused:
        read(FILES | LISTED | changed)
    assert sentence in str(refused.value)


def test_a_home_gets_what_it_runs_and_the_lines_of_those_it_reads(read: Reader) -> None:
    homes = applied(read(), ALL)
    assert set(homes[A].log) == {"landing/ticks", "mine/first"}
    assert set(homes[B].log) == {"mine/second", "mine/first", "import/large"}
    assert {(ln.stream, ln.producer.participant) for ln in homes[B].lines} == {
        ("large", "alpha"), ("result", "beta")
    }  # fmt: skip
    assert homes[B].fragments["import/large"].outputs == ()
    assert set(homes[A].streams) == set(homes[B].streams) == {"ticks", "large", "result"}
    assert set(homes[A].sources) == {"ticks"}
    assert not homes[B].sources


def test_the_same_again_changes_nothing(read: Reader) -> None:
    homes = applied(read(), ALL)
    assert is_settled(read(), homes)
    assert is_settled(read(), begun(homes))


def test_applying_home_by_home_gives_the_same_result(read: Reader) -> None:
    whole = applied(read(), ALL)
    for first, second in (BOTH, BOTH[::-1]):
        assert applied(read(), applied(read(), ALL, only=(first,)), only=(second,)) == whole
        alone: dict[Participant, HomeSnapshot] = {}
        for name in (Participant(first), Participant(second)):
            alone |= applied(read(), {name: HomeSnapshot()})
        assert alone == whole


def test_a_network_that_computed_nothing_yet_is_changed_from_its_origin(read: Reader) -> None:
    homes = applied(read(CHANGED), applied(read(), ALL))
    assert logs(homes, "mine/first") == [[(1, "alpha", None), (2, "alpha", None)]] * 2
    assert is_settled(read(CHANGED), homes)


def test_a_changed_network_needs_a_named_bucket_and_says_the_first_possible_one(
    read: Reader,
) -> None:
    homes = begun(applied(read(), ALL))
    with pytest.raises(Refused, match=r"its boxes or sources.*--from.*1970-01-01T00:00:40Z"):
        decide_changes(read(CHANGED), homes, None)
    with pytest.raises(Refused, match=r"is in the final part.*1970-01-01T00:00:40Z"):
        decide_changes(read(CHANGED), homes, PlanStart(30 * SECOND))
    with pytest.raises(Refused, match=r"is no bucket .* 10 s long: the next .*00:00:50Z"):
        decide_changes(read(CHANGED), homes, PlanStart(45 * SECOND))


def test_a_changed_network_is_a_new_plan_from_the_named_bucket_in_every_home(read: Reader) -> None:
    homes = begun(applied(read(), ALL))
    decided = decide_changes(read(CHANGED), homes, PlanStart(40 * SECOND))
    assert marks(decided, "network") == [("~", "mine")] * 2
    assert {mark for mark, _ in marks(decided, "fragment")} == {"~"}
    after = applied(read(CHANGED), homes, PlanStart(40 * SECOND))
    for fragment, owner in (("mine/first", "alpha"), ("mine/second", "beta"),
                            ("import/large", "beta"), ("landing/ticks", "alpha")):  # fmt: skip
        for log in logs(after, fragment):
            assert log == [(1, owner, None), (2, owner, 40 * SECOND)]
    assert is_settled(read(CHANGED), after)


def test_now_is_the_next_bucket_by_the_catalogs_clock_or_the_first_possible_one(
    read: Reader,
) -> None:
    homes = begun(applied(read(), ALL))  # whose clock stands at 1,000 s
    after = applied(read(CHANGED), homes, PlanStart(None))
    assert logs(after, "mine/first")[0][-1] == (2, "alpha", 1_000 * SECOND)
    ahead = {**homes, A: reached(homes[A], "ticks", 2_000 * SECOND)}
    after = applied(read(CHANGED), ahead, PlanStart(None))
    assert logs(after, "mine/first")[0][-1] == (2, "alpha", 2_000 * SECOND)


def test_a_change_cut_short_is_gone_on_with_from_its_own_bucket(read: Reader) -> None:
    homes = begun(applied(read(), ALL))
    whole = applied(read(CHANGED), homes, PlanStart(40 * SECOND))
    for only in BOTH:
        half = applied(read(CHANGED), homes, PlanStart(40 * SECOND), only=(only,))
        assert applied(read(CHANGED), half) == whole
        assert applied(read(CHANGED), half, PlanStart(None)) == whole
        with pytest.raises(Refused, match="leave --from 1970-01-01T00:00:50Z out"):
            decide_changes(read(CHANGED), half, PlanStart(50 * SECOND))


def test_a_network_changed_back_and_forth_gets_a_line_each_time(read: Reader) -> None:
    homes = begun(applied(read(), ALL))
    for at, files in ((50, CHANGED), (60, FILES), (70, AGAIN)):
        homes = applied(read(files), homes, PlanStart(at * SECOND))
        assert is_settled(read(files), homes)
    starts = [None, 50 * SECOND, 60 * SECOND, 70 * SECOND]
    assert logs(homes, "mine/first") == [[(i + 1, "alpha", s) for i, s in enumerate(starts)]] * 2


def test_a_home_that_joins_late_gets_the_whole_log_with_its_plans(read: Reader) -> None:
    homes = applied(read(), {A: HomeSnapshot()})
    homes = {A: reached(homes[A], "ticks", 40 * SECOND)}
    for at, files in ((50, CHANGED), (60, FILES)):
        homes = applied(read(files), homes, PlanStart(at * SECOND))
    homes = applied(read(), {**homes, B: HomeSnapshot()})
    first, second = logs(homes, "mine/first")
    assert first == second
    assert len(first) == 3
    assert set(homes[B].plans) == set(homes[A].plans)
    assert is_settled(read(), homes)


def test_an_ended_network_cannot_be_changed(read: Reader) -> None:
    homes = applied(read(), ALL)
    for stream in ("ticks", "large", "result"):
        homes = {n: reached(h, stream, FOREVER_US, 70 * SECOND) for n, h in homes.items()}
    with pytest.raises(Refused, match="all its streams have ended"):
        decide_changes(read(CHANGED), homes, PlanStart(None))
    homes = {**homes, B: reached(homes[B], "result", 30 * SECOND)}
    with pytest.raises(Refused, match="first possible one is 1970-01-01T00:01:10Z"):
        decide_changes(read(CHANGED), homes, None)


DOUBLED = 'Map(name="doubled", input="big", columns={"m": "n * 2"}, fragment="second"),'
RESULT = ' Output(name="result", input="doubled")'
IN_PLACE = {
    "a width": (
        {"participants/alpha.yaml": ALPHA.replace("10s", "20s"),
         "participants/beta.yaml": BETA.replace("10s", "20s")},
        "exists in the home of alpha with buckets of 10 s, and its contract gives 20 s",
    ),
    "a column": ({"mine.py": NETWORK.replace('"m": "n * 2"', '"m2": "n * 2"')},
                 "stream result of network mine exists in the home of alpha with columns (m"),
    "a type": ({"mine.py": NETWORK.replace('"n": "int"', '"n": "bigint"')}, "columns (ts_us"),
    "a key": ({"mine.py": NETWORK.replace('time="ts_us"', 'time="ts_us", key=("n",)')}, "with key"),
    "an owner": (
        {"participants/alpha.yaml": ALPHA.replace("[first]", "[second]"),
         "participants/beta.yaml": BETA.replace("[second]", "[first]")},
        "that cannot be changed in place",
    ),
    "an output more": (
        {"mine.py": NETWORK.replace('Output(name="result"', 'Output(name="more", input="big"), '
                                    'Output(name="result"')},
        "fragment mine/first reads ticks and writes large",
    ),
    "a fragment less": (
        {"mine.py": NETWORK.replace(DOUBLED, "").replace(RESULT, ""),
         "participants/beta.yaml": "participant: beta\n"},
        "the contracts have it there no more",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("files", "says"), IN_PLACE.values(), ids=IN_PLACE)
def test_a_change_that_cannot_be_made_in_place_is_refused_with_a_remedy(
    files: dict[str, str], says: str, read: Reader
) -> None:
    homes = begun(applied(read(), ALL))
    with pytest.raises(Refused) as refused:
        decide_changes(read({**FILES, **files}), homes, PlanStart(None))
    assert says in str(refused.value)
    assert "cannot be changed in place" in str(refused.value)


def test_a_stream_that_another_network_has_here_is_refused(read: Reader) -> None:
    homes = applied(read(), ALL)
    other = {**FILES, "mine.py": NETWORK.replace('name="mine"', 'name="ours"')}
    with pytest.raises(Refused, match="belongs to network mine in the home of alpha"):
        decide_changes(read(other), homes, None)


def test_another_way_of_feeding_a_source_takes_the_place_of_the_old(read: Reader) -> None:
    homes = applied(read(), ALL)
    other = read({**FILES, "streams/ticks.yaml": TICKS + "  format: csv\n"})
    decided = decide_changes(other, homes, None)
    assert marks(decided, "source") == [("~", "ticks")]
    assert not any(home.deployments for home in decided)
    assert is_settled(other, applied(other, homes))


def test_homes_that_disagree_are_a_conflict(read: Reader) -> None:
    homes = begun(applied(read(), ALL))
    alpha = applied(read(CHANGED), {A: homes[A]}, PlanStart(50 * SECOND), only=("alpha",))
    beta = applied(read(CHANGED), {B: homes[B]}, PlanStart(60 * SECOND), only=("beta",))
    with pytest.raises(Conflict, match="disagree about fragment mine/first"):
        decide_changes(read(CHANGED), {**alpha, **beta}, None)


def test_an_owner_that_only_one_home_knows_is_a_conflict(read: Reader) -> None:
    homes = applied(read(), ALL)
    moved = tuple(
        replace(line, producer=line.producer._replace(participant=B))
        for line in homes[A].log["mine/first"]
    )
    stood = {**homes, A: replace(homes[A], log={**homes[A].log, "mine/first": moved})}
    with pytest.raises(Conflict, match="beta has it under plan"):
        decide_changes(read(), stood, None)


SECOND_BOX = '        Map(name="doubled", input="big", columns={"m": "n * 2"}, fragment="second"),'
WINDOWS = NETWORK.replace(
    SECOND_BOX,
    '        Aggregate(name="doubled", input="big", size="20s", columns={"m": "max(n)"}, '
    'fragment="second"),',
).replace("import Filter", "import Aggregate, Filter")
WINDOWED = {**FILES, "mine.py": WINDOWS}
WIDER = {**FILES, "mine.py": WINDOWS.replace('"20s"', '"60s"')}


def test_a_plan_that_reads_what_a_home_has_trimmed_is_refused_with_a_bucket_that_works(
    read: Reader,
) -> None:
    whole = begun(applied(read(WINDOWED), ALL))
    gone = {**whole, B: trimmed(whole[B], "large", 20 * SECOND)}
    with pytest.raises(Refused) as refused:
        decide_changes(read(WIDER), gone, PlanStart(40 * SECOND))
    assert str(refused.value) == (
        "fragment mine/second reads stream large from 1970-01-01T00:00:00Z on, and the home of "
        "beta keeps it from 1970-01-01T00:00:20Z on: the earliest bucket that works is "
        "1970-01-01T00:01:00Z; say --from 1970-01-01T00:01:00Z"
    )
    with pytest.raises(Refused, match="the earliest bucket that works is 1970-01-01T00:01:00Z"):
        decide_changes(read(WIDER), gone, PlanStart(50 * SECOND))
    after = applied(read(WIDER), gone, PlanStart(60 * SECOND))
    assert logs(after, "mine/second") == [[(1, "beta", None), (2, "beta", 60 * SECOND)]]
    assert is_settled(read(WIDER), after)
    assert logs(applied(read(WIDER), whole, PlanStart(40 * SECOND)), "mine/second"), "all is there"


def test_a_home_that_has_trimmed_before_it_knows_the_plan_of_the_others_is_told_so(
    read: Reader,
) -> None:
    whole = begun(applied(read(WINDOWED), ALL))
    half = applied(read(WIDER), whole, PlanStart(40 * SECOND), only=("alpha",))
    gone = {**half, B: trimmed(half[B], "large", 20 * SECOND)}
    with pytest.raises(Refused, match="some homes know this plan already, change the network"):
        decide_changes(read(WIDER), gone, None)


def test_what_a_new_plan_reads_is_to_be_held_for_it(read: Reader) -> None:
    whole = begun(applied(read(WINDOWED), ALL))
    for_alpha, for_beta = decide_changes(read(WIDER), whole, PlanStart(70 * SECOND))
    assert for_alpha.reach == {"mine": {"ticks": 70 * SECOND}}
    assert for_beta.reach == {"mine": {"large": 60 * SECOND}}
    assert not any(home.reach for home in decide_changes(read(WINDOWED), whole, None))


def test_a_retention_is_new_the_same_changed_and_gone(read: Reader) -> None:
    def with_retention(text: str) -> Federation:
        return read({**FILES, "streams/large.yaml": f"stream: large\n{text}"})

    homes = applied(with_retention("retention: 1h\n"), applied(read(), ALL))
    assert [home.retentions for home in homes.values()] == [{"large": 3_600_000}] * 2
    assert is_settled(with_retention("retention: 1h\n"), homes)
    longer = decide_changes(with_retention("retention: 2h\n"), homes, None)
    assert marks(longer, "retention") == [("~", "large")] * 2
    gone = decide_changes(with_retention(""), homes, None)
    assert [(c.mark, c.detail) for c in gone[1].changes if c.what == "retention"] == [
        (Mark.CHANGED, "1 h -> for good")
    ]
    assert is_settled(read(), applied(read(), homes))
    with pytest.raises(Refused, match="is no whole number of milliseconds"):
        with_retention("retention: 1500us\n")


def test_every_change_has_a_mark_and_a_word_for_it(read: Reader) -> None:
    decided = decide_changes(read(), ALL, None)
    assert {c.mark for home in decided for c in home.changes} == {Mark.NEW}
    assert {c.what for home in decided for c in home.changes} == {
        "home", "network", "streams", "fragment", "source", "readers"
    }  # fmt: skip
