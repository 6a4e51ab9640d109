"""Which recipients of Delta Sharing may read a stream, by the stream's contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from medusa_core.errors import Refused
from pipelines.contracts.apply_changes import decide_changes
from tests.contracts.test_changes import ALL, A, Reader, applied, is_settled
from tests.contracts.writing import FILES


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def listing(fields: str) -> dict[str, str]:
    return FILES | {"streams/large.yaml": f"stream: large\n{fields}\n"}


def test_a_streams_contract_lists_its_recipients_until_it_lists_them_no_more(
    read: Reader,
) -> None:
    homes = applied(read(listing("recipients: [acme, other]")), ALL)
    assert homes[A].shared == {("large", "acme"), ("large", "other")}
    assert is_settled(read(listing("recipients: [other, acme]")), homes)
    for fields, shared, shown in (
        ("recipients: [acme]", {("large", "acme")}, "acme"),
        ("public: true", {("large", "*")}, "every recipient"),
        ("public: true\nrecipients: [acme]", {("large", "*"), ("large", "acme")},
         "every recipient and acme"),
        ("public: false", set(), "nobody"),
    ):  # fmt: skip
        decided = decide_changes(read(listing(fields)), homes, None)
        assert [c.detail for c in decided[0].changes if c.what == "recipients"] == [shown]
        assert applied(read(listing(fields)), homes)[A].shared == shared
    decided = decide_changes(read(), applied(read(), ALL), None)
    assert not [c for home in decided for c in home.changes if c.what == "recipients"]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ("public: maybe", "public is 'maybe': write true or false"),
        ("public: 1", "write true or false"),
        ("recipients: acme", "write a list, such as"),
        ("recipients: ['*']", "is not a name"),
        ("recipients: [acme, acme]", "names acme again"),
    ],
)
def test_recipients_that_cannot_be_are_refused(read: Reader, fields: str, sentence: str) -> None:
    with pytest.raises(Refused) as refused:
        read(listing(fields))
    assert sentence in str(refused.value)
