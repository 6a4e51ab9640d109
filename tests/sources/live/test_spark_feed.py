"""Declarations of Spark's sources: read strictly, and no secret is written in clear."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.errors import Refused
from pipelines.sources.live.declared_fields import Timing
from pipelines.sources.live.source_declaration import parse_declaration
from pipelines.sources.live.spark_feed import SparkFeed, resolved_options
from tests.sources.live.building import STREAM, S

KAFKA: dict[str, Any] = {
    "kind": "spark",
    "format": "kafka",
    "options": {
        "kafka.bootstrap.servers": "localhost:9092",
        "subscribe": "connections",
        "maxOffsetsPerTrigger": 10_000,
        "failOnDataLoss": True,
        "kafka.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required username="medusa" '
            'password="${MEDUSA_SOURCE_KAFKA}";'
        ),
        "kafka.ssl.truststore.password": "${MEDUSA_SOURCE_STORE}",
    },
    "columns": {"ts_us": "unix_micros(timestamp)"},
    "order": ["offset"],
    "every": "5s",
    "disorder": "60s",
    "records_per_s": 5_000,
}


def test_a_source_of_sparks_may_say_all_there_is() -> None:
    declared = parse_declaration(STREAM, KAFKA)
    assert declared == SparkFeed(
        format="kafka",
        options={
            **KAFKA["options"], "maxOffsetsPerTrigger": "10000", "failOnDataLoss": "true"
        },
        columns={"ts_us": "unix_micros(timestamp)"},
        order=("offset",),
        every_us=5 * S,
        records_per_s=5_000,
        timing=Timing(disorder_us=60 * S),
    )  # fmt: skip


def test_files_are_named_by_path_and_not_by_an_option() -> None:
    declared = parse_declaration(
        STREAM, {"kind": "spark", "format": "json", "path": "in", "files_per_poll": 5}
    )
    assert isinstance(declared, SparkFeed)
    assert (declared.path, declared.files_per_poll) == (Path("in"), 5)


def test_variables_are_put_in_from_the_environment_and_known_as_secrets() -> None:
    feed = parse_declaration(STREAM, KAFKA)
    assert isinstance(feed, SparkFeed)
    environment = {"MEDUSA_SOURCE_KAFKA": "abc", "MEDUSA_SOURCE_STORE": "abcd"}
    options, hidden = resolved_options(STREAM, feed, environment)
    assert options["kafka.sasl.jaas.config"].endswith('password="abc";')
    assert options["kafka.ssl.truststore.password"] == "abcd"
    assert hidden == ("abcd", "abc")
    with pytest.raises(Refused, match=r"reads \$\{MEDUSA_SOURCE_STORE\}, which is not set"):
        resolved_options(STREAM, feed, {"MEDUSA_SOURCE_KAFKA": "abc"})


def test_a_source_receives_no_variable_that_is_not_for_sources() -> None:
    stolen = {"host": "listener", "x": "${MEDUSA_CATALOG_URL}"}
    with pytest.raises(Refused, match="only variables that begin with MEDUSA_SOURCE_"):
        parse_declaration(STREAM, {**KAFKA, "options": stolen})
    # A home may hold a declaration from before they were refused.
    declared = parse_declaration(STREAM, KAFKA)
    assert isinstance(declared, SparkFeed)
    feed = replace(declared, options=stolen)
    with pytest.raises(Refused, match="names the variable MEDUSA_CATALOG_URL, but a source"):
        resolved_options(STREAM, feed, {"MEDUSA_CATALOG_URL": "postgresql://u:secret@h/d"})


SECRET = "hunter2"
IN_CLEAR = [
    ("kafka.ssl.truststore.password", SECRET),
    ("kafka.ssl.key.password", f"{SECRET}${{X}}"),
    ("apiKey", SECRET),
    ("api-key", SECRET),
    ("awsSecretAccessKey", SECRET),
    ("fs.s3a.access.key", SECRET),
    ("azure.account.key", SECRET),
    ("oauth.token", SECRET),
    ("credentials", SECRET),
    ("kafka.sasl.jaas.config", f'PlainLoginModule required username="a" password="{SECRET}";'),
    ("kafka.sasl.jaas.config", f'X required password = {SECRET} other="${{Y}}";'),
    ("url", f"jdbc:postgresql://user:{SECRET}@host/db"),
    ("url", f"jdbc:postgresql://host/db?user=a&password={SECRET}"),
    ("dsn", f"host=a Password={SECRET}"),
    ("connection", f"Endpoint=sb://a/;SharedAccessKeyName=b;AccountKey={SECRET}"),
    ("json", f'{{"token": "{SECRET}"}}'),
]


@pytest.mark.parametrize(("key", "value"), IN_CLEAR)
def test_a_secret_in_clear_is_refused_and_not_repeated(key: str, value: str) -> None:
    with pytest.raises(Refused, match=r"write \$\{MEDUSA_SOURCE_NAME\}, a variable") as refused:
        parse_declaration(STREAM, {**KAFKA, "options": {key: value}})
    assert SECRET not in str(refused.value)
    assert key in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kafka.ssl.truststore.password", "${MEDUSA_SOURCE_NAME}"),
        ("kafka.ssl.truststore.password", ""),
        ("url", "jdbc:postgresql://user:${MEDUSA_SOURCE_PASSWORD}@host/db"),
        ("url", "http://host:8080/path@x"),
        ("subscribe", "connections,flows"),
        ("startingOffsets", '{"connections":{"0":23,"1":-2}}'),
    ],
)
def test_what_is_no_secret_passes(key: str, value: str) -> None:
    declared = parse_declaration(STREAM, {**KAFKA, "options": {key: value}})
    assert isinstance(declared, SparkFeed)
    assert dict(declared.options) == {key: value}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"format": None}, "format None: write a format"),
        ({"format": "a b"}, "format 'a b'"),
        ({"format": "../../x"}, "format '../../x'"),
        ({"format": "json"}, "path None: write the folder to read"),
        ({"path": "in"}, "path 'in': write none: kafka has no path"),
        ({"files_per_poll": 3}, "files_per_poll 3: write none"),
        ({"options": ["a"]}, "options"),
        ({"options": {"a b": 1}}, "the option 'a b'"),
        ({"options": {"a'; drop": 1}}, "the option"),
        ({"options": {"a": None}}, r"options\.a '…': write a text"),
        ({"options": {"a": [1]}}, r"options\.a"),
        ({"options": {"a": 1, "A": 2}}, "the option 'A'"),
        ({"options": {"path": "/etc"}}, "write the field path instead"),
        ({"options": {"checkpointLocation": "/x"}}, "Medusa keeps the checkpoint"),
        ({"options": {"maxFilesPerTrigger": 1}}, "write the field files_per_poll instead"),
        ({"columns": ["ts_us"]}, "columns"),
        ({"columns": {"ts_us": 1}}, r"columns\.ts_us 1: write an expression"),
        ({"order": "offset"}, "order 'offset': write a list"),
        ({"every": "soon"}, "every 'soon'"),
        ({"colums": {}}, "did you mean 'columns'"),
    ],
)
def test_anything_else_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        parse_declaration(STREAM, {**KAFKA, **more})


@given(st.dictionaries(st.text(), st.none() | st.integers() | st.text() | st.lists(st.text())))
def test_any_options_are_accepted_as_written_or_refused(options: dict[str, Any]) -> None:
    try:
        declared = parse_declaration(STREAM, {**KAFKA, "options": options})
    except Refused:
        return
    assert isinstance(declared, SparkFeed)
    assert dict(declared.options) == {key: str(value) for key, value in options.items()}
