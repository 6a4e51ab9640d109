"""Options of `format("medusa")`: what they mean, and what is refused, in one sentence."""

from __future__ import annotations

import pytest

from medusa_core.errors import Refused
from medusa_core.grid import FOREVER_US
from pipelines.datasource.options import ReadOptions, for_batch, for_stream, parse_options


def test_names_are_compared_without_case_as_everywhere_in_spark() -> None:
    given = {"STREAM": "sums", "maxrecordspertrigger": "7", "As_Of": "3", "Stability": "all"}
    options = parse_options(given)
    assert options.stream == "sums"
    assert (options.records_per_trigger_max, options.as_of, options.with_tentative) == (7, 3, True)


def test_the_past_is_a_version_or_a_time_of_the_clock() -> None:
    assert parse_options({"stream": "s", "as_of": "2024"}).as_of == 2024
    options = parse_options({"stream": "s", "as_of": "1970-01-01T00:00:01.5Z"})
    assert (options.as_of, options.as_of_ms) == (None, 1_500)
    with pytest.raises(Refused, match="as_of is for"):
        for_stream(options)


def test_without_more_than_a_name_it_is_all_of_the_stable_prefix() -> None:
    options = parse_options({"stream": "sums/p3"})
    assert options == ReadOptions(stream=options.stream)
    assert (options.from_us, options.to_us, options.with_tentative) == (None, FOREVER_US, False)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "name the stream"),
        ({"stream": ""}, "is not the name of a stream"),
        ({"stream": "../../etc/passwd"}, "is not the name of a stream"),
        ({"stream": "/etc/passwd"}, "is not the name of a stream"),
        ({"stream": "sums\0"}, "is not the name of a stream"),
        ({"stream": "sums\n"}, "is not the name of a stream"),
        ({"stream": "Sums"}, "is not the name of a stream"),
        ({"stream": "a" * 64}, "is not the name of a stream"),
        ({"stream": "a" * 10_000}, "longer than 200"),
        ({"stream": "s", "path": "/tmp"}, "no option 'path'"),
        ({"stream": "s", "form": "1"}, "did you mean 'from'"),
        ({"stream": "s", "max_records_per_trigger": "1"}, "did you mean 'maxRecordsPerTrigger'"),
        ({"stream": "s", "password": "hunter22"}, "no option 'password'"),
        ({"stream": "s", "participant": "../alpha"}, "is not a name"),
        ({"stream": "s", "stability": "tentative"}, "neither 'stable'"),
        ({"stream": "s", "from": "yesterday"}, "option from 'yesterday' is no time"),
        ({"stream": "s", "from": "nan"}, "is no time"),
        ({"stream": "s", "from": "1e400"}, "is no time"),
        ({"stream": "s", "to": "2024-13-01"}, "option to '2024-13-01' is no time"),
        ({"stream": "s", "from": "20", "to": "20"}, "is not before"),
        ({"stream": "s", "as_of": "-1"}, "no whole number from 0"),
        ({"stream": "s", "as_of": "1.5"}, "no whole number"),
        ({"stream": "s", "as_of": "2024-13-01"}, "is no time"),
        ({"stream": "s", "as_of": "٣"}, "no whole number"),
        ({"stream": "s", "as_of": "9" * 30}, "no whole number"),
        ({"stream": "s", "maxRecordsPerTrigger": "0"}, "no whole number from 1"),
        ({"stream": "s", "maxBucketsPerTrigger": "many"}, "no whole number from 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(Refused, match=sentence) as caught:
        parse_options(options)
    output = str(caught.value)
    assert "hunter22" not in output
    assert len(output) < 500
    assert "\n" not in output


def test_options_that_only_one_way_of_reading_has_are_refused_by_the_other() -> None:
    limited = parse_options({"stream": "s", "maxBucketsPerTrigger": "2"})
    assert for_stream(limited) is limited
    with pytest.raises(Refused, match=r"for spark\.readStream"):
        for_batch(limited)
    for name, value, sentence in (("as_of", "1", "as_of is for"), ("stability", "all", "stable")):
        past = parse_options({"stream": "s", name: value})
        assert for_batch(past) is past
        with pytest.raises(Refused, match=sentence):
            for_stream(past)
