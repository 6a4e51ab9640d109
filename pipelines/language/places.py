"""Where the parts of a network are written, so that an error names the line."""

from __future__ import annotations

from collections.abc import Mapping

Places = Mapping[tuple[str, str], str]
"""(box, column or port) -> place in a file; ("busy", "") is the box itself."""

NO_PLACES: Places = {}
"""Of a network in Python, which names its boxes and columns only."""
