"""A stream as it is shown: its buckets, one of them closely, and its readers and checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.grid import Range
from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.pages.page_home import PageHome
from pipelines.pages.stream_figures import read_stream
from pipelines.pages.time_range import CELLS_MAX, TimeRange, cells_of, parse_range
from pipelines.quality.window_pages import RESULTS, SITE, result_name, window_name
from tests.pages.pages_under_test import ALPHA, Shown
from tests.pages.same_elsewhere import check_same_elsewhere
from tests.pages.stream_home import CORRECTED_AT, HOSTILE, WIDTH_US, StreamHome, stream_home

BYTES_MAX = 200_000
STATEMENTS_MAX = 16
SEGMENTS = 5_000
MANY_STREAMS = """
INSERT INTO medusa.stream (name, kind, width_us, columns, key_columns)
SELECT 'many_' || to_char(n, 'FM0000'), 'derived', 1000000, '[]', '{}'
FROM generate_series(1, 250) AS n
"""
MANY_SEGMENTS = f"""
INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
    commit_id)
SELECT p.line_id, n * 1000000::bigint, (n + 1) * 1000000::bigint,
    (CASE mod(n, 100) WHEN 7 THEN 'tentative' WHEN 9 THEN 'gap' ELSE 'stable'
        END)::medusa.stability,
    n + 1, n + 1, 'plan', 1
FROM generate_series(0, {SEGMENTS} - 1) AS n, medusa.stream_producer AS p WHERE p.stream = 'given';
UPDATE medusa.stream_producer SET boundary_us = {SEGMENTS} * 1000000::bigint WHERE stream = 'given'
"""


@pytest.fixture(scope="module")
def home(
    postgres_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StreamHome]:
    """Alpha's, which nobody changes."""
    with stream_home(postgres_server, tmp_path_factory.mktemp("streams")) as made:
        yield made


def document_of(home: StreamHome, values: str = "") -> Any:
    return home.shown.document(home.page.replace("streams", "streams.json") + values)


def kinds_at(document: Any) -> list[str]:
    """The kind of each bucket of a timeline whose cells are buckets."""
    assert document["timeline"]["cell_us"] == document["width_us"]
    return ["/".join(cell) for cell in document["timeline"]["cells"]]


# ------------------------------------------------------------ the timeline


def test_each_bucket_is_shown_as_what_it_is_and_was(home: StreamHome) -> None:
    document = document_of(home)
    assert kinds_at(document) == (
        ["stable"] * 40 + ["corrected"] * 6 + ["tentative"] * 4 + ["stable"] * 2 + ["gap"] * 2
        + ["stable"] * 6
    )  # fmt: skip
    assert document["timeline"]["totals"] == {
        "stable": 48, "corrected": 6, "revised": 0, "tentative": 4, "gap": 2,
    }  # fmt: skip


def test_what_a_revision_replaced_is_shown_as_revised(home: StreamHome) -> None:
    document = home.shown.document("streams.json?home=alpha&stream=src")
    kinds = kinds_at(document)
    assert [at for at, kind in enumerate(kinds) if kind == "revised"] == [20, 21]
    assert document["recalls"][0]["who"] == "ada"
    assert "read twice &lt;b&gt;" in home.shown.part("streams?home=alpha&stream=src")


def test_a_range_shows_its_buckets_alone(home: StreamHome) -> None:
    document = document_of(home, "&from=1970-01-01T00:06:40Z&to=1970-01-01T00:08:20Z")
    assert kinds_at(document) == ["corrected"] * 6 + ["tentative"] * 4
    assert document["chosen"]["span"] is None


def test_a_value_that_is_no_time_is_named_and_left_out(home: StreamHome) -> None:
    document = document_of(home, "&from=yesterday&bucket=soon")
    assert len(document["wrong"]) == 1 + 1
    assert "'yesterday' is no time" in document["wrong"][0]
    assert document["timeline"]["totals"]["stable"] == 48
    assert "is no time" in home.shown.part(home.page + "&from=yesterday")


def test_delays_of_first_answers_are_shown_against_the_bound(home: StreamHome) -> None:
    answers = document_of(home)["timeline"]["answers"]
    assert answers["known"] > 0
    assert answers["late"] == sum(delay > 30_000 for _, delay, _ in answers["of_cells"])
    text = home.shown.part(home.page)
    assert "bound X 30 s" in text
    assert 'class="bound"' in text


@given(
    begins=st.integers(-(10**15), 10**15),
    buckets=st.integers(1, 10**7),
    width=st.sampled_from([1_000, 1_000_000, 60_000_000]),
    span=st.sampled_from(["15m", "1h", "6h", "24h", "all"]),
    ends=st.tuples(st.none() | st.integers(-(2**62), 2**62), st.none() | st.integers(0, 2**62)),
)
def test_cells_are_whole_buckets_and_few(
    begins: int, buckets: int, width: int, span: str, ends: tuple[int | None, int | None]
) -> None:
    from_us = begins // width * width
    cells = cells_of(TimeRange(span, *ends), from_us, from_us + buckets * width, width)
    assert 1 <= cells.count <= CELLS_MAX
    assert cells.from_us % width == cells.cell_us % width == 0
    if ends == (None, None):
        assert cells.from_us <= from_us + (buckets - 1) * width
        assert 0 <= cells.to_us - (from_us + buckets * width) < cells.cell_us + width
        assert span != "all" or cells.from_us == from_us


@pytest.mark.parametrize("given_", ["2h", "", "<script>"])
def test_a_span_that_is_none_is_the_last_hour(given_: str) -> None:
    assert parse_range({"span": given_}).span == "1h"


# ------------------------------------------------------------ a bucket


def at_bucket(number: int) -> str:
    return f"&bucket={number * WIDTH_US}us"


def test_a_bucket_is_followed_down_to_its_landed_files(home: StreamHome) -> None:
    bucket = document_of(home, at_bucket(CORRECTED_AT[0]))["bucket"]
    by_stream = {node["stream"]: node for node in bucket["nodes"]}
    assert [by_stream["src"]["id"], by_stream["sums"]["id"]] in bucket["edges"]
    assert by_stream["sums"]["stability"] == "stable"
    assert by_stream["src"]["landed_in_all"] == 1
    assert by_stream["src"]["landed"][0]["path"].startswith("files/")
    assert bucket["is_whole"]


def test_a_corrected_bucket_shows_what_it_was_and_the_rows_that_changed(home: StreamHome) -> None:
    at = CORRECTED_AT[0]
    bucket = document_of(home, at_bucket(at))["bucket"]
    assert [(one["stability"], one["missing"]) for one in bucket["history"]] == [
        ("tentative", ["src"]),
        ("stable", []),
    ]
    rows = bucket["rows"]
    assert rows["columns"] == ["name", "n"]
    changed = [(one["before"], one["after"]) for one in rows["changes"] if all(one.values())]
    assert changed == [([HOSTILE, at], [HOSTILE, 7])], "side by side: the key agrees"
    assert [one for one in rows["changes"] if one["before"] is None] == [
        {"before": None, "after": ["b", at]}
    ]
    assert "corrected" in home.shown.part(home.page + at_bucket(at))


def test_a_bucket_that_became_final_as_it_was_shows_no_row(home: StreamHome) -> None:
    rows = document_of(home, at_bucket(CORRECTED_AT[2]))["bucket"]["rows"]
    assert (rows["in_all"], rows["problem"]) == (0, None)
    text = home.shown.part(home.page + at_bucket(CORRECTED_AT[2]))
    assert "No row differs" in text


def test_rows_whose_file_is_gone_are_a_sentence(home: StreamHome) -> None:
    folder = home.lines.home.storage / "sums"
    away = folder.rename(folder.with_name("away"))
    try:
        rows = document_of(home, at_bucket(CORRECTED_AT[0]))["bucket"]["rows"]
        assert rows["problem"] is not None
        assert "cannot be read" in home.shown.part(home.page + at_bucket(CORRECTED_AT[0]))
    finally:
        away.rename(folder)


def test_a_bucket_that_was_not_computed_says_so(home: StreamHome) -> None:
    assert document_of(home, "&bucket=2030-01-01")["bucket"]["history"] == []
    assert "has no row over this bucket" in home.shown.part(home.page + "&bucket=2030-01-01")


# ------------------------------------------------------------ what else is known of it


def test_missing_inputs_are_named_with_how_far_they_are(home: StreamHome) -> None:
    (missing,) = document_of(home)["missing"]
    assert (missing["input"], missing["buckets"]) == ("src", 4)
    assert missing["from_us"] == 46 * WIDTH_US
    assert "Missing inputs" not in home.shown.part("streams?home=alpha&stream=src")


def test_readers_grants_and_certificates_are_listed(home: StreamHome) -> None:
    document = document_of(home)
    assert {(one["kind"], one["name"]) for one in document["readers"]} == {
        ("cursor", "billing"),
        ("hold", "beta"),
    }
    assert [(one["name"], one["reason"]) for one in document["grants"]] == [("beta", "owner")]
    (certificate,) = document["certificates"]
    assert not certificate["passed"], "the newest of its check"
    assert certificate["pages"] == [], "no page was written on this machine"
    assert {one["fragment"] for one in document["makers"]} == {"example/main", "example/tail"}


def test_a_certificate_leads_to_the_newest_pages_of_its_window(home: StreamHome) -> None:
    window = Range(0, 30 * WIDTH_US)
    for table, window_of, run in (
        ("rows", window, "1"), ("rows", window, "2"), ("columns", window, "1"),
        ("rows", Range(0, 29 * WIDTH_US), "3"),
    ):  # fmt: skip
        name = result_name("alpha", "sums", "converged", table)
        folder = home.lines.settings.directory / "quality" / SITE / RESULTS / name
        page = folder / window_name(window_of) / run / "batch.html"
        page.parent.mkdir(parents=True)
        page.touch()
    (certificate,) = document_of(home)["certificates"]
    assert [(table, page.split("/")[-2]) for table, page in certificate["pages"]] == [
        ("columns", "1"), ("rows", "2"),
    ]  # fmt: skip
    text = home.shown.part(home.page)
    for _, page in certificate["pages"]:
        assert f'href="pages/{quote(page)}"' in text
    assert "index.html" not in text


def test_quarantine_is_counted_by_reason(home: StreamHome) -> None:
    found = home.shown.document("streams.json?home=alpha&stream=src")["quarantine"]
    assert {one["reason"]: one["records"] for one in found}["late"] == 1
    assert len(found) == 2


def test_hostile_values_of_streams_are_escaped(home: StreamHome) -> None:
    for path in (
        "streams?home=alpha&stream=src",
        home.page + at_bucket(CORRECTED_AT[0]),
        "streams?q=%3Cscript%3Ealert(1)%3C/script%3E",
        "streams?stream=%3Cscript%3Ealert(1)%3C/script%3E%00",
        "streams?home=%22%3E%3Cscript%3E&stream=sums&line=%3Cb%3E",
        home.page + "&line=%3Cscript%3Ex&span=%3Cscript%3E&from=%3Cscript%3E",
    ):
        text = home.shown.get(path).text
        assert text.count("<script") == 1, "the page's own"
        assert "\u202e" not in text


def test_a_stream_that_is_not_there_or_not_shown_is_not_found(
    home: StreamHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not home.shown.document("streams.json?stream=none")["found"]
    assert "There is no stream" in home.shown.part("streams?stream=none")
    assert home.shown.document("streams.json?stream=sums")["home"] == "alpha"
    monkeypatch.setenv("MEDUSA_PAGE_HOMES", "ola: beta")
    assert not home.shown.document("streams.json?home=alpha&stream=sums")["found"]


def test_a_page_of_a_stream_takes_no_more_statements_and_bytes_than_it_may(
    home: StreamHome,
) -> None:
    with closing(PageHome(home.lines.settings, ALPHA)) as page, page.snapshot() as snapshot:
        read_stream(snapshot, "sums", None, TimeRange())
        assert snapshot.statements <= STATEMENTS_MAX
    assert len(home.shown.get(home.page + at_bucket(40)).content) < BYTES_MAX


@pytest.mark.parametrize("values", ["", f"&bucket={CORRECTED_AT[0] * WIDTH_US}us"])
def test_every_section_names_a_command_a_statement_and_a_section_that_exist(
    home: StreamHome, values: str
) -> None:
    check_same_elsewhere(home.shown, ALPHA, home.page + values)
    check_same_elsewhere(home.shown, ALPHA, "streams")


# ------------------------------------------------------------ many


def test_streams_are_searched_and_listed_page_by_page(shown: Shown) -> None:
    shown.sql(ALPHA, MANY_STREAMS)
    first = shown.document("streams.json?q=many")
    assert (first["in_all"], len(first["streams"])) == (250, 100)
    second = shown.document(f"streams.json?q=many&after={first['next']}")
    third = shown.document(f"streams.json?q=many&after={second['next']}")
    names = [one["stream"] for page in (first, second, third) for one in page["streams"]]
    assert names == [f"many_{n:04}" for n in range(1, 251)]
    assert third["next"] is None
    both = shown.document("streams.json?q=given")["streams"]
    assert [(one["home"], one["stream"]) for one in both] == [("alpha", "given"), ("beta", "given")]
    assert "Next streams" in shown.part("streams?q=many")
    assert "No stream has such a name" in shown.part("streams?q=nothing_like_it")


def test_a_stream_of_many_segments_is_summed_up_by_the_database(shown: Shown) -> None:
    shown.sql(ALPHA, MANY_SEGMENTS)
    path = "?home=alpha&stream=given&span=all"
    timeline = shown.document(f"streams.json{path}")["timeline"]
    assert len(timeline["cells"]) <= CELLS_MAX
    hundreds = SEGMENTS // 100
    assert timeline["totals"] == {
        "stable": 98 * hundreds, "corrected": 0, "revised": 0, "tentative": hundreds,
        "gap": hundreds,
    }  # fmt: skip
    with closing(PageHome(shown.settings, ALPHA)) as page, page.snapshot() as snapshot:
        read_stream(snapshot, "given", None, TimeRange("all"))
        assert snapshot.statements <= STATEMENTS_MAX
    assert len(shown.get(f"streams{path}").content) < BYTES_MAX


def test_a_cell_leads_to_its_part_of_the_range_and_in_the_end_to_a_bucket(shown: Shown) -> None:
    shown.sql(ALPHA, MANY_SEGMENTS)
    path = "streams?home=alpha&stream=given&span=all"
    for _ in range(3):
        links = re.findall(r'<a href="(streams\?[^"]*)" tabindex="-1">', shown.part(path))
        path = links[3].replace("&amp;", "&")
        if "bucket=" in path:
            break
    assert shown.document(path.replace("streams", "streams.json", 1).partition("#")[0])["bucket"]
