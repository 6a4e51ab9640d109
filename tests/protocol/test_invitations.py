"""An invitation is read as it was written, or refused in one sentence; its secret is not shown."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from medusa_core.names import Participant
from medusa_core.protocol.invitations import (
    PREFIX,
    Invitation,
    Joining,
    read_code,
    read_joining,
    write_code,
    write_joining,
)

NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True).map(Participant)
SECRETS = st.text(string.ascii_letters + string.digits + "_-", min_size=32, max_size=64)
HASHES = st.binary(min_size=32, max_size=32)
INVITATIONS = st.builds(
    Invitation,
    inviter=NAMES,
    invited=NAMES,
    public_key=HASHES,
    url=st.sampled_from(["https://a.example:8443", "https://[2001:db8::1]:1", "https://10.0.0.1"]),
    pin=st.none() | HASHES.map(bytes.hex),
    secret=SECRETS,
    expires_at_ms=st.integers(0, 2**53 - 1),
)


@given(INVITATIONS, st.integers(1, 80))
def test_a_code_is_read_as_it_was_written_however_its_lines_are_wrapped(
    invitation: Invitation, width: int
) -> None:
    code = write_code(invitation)
    assert code.isprintable()
    assert " " not in code
    wrapped = "\n  ".join(code[at : at + width] for at in range(0, len(code), width))
    assert read_code(wrapped) == read_code(code) == invitation


@given(INVITATIONS, st.data())
def test_a_code_with_another_character_is_refused(
    invitation: Invitation, data: st.DataObject
) -> None:
    code = write_code(invitation)
    at = data.draw(st.integers(0, len(code) - 2))  # the last one may hold bits that do not count
    other = data.draw(
        st.sampled_from(sorted(set(string.printable) - set(code[at] + " \t\n\r\v\f")))
    )
    with pytest.raises(Refused) as caught:
        read_code(code[:at] + other + code[at + 1 :])
    assert "copy the whole code" in str(caught.value)


@given(st.text() | st.binary().map(lambda content: PREFIX + content.hex()))
def test_what_is_no_code_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        read_code(text)


@given(SECRETS, HASHES)
def test_no_secret_is_shown(secret: str, key: bytes) -> None:
    joining = Joining(public_key=key, assertion="a.b.c", introduction="d.e.f", secret=secret)
    assert repr(joining) == f"Joining(public_key={key.hex()})"
    assert read_joining(write_joining(joining)) == joining
