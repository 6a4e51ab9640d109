"""The pages of the checks load nothing from elsewhere and begin with the finding in a sentence."""

from __future__ import annotations

import re
from pathlib import Path

from pipelines.quality.offline import STYLE, Caption, make_offline

PAGE = """<html><head><link rel="stylesheet" href="https://cdn.example/bootstrap.min.css">
<script src="https://cdn.example/new-thing.js"></script></head><body class="x">rows</body></html>"""
BROKEN = Caption(
    suites=("alpha_busy_converged_buckets",), sentence="busy broke <L2>: 3 & more", passed=False
)
PASSED = Caption(suites=("alpha_busy_complete_pieces",), sentence="busy passed L1", passed=True)


def written(site: Path, *captions: Caption) -> dict[str, str]:
    """Pages as they are once they were made offline, by path."""
    for path in ("index.html", "validations/alpha_busy_converged_buckets/a/b.html",
                 "validations/alpha_busy_complete_pieces/a/b.html",
                 "expectations/alpha_busy_converged_buckets.html"):  # fmt: skip
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(PAGE)
    make_offline(site, captions)
    return {str(p.relative_to(site)): p.read_text() for p in site.rglob("*.html")}


def body(page: str) -> str:
    return page.partition("<body")[2].partition(">")[2]


def test_a_result_begins_with_its_certificate_and_the_first_page_with_what_failed(
    tmp_path: Path,
) -> None:
    pages = written(tmp_path, PASSED, BROKEN)
    shown = body(pages["validations/alpha_busy_converged_buckets/a/b.html"])
    assert shown.startswith('<ul class="medusa-found"><li class="failed">busy broke &lt;L2&gt;: 3')
    assert "busy passed" not in shown
    assert "busy passed L1" in body(pages["validations/alpha_busy_complete_pieces/a/b.html"])
    first = body(pages["index.html"])
    assert first.index("busy broke") < first.index("1 of 2 checks of the last run passed")
    assert body(pages["expectations/alpha_busy_converged_buckets.html"]).startswith("rows")


def test_no_page_loads_anything_from_elsewhere_and_each_has_our_look(tmp_path: Path) -> None:
    for path, page in written(tmp_path, PASSED).items():
        assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", page), path
        (style,) = re.findall(rf'href="([^"]*{STYLE.name})"', page)
        assert ((tmp_path / path).parent / style).resolve().is_file(), path


def test_without_checks_a_page_has_no_empty_finding(tmp_path: Path) -> None:
    assert "medusa-found" not in body(written(tmp_path)["index.html"])
