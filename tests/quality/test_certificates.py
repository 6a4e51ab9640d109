"""Certificates of the shipped networks, of windows, and of what only Spark computes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from medusa_core.certificates import Suite
from medusa_core.errors import Refused, Unavailable
from medusa_core.grid import Range
from pipelines.base.settings import REPOSITORY
from pipelines.quality import recompute, recompute_jobs
from pipelines.quality.differences import differences
from pipelines.quality.spark_boxes import spark_batch
from pipelines.quality.stored_rows import source_records
from pipelines.quality.window_facts import gather
from pipelines.quality.window_pages import FOLDER, window_pages
from pipelines.quality.windows import Subject
from tests.quality.homes import SECOND_US, Checked, certificate
from tests.sweeps import long_but

pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.mark.parametrize(
    ("network", "outputs"),
    long_but(
        0,  # test_joins.py has certificates of joins and windows that DuckDB alone makes
        [
            ("netmon", {"busy_sources", "scanning_sources", "scanning_prefixes"}),
            ("road_sensors", {"busy_segments", "slow_segments"}),
            ("trade_bars", {"bars", "quote_counts", "multi_bars"}),
        ],
    ),
)
def test_a_shipped_network_converges_by_duckdb_alone(
    request: pytest.FixtureRequest, network: str, outputs: set[str]
) -> None:
    outcome = request.getfixturevalue(network).run()
    assert outcome.passed, [found.broken for found in outcome.found]
    assert outcome.not_recomputed == ()
    for output in outputs:
        converged = certificate(outcome, output, Suite.CONVERGED)
        assert converged.engines
        assert set(converged.engines.values()) == {recompute.DUCKDB}
        assert converged.figures["final_rows"] == converged.figures["recomputed_rows"]
        assert {
            f.certificate.suite for f in outcome.found if f.certificate.stream == output
        } == set(Suite)
    assert sum(c.figures["final_rows"] for c in (
        certificate(outcome, output, Suite.CONVERGED) for output in outputs)) > 0  # fmt: skip


def test_certificates_are_rows_of_the_catalog_with_their_law_window_and_figures(
    netmon: Checked,
) -> None:
    outcome = netmon.run(stream="busy_sources")
    rows = netmon.home.catalog.certificates("busy_sources", limit=4)  # type: ignore[arg-type]
    assert [row.number for row in rows] == [f.certificate.number for f in outcome.found][::-1]
    assert {row.law for row in rows} == {"L2", "L1", "S1", "S6"}
    line = next(one for one in netmon.home.catalog.lines() if one.stream.name == "busy_sources")
    for row in rows:
        assert (row.passed, row.version) == (True, line.version)
        assert (row.range.from_us, row.range.to_us) == (line.origin_us, line.end_us)
        assert row.certified_at_ms is not None


@pytest.mark.long
def test_a_window_is_checked_alone(netmon: Checked) -> None:
    whole = certificate(netmon.run(stream="busy_sources"), "busy_sources", Suite.CONVERGED)
    middle_us = (whole.range.from_us + whole.range.to_us) // 2 // (10 * SECOND_US) * 10 * SECOND_US
    halves = [
        netmon.run(stream="busy_sources", to_us=middle_us),
        netmon.run(stream="busy_sources", from_us=middle_us),
    ]
    assert all(half.passed for half in halves)
    rows = [certificate(h, "busy_sources", Suite.CONVERGED).figures["final_rows"] for h in halves]
    assert sum(map(int, map(str, rows))) == whole.figures["final_rows"]


def test_buckets_are_recomputed_from_the_records_that_they_need_alone(
    road_sensors: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = road_sensors.home
    line = next(one for one in home.catalog.lines() if one.stream.name == "busy_segments")
    starts = sorted(at for s in home.catalog.segments(line.stream.name) for at in s.buckets)
    buckets = [Range(at, at + line.stream.width_us) for at in (starts[0], starts[-1])]
    read: list[Range] = []

    def records(*given: Any) -> Any:
        read.extend(given[-1])
        return source_records(*given)

    monkeypatch.setattr(recompute_jobs, "source_records", records)
    subjects = [Subject(status=line, window=bucket) for bucket in buckets]
    found = gather(home, subjects, spark_batch(lambda: road_sensors.spark))
    for bucket, facts in zip(buckets, found, strict=True):
        assert facts.recomputed is not None
        assert facts.recomputed.num_rows == facts.stable.num_rows > 0
        assert all(bucket.holds(at) for at in facts.recomputed["_stime"].to_pylist())
        assert differences(facts.stable, facts.recomputed, facts.columns, 10).shown.empty
    assert len(read) == 2
    assert sum(part.to_us - part.from_us for part in read) < (starts[-1] - starts[0]) / 2


@pytest.mark.long
def test_a_box_that_cannot_be_transpiled_is_computed_by_spark_and_the_certificate_says_so(
    both_engines: Checked,
) -> None:
    outcome = both_engines.run(stream="shouts")
    assert outcome.passed, outcome.found
    engines = certificate(outcome, "shouts", Suite.CONVERGED).engines
    assert (engines["tripled"], engines["shouted"]) == ("DuckDB", "Spark: upper")


@pytest.mark.long
def test_boxes_that_cannot_be_transpiled_are_computed_by_spark_in_every_stream(
    both_engines: Checked,
) -> None:
    outcome = both_engines.run()
    assert outcome.passed, outcome.found
    shouts = certificate(outcome, "shouts", Suite.CONVERGED)
    means = certificate(outcome, "mean_speeds", Suite.CONVERGED)
    assert shouts.engines == {
        "all_events": "DuckDB",
        "split": "DuckDB",
        "tripled": "DuckDB",
        "slid": "DuckDB",
        "shouted": "Spark: upper",
    }
    assert means.engines["speeds"].startswith("Spark")
    assert means.engines["rounded"].startswith("Spark")
    assert means.engines["split"] == "DuckDB"
    assert shouts.figures["final_rows"]
    assert means.figures["final_rows"]


@pytest.mark.long
def test_records_that_fail_in_a_box_are_counted_by_both(both_engines: Checked) -> None:
    outcome = both_engines.run(stream="odd_ones")
    assert outcome.passed
    failed = certificate(outcome, "odd_ones", Suite.CONVERGED).figures["failed_in_box"]
    entries = both_engines.home.catalog.quarantined()
    write_quarantine = [e for e in entries if e.origin == "box split"]
    assert write_quarantine
    assert failed == {"split": len(write_quarantine)}


@pytest.mark.long(quick=True)
def test_both_say_the_same_of_why_a_box_failed(both_engines: Checked) -> None:
    outcome = both_engines.run()
    because = certificate(outcome, "shouts", Suite.CONVERGED).figures["failed_because"]
    reasons = Counter(
        (e.origin.removeprefix("box "), e.reason.replace(f" of {e.origin}", ""))
        for e in both_engines.home.catalog.quarantined()
    )
    assert (
        Counter(
            {
                (box, reason): count
                for box, found in because.items()
                for reason, count in found.items()
            }
        )
        == reasons
    )
    assert {"column odd: division by zero", "column n: overflow"} == {why for _, why in reasons}


@pytest.mark.long(quick=True)
def test_a_certificate_counts_what_its_stream_lacks_also_where_another_is_named_first(
    both_engines: Checked,
) -> None:
    outcome = both_engines.run()
    for stream in ("shouts", "mean_speeds", "odd_ones"):
        lacking = [
            entry for entry in both_engines.home.catalog.quarantined()
            if stream in entry.outputs
        ]  # fmt: skip
        assert lacking
        figures = certificate(outcome, stream, Suite.COMPLETE).figures
        assert figures["in_quarantine"] == {stream: len(lacking)}


def test_a_window_inside_a_bucket_is_refused_with_the_nearest_bounds(netmon: Checked) -> None:
    line = next(one for one in netmon.home.catalog.lines() if one.stream.name == "busy_sources")
    assert line.origin_us is not None
    with pytest.raises(Refused, match="is inside a bucket of busy_sources: give"):
        netmon.run(stream="busy_sources", from_us=line.origin_us + 1)


def test_a_window_that_has_not_closed_is_refused_with_how_far_it_is(netmon: Checked) -> None:
    line = next(one for one in netmon.home.catalog.lines() if one.stream.name == "busy_sources")
    assert line.end_us is not None
    with pytest.raises(Refused, match=r"closed up to .* only, not to .*: it has ended there"):
        netmon.run(stream="busy_sources", to_us=line.end_us + 10 * SECOND_US)


def test_a_stream_that_is_not_there_is_refused_with_the_nearest_name(netmon: Checked) -> None:
    with pytest.raises(Refused, match="did you mean 'busy_sources'"):
        netmon.run(stream="busy_source")


@pytest.mark.long
def test_pages_load_nothing_from_elsewhere(netmon: Checked) -> None:
    outcome = netmon.run(stream="busy_sources")
    site = outcome.page.parent
    for one in outcome.found:
        made = one.certificate
        of_window = window_pages(
            netmon.home.directory / FOLDER, netmon.home.participant, str(made.stream),
            made.suite.value, made.range,
        )  # fmt: skip
        assert of_window, f"{made.suite} has pages of its window"
        assert all(page.is_file() for _, page in of_window)
    pages = [path.read_text() for path in site.rglob("*.html")]
    assert len(pages) > 4
    import re

    for page in pages:
        loaded = re.findall(r"<(?:link|script|img)\b[^>]*(?:href|src)=[\"']([^\"']+)", page)
        assert loaded
        assert [address for address in loaded if "//" in address] == []
        assert not re.search(r"url\(['\"]?(?:https?:)?//", page)
    for name in ("jquery.min.js", "bootstrap-table.min.js", "bootstrap.min.css"):
        assert any(f"third_party/{name}" in page for page in pages), name
        assert (site / "third_party" / name).is_file()


def test_two_at_once_do_not_write_into_one_project(netmon: Checked) -> None:
    from pipelines.quality.gx_project import project

    with (
        project(netmon.home.directory / "quality"),
        pytest.raises(Unavailable, match="another check writes into"),
    ):
        netmon.run(stream="busy_sources")


def test_every_vendored_file_has_its_licence() -> None:
    folder = REPOSITORY / "third_party" / "data_docs"
    told = (folder / "README.md").read_text()
    for path in folder.iterdir():
        if path.suffix in (".js", ".css", ".woff2"):
            stem = path.name.split(".")[0].replace("-filter-control", "*")
            assert path.name in told or f"{Path(stem).name.split('*')[0]}*" in told, path.name
