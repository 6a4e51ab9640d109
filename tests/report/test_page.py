"""The report: everything escaped, nothing fetched, and figures equal to the catalog's."""

from __future__ import annotations

import csv
import re
import shlex
import subprocess
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

from medusa_core.errors import Unavailable
from medusa_core.mermaid import draw
from pipelines.cli.main import main
from pipelines.report.figures import read_figures
from pipelines.report.page import write_page
from tests.cli.kept import Kept

VOID = ("meta", "br", "hr", "line", "rect", "path", "circle")


class Seen(HTMLParser):
    """Tags, attributes and text of a page; fails where elements do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str, str]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def cells(page: str) -> list[list[str]]:
    """Every row of every table, as text."""
    rows = re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
    return [[" ".join(Seen(c).words) for c in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row)]
            for row in rows]  # fmt: skip


def test_the_page_is_well_formed_and_accessible(netmon_page: str) -> None:
    seen = Seen(netmon_page)
    assert seen.tags["svg"] >= 4
    assert seen.tags["caption"] == seen.tags["table"]
    pictures = re.findall(r'<svg [^>]*role="img"[^>]*>(<title>[^<]+</title><desc>[^<]+</desc>)',
                          netmon_page)  # fmt: skip
    assert len(pictures) == netmon_page.count('role="img"')
    assert seen.tags["h1"] == 1
    assert ("html", "lang", "en") in seen.attributes


def test_the_page_needs_nothing_but_itself(netmon_page: str, nasty_page: str) -> None:
    for page in (netmon_page, nasty_page):
        seen = Seen(page)
        assert not any(seen.tags[t] for t in ("script", "link", "img", "iframe", "object", "base"))
        for _, name, value in seen.attributes:
            assert name not in ("src", "href", "action", "srcset", "data", "style")
            assert not name.startswith("on")
            assert "://" not in value
        assert "@import" not in page
        assert "url(" not in page
        assert any("default-src 'none'" in value for _, _, value in seen.attributes)


def test_whatever_a_record_or_an_expression_holds_stays_text(nasty_page: str) -> None:
    seen = Seen(nasty_page)
    text = "".join(seen.words)
    assert seen.tags["script"] == 0
    assert '<script>alert("it\'s in")</script>&amp;' in text, "it is shown as it is"
    assert "contains(who, '<script>')" in text, "in the picture of the network too"
    assert not {c for c in nasty_page if ord(c) < 32} - {"\n"}
    assert "\u202e" not in nasty_page


def test_every_figure_is_the_catalogs(netmon_page: str, netmon_kept: Kept) -> None:
    catalog = netmon_kept.home.catalog
    rows = {row[0]: row for row in cells(netmon_page) if row and len(row) == 9}
    for status in catalog.streams():
        name = status.stream.name
        segments = catalog.segments(name)
        row = rows[name]
        assert row[2] == f"{status.rows:,}"
        assert row[3] == f"{sum(len(s.buckets) for s in segments):,}"
        assert row[4] == f"{len(segments):,}"
        digest = sum((s.digest for s in segments[1:]), segments[0].digest)
        assert row[8].startswith(f"{digest.rows}:{f'{digest.sum_a:x}'[:8]}")
        assert str(digest) in netmon_page
    plan = {s.plan for s in catalog.steps()}
    assert plan == {netmon_kept.result.plan}
    assert netmon_kept.result.plan in netmon_page
    assert "which is what this network and the engine installed here give" in netmon_page


def test_rows_per_window_add_up_to_the_exported_rows(netmon_kept: Kept) -> None:
    figures = read_figures(netmon_kept.home, netmon_kept.network)
    assert figures.window_us == 60_000_000
    for output in figures.outputs:
        with netmon_kept.outputs[output.name].open(newline="") as file:
            starts = Counter(int(row["window_start"]) for row in csv.DictReader(file))
        assert output.rows_per_window(60_000_000) == {at * 1_000_000: n for at, n in starts.items()}


def test_the_network_is_drawn_with_every_box_and_as_mermaid(
    netmon_page: str, netmon_kept: Kept
) -> None:
    text = "\n".join(Seen(netmon_page).words)
    for box in netmon_kept.network.boxes:
        assert f"{type(box).__name__} {box.name}" in text
    for output in netmon_kept.network.outputs:
        assert f"output {output.name}" in text
    assert draw(netmon_kept.network) in text


def test_the_lineage_names_a_real_segment_with_its_file(
    netmon_page: str, netmon_kept: Kept
) -> None:
    catalog = netmon_kept.home.catalog
    shown = re.search(r"connections v(\d+), stable", netmon_page)
    assert shown is not None
    segments = [s for s in catalog.segments("connections") if s.version == int(shown[1])]  # type: ignore[arg-type]
    assert any(f.sha256[:8] in netmon_page for s in segments for f in s.files)
    assert any(step.commit_key in netmon_page for step in catalog.steps())


def test_quarantine_is_counted_by_reason(nasty_page: str, nasty_kept: Kept) -> None:
    assert "in quarantine: 1 record<" in nasty_page
    (record,) = nasty_kept.home.catalog.quarantined()
    assert any(row[:2] == ["events", record.reason] for row in cells(nasty_page))


@pytest.mark.long
def test_what_to_type_next_works(
    netmon_page: str,
    netmon_kept: Kept,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    block = re.findall(r"<pre><code>(.*?)</code></pre>", netmon_page, re.DOTALL)[-1]
    commands = "".join(Seen(block).words).splitlines()
    assert len(commands) >= 4
    done = subprocess.run(commands[0], shell=True, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    # A process of their own would only load the same modules again.
    monkeypatch.delenv("MEDUSA_CATALOG_URL", raising=False)
    for command in commands[1:]:
        folder, called, *arguments = shlex.split(command)
        assert [folder, called] == shlex.split(commands[0])[:2]
        monkeypatch.setenv(*folder.split("=", 1))
        assert main(arguments) == 0
        assert capsys.readouterr().out.strip()


def test_a_report_that_cannot_be_written_is_unavailable(netmon_kept: Kept, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable, match="cannot be written"):
        write_page(tmp_path / "file" / "report.html", home=netmon_kept.home,
                   network=netmon_kept.network)  # fmt: skip
