"""The Python client of Delta Sharing reads a home while its rows are corrected."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import delta_sharing
import httpx
import pandas as pd
import pytest
from requests.exceptions import HTTPError

from pipelines.exchange.server.https_server import ListenAddress
from pipelines.exchange.server_certificates import (
    make_certificate,
    pin_of_file,
    server_context,
)
from tests.catalog import building as a
from tests.changes.building import BIG, SUMS, TENTATIVE, Lines, next_write
from tests.sharing.building import Row, Sharing, apply, newest, shared_home


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy is between the client and this machine."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def profile(sharing: Sharing, folder: Path, *streams: str) -> str:
    path = folder / "acme.share"
    issued = sharing.token("acme", *streams)
    document = {
        "shareCredentialsVersion": 1,
        "endpoint": sharing.url,
        "bearerToken": issued.token,
        "expirationTime": issued.expires_at.isoformat(),
    }
    path.write_text(json.dumps(document))
    return str(path)


def rows_of(frame: pd.DataFrame) -> Counter[Row]:
    return Counter(
        tuple(value.to_pydatetime() if isinstance(value, pd.Timestamp) else value for value in row)
        for row in frame.itertuples(index=False)
    )


def feed_of(frame: pd.DataFrame) -> list[tuple[int, str, Row]]:
    """A change feed of the client as that of the tests."""
    marks = ["_commit_version", "_change_type"]
    rows = frame.drop(columns=[*marks, "_commit_timestamp"])
    changes: list[tuple[int, str, Row]] = []
    for (version, type_), row in zip(
        frame[marks].itertuples(index=False), rows.itertuples(index=False), strict=True
    ):
        changes += [(version, type_, one) for one in rows_of(pd.DataFrame([row]))]
    return changes


def test_pandas_reads_tables_versions_and_changes_while_rows_are_corrected(
    sharing: Sharing, tmp_path: Path
) -> None:
    lines, chance = sharing.lines, random.Random(3)
    file = profile(sharing, tmp_path, "big", "sums")
    client = delta_sharing.SharingClient(file)
    assert [str(t.name) for t in client.list_all_tables()] == [
        "big",
        "big__all",
        "sums",
        "sums__all",
    ]
    assert [s.name for s in client.list_shares()] == ["alpha"]
    for stream in (BIG, SUMS):
        while next_write(lines, chance, stream, 6):
            table = f"{file}#alpha.streams.{stream}__all"
            version = delta_sharing.get_table_version(table)
            assert version == newest(lines, stream)
            if version == 3:
                early = rows_of(delta_sharing.load_as_pandas(table))
        plain = sharing.client(json.loads(Path(file).read_text())["bearerToken"])
        for name in (f"{stream}", f"{stream}__all"):
            table = f"{file}#alpha.streams.{name}"
            snapshot = rows_of(delta_sharing.load_as_pandas(table))
            assert snapshot == plain.snapshot(name) != Counter()
            third = rows_of(delta_sharing.load_as_pandas(table, version=3))
            assert third == plain.snapshot(name, 3)
            feed = feed_of(delta_sharing.load_table_changes_as_pandas(table, starting_version=4))
            assert apply(third, feed) == snapshot
        by_delta = delta_sharing.load_as_pandas(table, use_delta_format=True)
        assert rows_of(by_delta) == snapshot
        changes = delta_sharing.load_table_changes_as_pandas(
            table, starting_version=4, use_delta_format=True
        )
        changes["_commit_timestamp"] = 0
        assert apply(third, feed_of(changes)) == snapshot
        assert early == plain.snapshot(f"{stream}__all", 3)


@pytest.mark.long
def test_types_names_and_statistics_are_those_of_the_declared_columns(
    sharing: Sharing, tmp_path: Path
) -> None:
    sharing.lines.write(BIG, 0, 1, {0: [("a", 1), ("b", -2)]})
    sharing.lines.write(BIG, 1, 2, {1: [("c", 3)]}, TENTATIVE)
    file = profile(sharing, tmp_path)
    frame = delta_sharing.load_as_pandas(f"{file}#ALPHA.Streams.BIG__all")
    assert {name: str(type_) for name, type_ in frame.dtypes.items()} == {
        "stime": "datetime64[us, UTC]",
        "name": "object",
        "n": "int64",
        "_stability": "object",
        "_missing": "object",
    }
    metadata = delta_sharing.get_table_metadata(f"{file}#alpha.streams.big")
    fields = json.loads(str(metadata.schema_string))["fields"]
    assert [(f["name"], f["type"]) for f in fields] == [
        ("stime", "timestamp"),
        ("name", "string"),
        ("n", "long"),
    ]
    empty = delta_sharing.load_as_pandas(f"{file}#alpha.streams.big", version=0)
    assert (list(empty.columns), len(empty)) == (["stime", "name", "n"], 0)
    assert len(delta_sharing.load_as_pandas(f"{file}#alpha.streams.big", limit=1)) == 1


def test_the_client_shows_the_sentence_of_an_error(sharing: Sharing, tmp_path: Path) -> None:
    file = profile(sharing, tmp_path)
    for table, version, words in (
        ("big", 9, "not there yet"),
        ("sums", None, "nothing of this name that is shared with you"),
    ):
        with pytest.raises(HTTPError, match=words):
            delta_sharing.load_as_pandas(f"{file}#alpha.streams.{table}", version=version)


@pytest.mark.long
def test_over_tls_the_client_trusts_the_certificate_that_its_environment_names(
    lines: Lines, tmp_path: Path
) -> None:
    own = make_certificate(tmp_path / "server.pem", a.ALPHA, "127.0.0.1")
    address = ListenAddress(tls=server_context(own))
    lines.write(BIG, 0, 1, {0: [("a", 1)]})
    trusted = tmp_path / "alpha.pem"
    trusted.write_text("-----BEGIN" + own.read_text().rpartition("-----BEGIN")[2])
    program = "import sys, delta_sharing; print(len(delta_sharing.load_as_pandas(sys.argv[1])))"
    with shared_home(lines, tmp_path / "shared", address=address) as sharing:
        table = f"{profile(sharing, tmp_path)}#alpha.streams.big"
        variables = {"REQUESTS_CA_BUNDLE": str(trusted), "SSL_CERT_FILE": str(trusted)}
        ended = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, table],
            env={**os.environ, **variables, "NO_PROXY": "127.0.0.1"},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert ended.stdout.strip() == "1", ended.stderr
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(sharing.url, trust_env=False)
    assert pin_of_file(trusted) == pin_of_file(own)
