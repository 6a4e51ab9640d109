"""Data Docs that open without a network: their scripts and styles are local copies.

GX writes pages that load a dozen files, and a picture that counts viewers, from servers on the
internet. The pages are rewritten: required files are copied from `third_party/data_docs`,
decoration is removed.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from pipelines.base.settings import REPOSITORY

ASSETS = REPOSITORY / "third_party" / "data_docs"
_FOLDER = "third_party"
_LOADED = re.compile(
    r"""<(?P<tag>link|script|img)\b[^>]*?\b(?:href|src)=["'](?:https?:)?//(?P<address>[^"']*)["']"""
    r"""[^>]*>(?:\s*</script>)?""",
    re.IGNORECASE,
)
_BACKGROUND = re.compile(r"""url\(["']?(?:https?:)?//[^)]*\)""", re.IGNORECASE)
_SYMBOLS = ("fontawesome.min.css", "solid.min.css")


def make_offline(site: Path) -> int:
    """Rewrite the new pages of a site to load local files only; returns how many."""
    folder = site / _FOLDER
    if not folder.is_dir():
        shutil.copytree(ASSETS, folder)
    done = 0
    for page in site.rglob("*.html"):
        # Pages of earlier runs begin with the mark.
        with page.open("rb") as file:
            if file.read(len(_MARK)) == _MARK:
                continue
        text = page.read_text(encoding="utf-8")
        relative = os.path.relpath(folder, page.parent)
        text = _LOADED.sub(lambda found, folder=relative: _instead(found, folder), text)  # type: ignore[misc]
        text = _BACKGROUND.sub("none", text)
        page.write_bytes(_MARK + text.encode())
        done += 1
    return done


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
