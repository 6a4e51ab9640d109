"""`medusa quality run --report`: the page shows what was certified and leads to its Data Docs."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

from pipelines.catalog.server.embedded_server import EmbeddedServer
from pipelines.cli.main import main
from tests.quality.homes import Checked
from tests.report.test_page import Seen


@pytest.fixture(autouse=True)
def environment(
    netmon: Checked, monkeypatch: pytest.MonkeyPatch, postgres_server: EmbeddedServer
) -> None:
    monkeypatch.setenv("MEDUSA_DIR", str(netmon.home.directory))
    monkeypatch.setenv("MEDUSA_CATALOG_URL", postgres_server.superuser_url())


def test_the_page_shows_the_certificates_of_this_run_and_names_their_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "a page" / "answers & more.html"
    assert main(["quality", "run", "scanning_sources", "--report", str(page)]) == 0
    assert str(page) in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    words = " ".join(Seen(text).words)
    for suite in ("converged", "complete", "boundaries", "availability"):
        assert suite in words
    assert "DuckDB" in words
    assert "Nothing was corrected" in words
    assert "href" not in text, "a link would break when the file is sent on"
    (docs,) = re.findall(r"Data Docs: the page <code>([^<]+)</code>", text)
    assert (page.parent / unescape(docs)).resolve().is_file()
    assert "network netmon" in words
    assert "scanning" in words


@pytest.mark.long
def test_a_stream_that_comes_from_outside_has_no_answers_to_show(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert main(["quality", "run", "connections", "--report", str(page)]) == 0
    assert "nothing to show" in page.read_text(encoding="utf-8")


def test_a_broken_copy_is_never_shown_as_what_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    words = ["quality", "run", "scanning_sources", "--report", str(page), "--break", "lose-row"]
    assert main(words) == 2
    assert "leave one of them out" in capsys.readouterr().err
    assert not page.exists()
