"""A participant's key: drawn once, its own to read, and refused if others could."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from medusa_core.errors import Refused, Unavailable
from pipelines.homes.signatures import is_signed
from pipelines.homes.signing_keys import key_path, load_key, make_key
from tests.agreements.building import ALPHA, BETA


def test_a_key_is_drawn_once_and_is_the_users_alone(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="medusa apply"):
        load_key(tmp_path, ALPHA)
    with ThreadPoolExecutor(4) as threads:
        made = {
            key.public_key for key in threads.map(lambda _: make_key(tmp_path, ALPHA), range(8))
        }
    assert made == {load_key(tmp_path, ALPHA).public_key}
    path = key_path(tmp_path, ALPHA)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert [p.name for p in path.parent.iterdir()] == [path.name], "nothing half written is left"
    assert make_key(tmp_path, BETA).public_key not in made


def test_a_key_shows_itself_in_no_text(tmp_path: Path) -> None:
    key = make_key(tmp_path, ALPHA)
    secret = key_path(tmp_path, ALPHA).read_text().strip()
    assert secret not in repr(key)
    assert secret not in str(vars(type(key)))


def test_a_key_that_others_could_have_read_is_refused(tmp_path: Path) -> None:
    make_key(tmp_path, ALPHA)
    path = key_path(tmp_path, ALPHA)
    for place, mode, before in ((path, 0o640, 0o600), (path, 0o604, 0o600),
                                (path.parent, 0o755, 0o700)):  # fmt: skip
        place.chmod(mode)
        with pytest.raises(Refused, match="may be read by others"):
            load_key(tmp_path, ALPHA)
        with pytest.raises(Refused, match="may be read by others"):
            make_key(tmp_path, ALPHA)
        place.chmod(before)
    load_key(tmp_path, ALPHA)


def test_a_link_is_no_key(tmp_path: Path) -> None:
    make_key(tmp_path, ALPHA)
    path = key_path(tmp_path, ALPHA)
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")
    with pytest.raises(Refused, match="no link"):
        load_key(tmp_path, ALPHA)
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(Refused, match="is not a file"):
        load_key(tmp_path, ALPHA)
    folder = key_path(tmp_path, BETA).parent
    folder.symlink_to(path.parent)
    with pytest.raises(Refused, match="is not a folder"):
        make_key(tmp_path, BETA)


@pytest.mark.parametrize("text", ["", "00", "x" * 64, "00" * 33])
def test_what_is_no_key_is_refused(tmp_path: Path, text: str) -> None:
    make_key(tmp_path, ALPHA)
    key_path(tmp_path, ALPHA).write_text(text)
    with pytest.raises(Refused, match="restore it"):
        load_key(tmp_path, ALPHA)


def test_a_signature_is_one_keys_over_one_message(tmp_path: Path) -> None:
    key, other = make_key(tmp_path, ALPHA), make_key(tmp_path, BETA)
    signature = key.sign(b"message")
    assert is_signed(key.public_key, signature, b"message")
    assert not is_signed(key.public_key, signature, b"another")
    assert not is_signed(other.public_key, signature, b"message")
    assert not is_signed(b"short", signature, b"message")
    assert not is_signed(key.public_key, b"short", b"message")
