"""A source that is revised, and all that is computed from it: with real files, in Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Filter,
    Join,
    Network,
    Output,
    Rank,
    Running,
    Session,
    Source,
)
from pipelines.base.settings import Settings
from pipelines.cli.main import main
from pipelines.homes.home import Home, open_home
from tests.datasource.building import Medusa
from tests.home_pool import home_pool
from tests.replaying import SECOND_US, SOLO, Digests, Replayer, digests
from tests.sweeps import long_but

pytestmark = pytest.mark.usefixtures("interpreted")

MONKEY = pytest.MonkeyPatch
CAPTURED = pytest.CaptureFixture[str]
CALLS, COUNTS, BUSY = (StreamName(name) for name in ("calls", "counts", "busy"))
WHY = ("--because", "the line was read twice")
BUCKET_S = 10

NETWORK = Network(
    name="revised",
    sources=(
        Source(
            name="calls", columns={"at_s": "bigint", "line": "string"}, time="at_s", time_unit="s"
        ),
    ),
    boxes=(
        Aggregate(
            name="counted", input="calls", size="20s", advance="10s", group_by=("line",),
            columns={"n": "count(*)"},
        ),
        Filter(name="many", input="counted", cases={"yes": "n > 4"}, fragment="tail"),
        Join(
            name="pairs", left="many.yes", right="calls", on=("line",), within=("-5s", "0s"),
            columns={"line": "left.line", "n": "left.n", "at_s": "right.at_s"}, fragment="tail",
        ),
    ),
    outputs=(Output(name="counts", input="counted"), Output(name="busy", input="pairs")),
)  # fmt: skip


SEVERAL = Network(
    name="several",
    sources=NETWORK.sources,
    boxes=(
        Filter(name="some", input="calls", cases={"yes": "line = 'a'"}),
        Running(
            name="so_far", input="calls", by=("line",), within="2m", columns={"n": "count(*)"}
        ),
        Session(
            name="visits", input="calls", by=("line",), gap="5s", length_max="30s",
            columns={"n": "count(*)"},
        ),
        Rank(name="most", input="calls", size="20s", order=("line desc", "at_s"), k=2),
    ),
    outputs=(
        Output(name="passed", input="some"),
        Output(name="totals", input="so_far"),
        Output(name="sessions", input="visits"),
        Output(name="first", input="most"),
    ),
)  # fmt: skip
"""Outputs of one fragment that owe different buckets for one revised record."""


def calls(*, dropped: Sequence[int] = (), extra: Sequence[int] = ()) -> str:
    """A call every four seconds on line a, every seven on line b, for 200 seconds."""
    seconds = [at for at in range(0, 200, 4) if at not in dropped]
    rows = [(at, "a") for at in (*seconds, *extra)] + [(at, "b") for at in range(0, 200, 7)]
    return "".join(f"{at},{line}\n" for at, line in sorted(rows))


def a_file(path: Path, rows: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("at_s,line\n" + rows)
    return path


@dataclass
class RevisedHome:
    """A home in which the calls were replayed."""

    home: Home
    settings: Settings
    replayer: Replayer
    folder: Path
    monkeypatch: MONKEY
    network: Network = NETWORK

    def run(self) -> None:
        """Compute what is owed."""
        inputs = {"calls": [self.folder / "in/calls.csv"]}
        self.replayer.run(self.home, self.network, inputs, width_s=BUCKET_S)

    def revise(self, *words: str) -> int:
        self.monkeypatch.setenv("MEDUSA_DIR", str(self.settings.directory))
        self.monkeypatch.setenv("MEDUSA_CATALOG_URL", str(self.settings.catalog_url))
        return main(["revise", "calls", *words])

    def changes(self, stream: str, capsys: CAPTURED) -> list[dict[str, Any]]:
        """What `medusa changes` says of a stream from its beginning to the present."""
        capsys.readouterr()
        documents = []
        since = "0"
        while True:
            assert main(["changes", stream, "--since", since, "--limit", "1", "--json"]) == 0
            answer = json.loads(capsys.readouterr().out)
            documents += answer["changes"]
            since = answer["position"]
            if not answer["has_more"]:
                return documents

    def digests(self) -> Digests:
        """Of all outputs, by bucket."""
        return digests(self.home, self.network)

    def corrected(self) -> list[tuple[str, int, int]]:
        """The buckets, in seconds, that corrections computed."""
        return [
            (stream, r.ranges[at].from_us // SECOND_US, r.ranges[at].to_us // SECOND_US)
            for stream in (COUNTS, BUSY)
            for r in self.home.catalog.recalls(stream)
            for at in range(len(r.ranges))
        ]


@pytest.fixture
def revised(
    replayer: Replayer, tmp_path: Path, monkeypatch: MONKEY, request: pytest.FixtureRequest
) -> Iterator[RevisedHome]:
    a_file(tmp_path / "in/calls.csv", calls())
    network = getattr(request, "param", NETWORK)
    with (
        home_pool(replayer.server, tmp_path / "home", SOLO) as settings,
        open_home(settings, SOLO) as home,
    ):
        found = RevisedHome(home, settings, replayer, tmp_path, monkeypatch, network)
        found.run()
        yield found


def of_whole(replayer: Replayer, folder: Path, rows: str, network: Network = NETWORK) -> Digests:
    """What a replay of these records computes in a home of its own."""
    with replayer.home("whole") as home:
        inputs = {"calls": [a_file(folder / "whole/calls.csv", rows)]}
        replayer.run(home, network, inputs, width_s=BUCKET_S)
        return digests(home, network)


ACTIONS = {
    "add": ("--add", "85,a\n86,a\n87,a\n", calls(extra=(85, 86, 87))),
    "remove": ("--remove", "84,a\n88,a\n", calls(dropped=(84, 88))),
    "replace": ("--replace", "81,a\n84,b\n", calls(dropped=(80, 84, 88), extra=(81,))),
}


@pytest.mark.parametrize("action", long_but(1, ACTIONS))
def test_a_revised_home_holds_what_a_replay_of_the_right_records_computes(
    action: str, revised: RevisedHome, tmp_path: Path, capsys: CAPTURED
) -> None:
    option, rows, whole = ACTIONS[action]
    before = revised.digests()
    assert revised.revise(option, str(a_file(tmp_path / "it.csv", rows)), *WHY, "--yes") == 0
    assert revised.digests() == before, "results stay as they are until they are computed again"
    revised.run()
    assert revised.digests() == of_whole(revised.replayer, tmp_path, whole)
    assert revised.digests() != before
    # The bucket from 80 s is needed by the windows that end at 90 s and 100 s.
    counted = [part for part in revised.corrected() if part[0] == COUNTS]
    assert counted == [(COUNTS, 80, 100)]
    assert all(80 <= begin < end <= 110 for _, begin, end in revised.corrected())
    # Changes name the revision to which they belong, of the source and of what is computed from it.
    for stream, seconds in ((CALLS, {80}), (COUNTS, {80, 90})):
        found = revised.changes(stream, capsys)
        assert {c["_bucket"] // SECOND_US for c in found if c["_revision"] is not None} == seconds
        assert {c["_revision"] for c in found} == {None, 2}


def test_revised_buckets_apart_from_each_other_are_computed_in_one_commit(
    revised: RevisedHome, tmp_path: Path
) -> None:
    before = len(revised.home.catalog.steps())
    late = str(a_file(tmp_path / "it.csv", "25,a\n85,a\n145,a\n"))
    assert revised.revise("--add", late, *WHY, "--yes") == 0
    revised.run()
    whole = of_whole(revised.replayer, tmp_path, calls(extra=(25, 85, 145)))
    assert revised.digests() == whole
    (counted,) = revised.home.catalog.recalls(COUNTS)
    seconds = [(r.from_us // SECOND_US, r.to_us // SECOND_US) for r in counted.ranges]
    assert seconds == [(20, 40), (80, 100), (140, 160)]
    commits = [s.fragment for s in revised.home.catalog.steps()[before:]]
    assert commits.count("revised/main") == 1


@pytest.mark.long
@pytest.mark.parametrize("revised", [SEVERAL], indirect=True, ids=["several"])
def test_outputs_that_owe_different_buckets_are_computed_in_as_many_runs_of_the_job(
    revised: RevisedHome, tmp_path: Path
) -> None:
    before = len(revised.home.catalog.steps())
    late = str(a_file(tmp_path / "it.csv", "25,a\n65,a\n105,a\n145,b\n"))
    assert revised.revise("--add", late, *WHY, "--yes") == 0
    revised.run()
    rows = sorted(
        [*calls(extra=(25, 65, 105)).splitlines(), "145,b"], key=lambda row: int(row.split(",")[0])
    )
    whole = of_whole(revised.replayer, tmp_path, "\n".join([*rows, ""]), SEVERAL)
    assert revised.digests() == whole
    assert len(revised.home.catalog.steps()) - before <= len(SEVERAL.outputs)


@pytest.mark.long
def test_rows_that_spark_reads_name_the_revision_that_made_them(
    revised: RevisedHome, tmp_path: Path
) -> None:
    option, rows, _ = ACTIONS["replace"]
    assert revised.revise(option, str(a_file(tmp_path / "it.csv", rows)), *WHY, "--yes") == 0
    revised.run()
    environment = {
        "MEDUSA_DIR": str(revised.settings.directory),
        "MEDUSA_CATALOG_URL": str(revised.settings.catalog_url),
    }
    with Medusa(revised.replayer.spark).seeing(environment) as medusa:
        for stream, buckets in ((CALLS, {80}), (COUNTS, {80, 90})):
            read = medusa.read(stream, stability="all").collect()
            made = {r["_revision"]: set[int]() for r in read}
            for row in read:
                second = int(row["stime"].timestamp())
                made[row["_revision"]].add(second // BUCKET_S * BUCKET_S)
            assert made.pop(2) == buckets
            assert set(made) == {None}
            assert "_revision" not in medusa.read(stream).columns


def test_the_plan_names_what_may_change_and_changes_nothing(
    revised: RevisedHome, tmp_path: Path, capsys: CAPTURED
) -> None:
    file = str(a_file(tmp_path / "it.csv", "85,a\n"))
    capsys.readouterr()
    assert revised.revise("--add", file, *WHY, "--explain", "--json") == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (plan["explained"], plan["rows_before"], plan["rows_after"]) == (True, 4, 5)
    assert [(one["stream"], one["buckets"]) for one in plan["behind"]] == [
        ("busy", 2),
        ("counts", 2),
    ]
    assert revised.revise("--add", file, *WHY) == 2, "without a terminal it needs --yes"
    assert revised.home.catalog.recalls() == ()
    assert revised.revise("--add", file, *WHY, "--yes") == 0
    (done,) = revised.home.catalog.recalls()
    assert (done.stream, done.because) == (CALLS, WHY[1])
    assert "generation 2" in capsys.readouterr().out


REFUSED = {
    "a record that is not there": (("--remove", "85,a\n", *WHY), "not in the stream"),
    "a record behind the end": (("--add", "900,a\n", *WHY), "outside of what is stable"),
    "a record that does not fit": (("--add", "85,a\nx,a\n", *WHY), "correct it"),
    "no record": (("--add", "", *WHY), "no record"),
    "no reason": (("--add", "85,a\n"), "--because"),
}


def test_what_cannot_be_revised_is_refused_in_a_sentence(
    revised: RevisedHome, tmp_path: Path, capsys: CAPTURED
) -> None:
    for name, ((option, rows, *why), words) in REFUSED.items():
        capsys.readouterr()
        file = str(a_file(tmp_path / "it.csv", rows))
        assert revised.revise(option, file, *why, "--yes") == 2, name
        assert words in capsys.readouterr().err, name
    assert revised.home.catalog.recalls() == ()
