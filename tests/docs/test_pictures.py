"""The pictures of the documentation: each that a page names is there, small, and made by a command.

`make pictures` makes them; its test (tests/pages/test_drill_in_browser.py) ends with the check that
it has made this set.
"""

from __future__ import annotations

import re
import struct

from pipelines.base.settings import REPOSITORY
from tests.docs.pages import DOCS, page
from tests.pages.drill_pictures import BYTES_MAX, OF_DOCS, SIZE_OF_DOCS

PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")


def test_the_pages_name_the_pictures_that_are_there_and_the_command_makes_the_same() -> None:
    named = {
        path.relative_to(DOCS).as_posix(): PICTURE.findall(path.read_text(encoding="utf-8"))
        for path in sorted(DOCS.rglob("*.md"))
    }
    assert [place for _, place in named.pop("operate.md")] == [
        f"pictures/{name}.png" for name in OF_DOCS
    ]
    assert not any(named.values()), "pictures of other pages have no command"
    assert {one.name for one in (DOCS / "pictures").iterdir()} == {f"{n}.png" for n in OF_DOCS}
    assert "MEDUSA_DOCS_PICTURES=docs/pictures" in (REPOSITORY / "Makefile").read_text()
    assert "`make pictures`" in page("operate")


def test_every_picture_is_small_and_says_in_words_what_it_shows() -> None:
    for words, place in PICTURE.findall(page("operate")):
        content = (DOCS / place).read_bytes()
        assert len(content) < BYTES_MAX
        assert content.startswith(b"\x89PNG")
        assert struct.unpack(">I", content[16:20])[0] == SIZE_OF_DOCS[0]
        assert len(words.split()) > 5
