"""The places that a page names beside each section: commands parse, SQL answers, docs exist."""

from __future__ import annotations

import re
import shlex
from contextlib import closing
from html import unescape

from sqlalchemy import text

from medusa_core.names import Participant
from pipelines.cli.main import parser
from pipelines.pages.docs_page import section_ids
from pipelines.pages.page_home import PageHome
from tests.pages.pages_under_test import Shown

COMMAND = re.compile(r'<code class="copy">(medusa [^<]*)</code>')
STATEMENT = re.compile(r'<code class="copy">(SELECT [^<]*)</code>')
SECTION = re.compile(r'href="docs/([a-z-]+)(?:#([^"]*))?"')


def check_same_elsewhere(shown: Shown, home: Participant, page: str) -> None:
    """Of a page, by its address."""
    part = shown.part(page)
    commands = {unescape(one) for one in COMMAND.findall(part)}
    statements = {unescape(one) for one in STATEMENT.findall(part)}
    assert commands
    assert statements
    for command in commands:
        words = shlex.split(command)[1:]
        if words[-1] != "--help":
            assert parser().parse_args(words), command
    with closing(PageHome(shown.settings, home)) as opened, opened._engine.connect() as connection:
        for statement in statements:
            connection.execute(text(f"{statement} LIMIT 1"))
    for name, section in SECTION.findall(part):
        assert not section or section in section_ids(name), (name, section)
