"""Great Expectations is imported without what no suite uses."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import version

import pytest

from pipelines.quality.gx_project import _unused_modules


def test_a_module_that_no_suite_uses_is_imported_when_an_attribute_of_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "altair", raising=False)
    with _unused_modules():
        deferred = import_module("altair")
    assert "altair" not in sys.modules
    assert deferred.__version__ == version("altair")
    assert sys.modules["altair"] is not deferred


def test_a_module_that_is_imported_already_stays() -> None:
    known = import_module("altair")
    with _unused_modules():
        assert import_module("altair") is known
    assert sys.modules["altair"] is known
