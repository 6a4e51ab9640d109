"""Where Data Docs keep the page of a checked window: by the names of its result and of its run."""

from __future__ import annotations

import re
from pathlib import Path

from medusa_core.grid import Range
from pipelines.base.time_text import iso

FOLDER = "quality"
"""Of MEDUSA_DIR."""
SITE = Path("gx/uncommitted/data_docs/local_site")
RESULTS = "validations"


def result_name(whose: str, stream: str, suite: str, table: str) -> str:
    """A suite of a stream and one of its tables as one name, which is also that of a folder."""
    return f"{whose}_{stream.replace('/', '_')}_{suite}_{table}"


def window_name(window: Range) -> str:
    """The window as the name of a run, and so of a folder."""
    return re.sub(r"[^0-9A-Za-z.+-]", "", f"{iso(window.from_us)}-{iso(window.to_us)}")


def window_pages(
    folder: Path, whose: str, stream: str, suite: str, window: Range
) -> list[tuple[str, Path]]:
    """The newest page of each table of a suite over a window, by the table's name; none where the
    window was checked on another machine, or its pages were removed."""
    prefix = result_name(whose, stream, suite, "")
    found: dict[str, Path] = {}
    for page in (folder / SITE / RESULTS).glob(f"{prefix}*/{window_name(window)}/*/*.html"):
        table = page.parents[2].name.removeprefix(prefix)
        known = found.get(table)
        if known is None or known.parent.name < page.parent.name:
            found[table] = page
    return sorted(found.items())
