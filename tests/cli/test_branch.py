"""`medusa branch`: a replay over kept history stays under a label and is compared with the home."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from pipelines.cli import main
from tests.cli.test_replay import NETWORK
from tests.conftest import folder_on_memory
from tests.replaying import parquet_files, replay_in
from tests.sweeps import long_but

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("interpreted")


COUNTED = """
from medusa_core.network import Filter, Network, Output, Source

network = Network(
    name="few",
    sources=(Source(name="c", columns={"window_start": "timestamp", "n": "bigint"},
                    stream="counted"),),
    boxes=(Filter(name="low", input="c", cases={"yes": "n < 10"}),),
    outputs=(Output(name="few", input="low"),),
)
"""


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the home of a replay: 100 records, one a second, counted by tens."""
    folder = folder_on_memory("medusa-branches-")
    files = tmp_path_factory.mktemp("branches")
    (files / "small.py").write_text(NETWORK)
    (files / "other.py").write_text(NETWORK.replace('"count(*)"', '"count(*) + CAST(min(at_us) = '
                                                    '30000000 AS bigint)"'))  # fmt: skip
    (files / "few.py").write_text(COUNTED)
    at = [at * 1_000_000 for at in range(100)]
    (file,) = parquet_files(files / "in", pa.table({"at_us": at}))
    with pytest.MonkeyPatch.context() as patched:
        replay_in(spark, patched)
        patched.setenv("MEDUSA_DIR", str(folder))
        patched.delenv("MEDUSA_CATALOG_URL", raising=False)
        patched.chdir(files)
        assert main.main(["replay", "small.py", "--input", str(file), "--keep", str(folder)]) == 0
        yield folder
    shutil.rmtree(folder)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main.main(["branch", *words])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_branch_shows_what_another_network_would_have_said(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = said(capsys, "make", "tried", "other.py", "--stream", "s")
    assert code == 0
    assert "counted" in out
    listed = json.loads(said(capsys, "list", "--json")[1])["branches"]
    assert [(one["label"], one["network"]) for one in listed] == [("tried", "small")]
    assert listed[0]["streams"]["s"][0] == "s"
    (found,) = json.loads(said(capsys, "diff", "tried", "--json")[1])["streams"]
    assert (found["rows"], found["branch_rows"]) == (10, 10)
    assert (found["only_original"], found["only_branch"]) == (1, 1)
    assert found["first"].startswith("only in the ")
    assert "1970-01-01T00:00:39.999999Z window_start=1970-01-01T00:00:30Z, n=1" in found["first"]
    code, _, error = said(capsys, "make", "tried", "other.py", "--stream", "s")
    assert (code, "there is a branch tried: remove it" in error) == (2, True)
    assert said(capsys, "remove", "tried")[0] == 0
    assert not (home / "branches" / "tried").exists()
    assert "there are no branches" in said(capsys, "list")[1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("times", "rows"), [(("--from", "35"), 6), (("--from", "30", "--to", "60"), 2)]
)
def test_a_branch_of_a_part_is_compared_where_its_windows_are_whole(
    home: Path, capsys: pytest.CaptureFixture[str], times: tuple[str, ...], rows: int
) -> None:
    assert said(capsys, "make", "part", "small.py", "--stream", "s", *times)[0] == 0
    (found,) = json.loads(said(capsys, "diff", "part", "--json")[1])["streams"]
    assert (found["rows"], found["branch_rows"], found["first"]) == (rows, rows, None)
    assert "no difference" in said(capsys, "diff", "part")[1]
    assert said(capsys, "remove", "part")[0] == 0


@pytest.mark.long
def test_a_branch_without_an_original_has_no_difference_to_show(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "make", "new", "few.py", "--stream", "c=counted")[0] == 0
    code, _, error = said(capsys, "diff", "new")
    assert (code, "no output of branch new (few) is a stream of solo" in error) == (2, True)
    assert said(capsys, "remove", "new")[0] == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    long_but(
        2,
        [
            (("diff", "none"), "there is no branch 'none'"),
            (("remove", "none"), "there is no branch 'none'"),
            (("remove", "../home"), "branch '../home' is not a name"),
            (("make", "a/b", "few.py", "--stream", "counted"), "branch 'a/b' is not a name"),
            (
                ("make", "x", "few.py", "--stream", "count"),
                "no stream 'count': did you mean 'counted'",
            ),
            (("make", "x", "few.py", "--stream", "s"), "source c of network few has columns"),
        ],
    ),
)
def test_what_cannot_be_is_refused_and_leaves_no_branch(
    home: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], sentence: str
) -> None:
    code, _, error = said(capsys, *words)
    assert (code, sentence in error) == (2, True), error
    assert "there are no branches" in said(capsys, "list")[1]


@pytest.mark.long
def test_a_replay_over_a_view_reads_its_last_records_and_a_trim_leaves_them(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last test of this home, whose stream is trimmed here."""
    assert main.main(["view", "make", "recent", "--stream", "s", "--records", "25"]) == 0
    assert main.main(["view", "make", "middle", "--stream", "s", "--from", "50", "--to",
                      "60"]) == 0  # fmt: skip
    assert "view recent keeps the last 25 records of s" in capsys.readouterr().out
    assert main.main(["trim", "s", "--keep", "1s"]) == 0
    assert "view:middle (view)" in capsys.readouterr().out
    assert main.main(["view", "remove", "middle"]) == 0
    assert main.main(["trim", "s", "--keep", "1s"]) == 0
    assert "view:recent (view)" in capsys.readouterr().out
    assert main.main(["replay", "small.py", "--view", "recent", "--json"]) == 0
    (document,) = [json.loads(text) for text in [capsys.readouterr().out]]
    assert document["streams"]["s"]["rows"] == 25
    assert main.main(["view", "list", "--json"]) == 0
    (view,) = json.loads(capsys.readouterr().out)["views"]
    assert (view["records"], view["begins_us"]) == (25, 70_000_000)
    for words, code, sentence in (
        (["replay", "small.py", "--view", "other"], 2, "has no view 'other': it has recent"),
        (["replay", "small.py", "--view", "x=recent"], 2, "has no source 'x'"),
        (["replay", "small.py", "--view", "recent", "--stream", "s"], 2,
         "is given a stream and a view: give one"),
        (["replay", "small.py", "--view", "recent", "--from", "5"], 2, "are of --stream"),
        (["branch", "make", "b", "small.py"], 2, "give --stream or --view for every source"),
        (["view", "make", "recent", "--stream", "s", "--records", "1"], 2,
         "there is a view recent: remove it with medusa view remove"),
        (["view", "make", "early", "--stream", "s", "--from", "5"], 2,
         "stream s is trimmed before 1970-01-01T00:01:10Z: give --from 1970-01-01T00:01:10Z"),
        (["view", "make", "many", "--stream", "s", "--last", "90s"], 2,
         "stream s is trimmed before 1970-01-01T00:01:10Z, and view many would begin"),
        (["view", "make", "x", "--stream", "nope", "--last", "1s"], 2, "no stream 'nope'"),
        (["view", "make", "../x", "--stream", "s", "--last", "1s"], 2, "is not a name"),
        (["view", "make", "x", "--stream", "s"], 2, "a view has one extent"),
        (["view", "make", "x", "--stream", "s", "--to", "90"], 2, "needs its beginning"),
        (["view", "make", "x", "--stream", "s", "--last", "1s", "--hold", "400d"], 2,
         "is out of range"),
        (["view", "remove", "nope"], 2, "has no view 'nope': it has recent"),
    ):  # fmt: skip
        assert (main.main(words), sentence in (said := capsys.readouterr().err)) == (
            code, True), said  # fmt: skip
