"""URLs of object stores have one form; keys are read from a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.errors import Refused
from pipelines.storage.object_settings import ObjectSettings, origin_of
from tests.storage.object_server import keys_file


@pytest.mark.parametrize(
    ("given", "form"),
    [
        ("https://objects.example", "https://objects.example"),
        ("https://objects.example/", "https://objects.example"),
        ("https://objects.example:443", "https://objects.example"),
        ("https://objects.example:9000/", "https://objects.example:9000"),
        ("http://127.0.0.1:80", "http://127.0.0.1"),
        ("http://[::1]:9000", "http://[::1]:9000"),
        ("https://[2001:db8::1]", "https://[2001:db8::1]"),
    ],
)
def test_the_url_of_a_server_has_one_form(given: str, form: str) -> None:
    assert origin_of(given) == form
    assert ObjectSettings(address="s3://bucket/one", endpoint=given).url == form


@pytest.mark.parametrize(
    "given",
    [
        "https://host?", "https://host#", "https://:pw@host", "https://@host", "https://ho\nst",
        "https://host\n", " https://host", "https://ho st", "https://Host:9000", "HTTPS://host",
        "https://host:", "https://host:0", "https://host:65536", "https://host:0443",
        "https://host/path", "https://", "https://-host", "https://host..example", "https://[::1",
        "https://[1::2::3]", "https://[fe80::1%25eth0]", "http://objects.example",
        f"https://{'a' * 64}.example", "ftp://host", "host",
    ],
)  # fmt: skip
def test_other_texts_are_refused(given: str) -> None:
    with pytest.raises(Refused, match=r"is not https://HOST|is without TLS"):
        origin_of(given)


def test_an_empty_session_token_is_none(tmp_path: Path) -> None:
    path = keys_file(tmp_path / "keys")
    path.write_text(f"{path.read_text()}aws_session_token =\n")
    settings = ObjectSettings(address="s3://bucket", credentials=str(path))
    assert settings.keys().token is None
