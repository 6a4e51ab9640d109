"""What is broken on purpose is found, in the report and by the exit code, and the home is whole."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from medusa_core.certificates import Suite
from medusa_core.columns import Column
from pipelines.cli.main import main, parser
from pipelines.quality.differences import differences
from pipelines.quality.planted_faults import MODES
from pipelines.quality.stored_rows import STIME, row_schema
from tests.quality.homes import Checked, found
from tests.sweeps import long_but

BROKEN = {
    "lose-row": (Suite.CONVERGED, "no row is missing from the stream"),
    "duplicate-row": (Suite.CONVERGED, "no row is in the stream alone"),
    "change-value": (Suite.CONVERGED, "no row differs"),
    "change-type": (Suite.CONVERGED, "is string, and bigint by the rules"),
    "skip-correction": (Suite.COMPLETE, "every piece of the window is stable"),
    "boundary-back": (Suite.BOUNDARIES, "the boundary never goes back"),
    "late": (Suite.AVAILABILITY, "first results come within"),
}

OF_MAKE_TEST = "lose-row"


def test_every_way_of_breaking_is_shown_here() -> None:
    assert set(MODES) == set(BROKEN)
    for mode in MODES:
        assert parser().parse_args(["quality", "run", "--break", mode]).break_mode == mode


@pytest.mark.parametrize(
    "mode",
    long_but(1, sorted(MODES, key=lambda mode: mode != OF_MAKE_TEST)),
)
def test_a_broken_copy_fails_by_its_law_and_nothing_is_written_down(
    netmon: Checked, mode: str
) -> None:
    suite, told = BROKEN[mode]
    before = len(netmon.home.catalog.certificates())
    outcome = netmon.run(break_mode=mode, stream="busy_sources")
    assert not outcome.passed
    failed = found(outcome, "busy_sources", suite)
    assert not failed.certificate.passed
    assert any(told in sentence for sentence in failed.broken), failed.broken
    assert len(netmon.home.catalog.certificates()) == before
    index = outcome.page.read_text()
    assert f"broken/{mode}" in str(outcome.page)
    assert "Failed" in index or "fa-times" in index


@pytest.mark.long
def test_the_home_is_whole_after_its_copy_was_broken(netmon: Checked) -> None:
    assert not netmon.run(break_mode="lose-row").passed
    assert netmon.run().passed


@pytest.mark.long
@pytest.mark.parametrize(
    ("extra", "code", "is_json"),
    long_but(
        1,
        [
            ([], 0, True),
            (["--break", "lose-row"], 1, False),
            ([], 0, False),
            (["--break", "lose-row"], 1, True),
        ],
    ),
)
def test_the_command_prints_what_it_found_and_its_exit_code_says_whether_all_passed(
    netmon: Checked,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    postgres_server: object,
    extra: list[str],
    code: int,
    is_json: bool,
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(netmon.home.directory))
    monkeypatch.setenv("MEDUSA_CATALOG_URL", postgres_server.superuser_url())  # type: ignore[attr-defined]
    form = ["--json"] if is_json else []
    assert main(["quality", "run", "scanning_sources", *form, *extra]) == code
    printed = capsys.readouterr().out
    if is_json:
        document = json.loads(printed)
        assert document["passed"] == (code == 0)
        assert len(document["certificates"]) == len(Suite)
        return
    assert ("NO" in printed) == (code == 1)
    assert ("1 of 4 checks failed" in printed or "2 of 4 checks failed" in printed) == (code == 1)


def test_markup_in_a_record_stays_text_on_the_pages() -> None:
    columns = (Column("who", "string"),)
    schema = row_schema(columns)
    hostile = "<script>alert('$x {y}')</script>"
    rows = pa.Table.from_pylist([{"who": hostile, STIME: 5}], schema=schema)
    shown = differences(rows, schema.empty_table(), columns, 10).shown["row"].to_list()
    assert len(shown) == 1
    assert "<" not in shown[0]
    assert "$" not in shown[0]
    assert "&lt;script&gt;" in shown[0]
