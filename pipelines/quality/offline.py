"""Data Docs that open without a network, look as Medusa's pages do, and begin with the finding.

GX writes pages that load a dozen files, and a picture that counts viewers, from servers on the
internet. The pages are rewritten: required files are copied from `third_party/data_docs`,
decoration is removed, and `data_docs.css` is loaded after all other styles. GX names a suite and
counts expectations: a page begins with the certificate in a sentence.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from pipelines.base.settings import REPOSITORY

ASSETS = REPOSITORY / "third_party" / "data_docs"
STYLE = Path(__file__).with_name("data_docs.css")
_FOLDER = "third_party"
_LOADED = re.compile(
    r"""<(?P<tag>link|script|img)\b[^>]*?\b(?:href|src)=["'](?:https?:)?//(?P<address>[^"']*)["']"""
    r"""[^>]*>(?:\s*</script>)?""",
    re.IGNORECASE,
)
_BODY = re.compile(r"<body[^>]*>", re.IGNORECASE)
_BACKGROUND = re.compile(r"""url\(["']?(?:https?:)?//[^)]*\)""", re.IGNORECASE)
_SYMBOLS = ("fontawesome.min.css", "solid.min.css")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caption:
    """A certificate in a sentence, and the suites of GX that it was found by."""

    suites: tuple[str, ...]
    sentence: str
    passed: bool


def make_offline(site: Path, captions: Sequence[Caption] = ()) -> int:
    """Rewrite the new pages of a site to load local files only; returns how many.

    The page of a suite's result begins with its caption, the first page with all of them.
    """
    folder = site / _FOLDER
    if not folder.is_dir():
        shutil.copytree(ASSETS, folder)
    shutil.copyfile(STYLE, folder / STYLE.name)
    of_suite = {suite: _shown([one]) for one in captions for suite in one.suites}
    done = 0
    for page in site.rglob("*.html"):
        # Pages of earlier runs begin with the mark.
        with page.open("rb") as file:
            if file.read(len(_MARK)) == _MARK:
                continue
        kind, suite, *_ = (*page.relative_to(site).parts, "")
        shown = ""
        if kind == "index.html":
            shown = _all_shown(captions)
        elif kind == "validations":
            shown = of_suite.get(suite, "")
        text = _rewritten(page.read_text(encoding="utf-8"), os.path.relpath(folder, page.parent))
        text = _BODY.sub(lambda found, shown=shown: found[0] + shown, text, count=1)  # type: ignore[misc]
        page.write_bytes(_MARK + text.encode())
        done += 1
    return done


def _rewritten(text: str, folder: str) -> str:
    """A page that loads what is in the folder, and no more."""
    text = _LOADED.sub(lambda found: _instead(found, folder), text)
    text = _BACKGROUND.sub("none", text)
    style = f'<link rel="stylesheet" href="{folder}/{STYLE.name}">'
    return text.replace("</head>", f"{style}</head>", 1)


_MARK = b"<!-- opens offline -->\n"


def _instead(found: re.Match[str], folder: str) -> str:
    """The tag with the path of the local copy, or nothing."""
    name = found["address"].partition("?")[0].rpartition("/")[2]
    if name == "all.min.css" and found["tag"].lower() == "link":
        return "".join(f'<link rel="stylesheet" href="{folder}/{n}">' for n in _SYMBOLS)
    name = re.sub(r"^jquery-[\d.]+\.min", "jquery.min", name)
    name = name if name.endswith((".min.css", ".min.js")) else name.replace(".css", ".min.css")
    if not (ASSETS / name).is_file():
        return ""
    if found["tag"].lower() == "link":
        return f'<link rel="stylesheet" href="{folder}/{name}">'
    return f'<script src="{folder}/{name}"></script>'


def _shown(captions: Sequence[Caption]) -> str:
    items = (
        f'<li class="{"passed" if one.passed else "failed"}">{escape(one.sentence)}</li>'
        for one in captions
    )
    return f'<ul class="medusa-found">{"".join(items)}</ul>'


def _all_shown(captions: Sequence[Caption]) -> str:
    """What the last run found: failures openly, the rest behind a line that counts it."""
    failed = [one for one in captions if not one.passed]
    passed = [one for one in captions if one.passed]
    behind = f"{len(passed)} of {len(captions)} checks of the last run passed"
    return (
        f"{_shown(failed) if failed else ''}"
        f'<details class="medusa-found"><summary>{behind}</summary>{_shown(passed)}</details>'
        if captions
        else ""
    )
