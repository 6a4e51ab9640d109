"""Networks in SQL: the boxes that each clause becomes, and the networks that Python writes too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from medusa_core.errors import Refused
from medusa_core.network import (
    Aggregate,
    Box,
    Deduplicate,
    Every,
    Filter,
    Join,
    Lookup,
    Map,
    Network,
    Output,
    Rank,
    Resample,
    Running,
    Session,
    Source,
    Union,
)
from medusa_core.plans import network_document
from pipelines.language import shipped
from pipelines.language.check import check_network
from pipelines.language.load import load_network
from pipelines.language.sql.sql_file import network_of_sql_text
from pipelines.language.zone_database import offsets_of

TICKS = """
CREATE SOURCE ticks (ts_us BIGINT, symbol STRING, price DOUBLE, size INT) WITH (time = 'ts_us');
"""


def network_of(text: str) -> Network:
    return network_of_sql_text(TICKS + text, "ticks.sql", "ticks")


def boxes_of(text: str) -> list[Box]:
    return list(network_of(text).boxes)


def columns_of(network: Network, output: str) -> Mapping[str, str]:
    return {c.name: c.type for c in check_network(network).columns_of_output(output)}


@pytest.mark.parametrize("name", ["netmon", "road_sensors", "trade_bars"])
def test_a_shipped_network_in_sql_has_the_sources_and_outputs_of_that_in_python(name: str) -> None:
    in_python = load_network(name)
    in_sql = load_network(str(Path(shipped.__file__).with_name(f"{name}.sql")))
    assert (in_sql.name, in_sql.bucket) == (in_python.name, in_python.bucket)
    assert in_sql.sources == in_python.sources
    outputs = [output.name for output in in_python.outputs]
    assert [output.name for output in in_sql.outputs] == outputs
    for output in outputs:
        assert columns_of(in_sql, output) == columns_of(in_python, output)


def test_a_source_has_what_its_options_say() -> None:
    (source,) = network_of_sql_text(
        "CREATE SOURCE s (at STRING, k STRING, amount DECIMAL(10, 2)) WITH (time = 'at', "
        "time_zone = 'Europe/Berlin', disorder = '10s', key = 'k, at');"
        "CREATE STREAM o AS SELECT k FROM s",
        "x.sql",
        "x",
    ).sources
    assert source == Source(
        name="s",
        columns={"at": "string", "k": "string", "amount": "decimal(10,2)"},
        time="at",
        time_zone="Europe/Berlin",
        disorder="10s",
        key=("k", "at"),
    )


def test_an_existing_stream_is_a_source_too() -> None:
    (source,) = network_of_sql_text(
        "CREATE SOURCE busy (host STRING) WITH (stream = 'alpha/busy');"
        "CREATE STREAM o AS SELECT host FROM busy",
        "x.sql",
        "x",
    ).sources
    assert (source.writer, source.stream_name) == ("alpha", "busy")


def test_where_is_a_filter_and_select_a_map() -> None:
    text = "CREATE STREAM big AS SELECT symbol, price * size AS worth FROM ticks WHERE size > 100;"
    assert boxes_of(text) == [
        Filter(name="big_where", input="ticks", cases={"yes": "size > 100"}),
        Map(name="big", input="big_where", columns={"symbol": "symbol", "worth": "price * size"}),
    ]


def test_all_columns_of_a_filter_need_no_map() -> None:
    network = network_of("CREATE STREAM big AS SELECT * FROM ticks WHERE size > 100;")
    assert list(network.boxes) == [Filter(name="big", input="ticks", cases={"yes": "size > 100"})]
    assert network.outputs == (Output(name="big", input="big"),)


def test_a_source_may_be_given_as_it_is() -> None:
    (box,) = boxes_of("CREATE STREAM all_ticks AS SELECT * FROM ticks")
    assert isinstance(box, Map)
    assert list(box.columns) == ["ts_us", "symbol", "price", "size"]


def test_a_view_is_no_output_and_may_be_read_by_several_streams() -> None:
    network = network_of(
        "CREATE VIEW big AS SELECT * FROM ticks WHERE size > 100;"
        "CREATE STREAM a AS SELECT * FROM big WHERE symbol = 'A';"
        "CREATE STREAM b AS SELECT * FROM big;"
    )
    assert network.outputs == (Output(name="a", input="a"), Output(name="b", input="big"))
    assert [box.name for box in network.boxes] == ["big", "a"]


def test_a_window_with_a_group_is_an_aggregate() -> None:
    text = """CREATE STREAM bars AS
        SELECT window_start, symbol, count(*) AS trades, max(price) AS high
        FROM TUMBLE(TABLE ticks, DESCRIPTOR(ts_us), INTERVAL '1' MINUTE)
        GROUP BY window_start, symbol"""
    assert boxes_of(text) == [
        Aggregate(
            name="bars",
            input="ticks",
            size="1m",
            group_by=("symbol",),
            columns={"trades": "count(*)", "high": "max(price)"},
        )
    ]


@pytest.mark.parametrize(
    ("window", "size", "advance"),
    [
        ("TUMBLE(TABLE ticks, INTERVAL '90' SECONDS)", "90s", None),
        ("TUMBLE(ticks, INTERVAL 2 HOURS)", "2h", None),
        ("TUMBLE(TABLE ticks, '15m')", "15m", None),
        ("TABLE(TUMBLE(TABLE ticks, DESCRIPTOR(ts_us), INTERVAL '1' DAY)) AS t", "1d", None),
        ("HOP(TABLE ticks, INTERVAL '10' SECOND, INTERVAL '1 minute') t", "1m", "10s"),
        ("TUMBLE(TABLE ticks, DESCRIPTOR(stime), INTERVAL '500' MILLISECONDS)", "500ms", None),
        ("TUMBLE(TABLE ticks, INTERVAL '1' WEEK)", "7d", None),
    ],
)
def test_windows_are_written_as_in_other_systems(
    window: str, size: str, advance: str | None
) -> None:
    select = "CREATE STREAM n AS SELECT window_start, count(*) AS n"
    (box,) = boxes_of(f"{select} FROM {window} GROUP BY window_start")
    assert isinstance(box, Aggregate)
    assert (box.size, box.advance) == (size, advance)


@pytest.mark.parametrize(
    ("interval", "every"),
    [("INTERVAL '1' DAY", "day"), ("INTERVAL 1 WEEKS", "week"), ("INTERVAL '1 month'", "month"),
     ("INTERVAL '1' QUARTER", "quarter"), ("INTERVAL '1' YEAR", "year")],
)  # fmt: skip
def test_a_size_with_a_time_zone_is_a_calendar_window(interval: str, every: str) -> None:
    select = "CREATE STREAM n AS SELECT window_start, count(*) AS n"
    window = f"TUMBLE(TABLE ticks, DESCRIPTOR(ts_us), {interval}, 'Asia/Beirut')"
    (box,) = boxes_of(f"{select} FROM {window} GROUP BY window_start")
    assert isinstance(box, Aggregate)
    assert (box.size, box.advance, box.every, box.zone) == (None, None, every, "Asia/Beirut")
    assert box.zone_offsets == offsets_of("Asia/Beirut")


@pytest.mark.parametrize(
    ("window", "by", "gap", "length_max"),
    [
        ("SESSION(TABLE ticks PARTITION BY symbol, INTERVAL '5' MINUTE, INTERVAL '4' HOUR)",
         ("symbol",), "5m", "4h"),
        ("SESSION(TABLE ticks PARTITION BY symbol, DESCRIPTOR(ts_us), '90s', '1d')",
         ("symbol",), "90s", "1d"),
        ("TABLE(SESSION(ticks PARTITION BY (symbol, size), '1s', INTERVAL 1 WEEK)) AS t",
         ("symbol", "size"), "1s", "7d"),
        ("SESSION(TABLE ticks PARTITION BY symbol, size, DESCRIPTOR(stime), '1s', '1m')",
         ("symbol", "size"), "1s", "1m"),
        ("SESSION(TABLE ticks, '1s', '1m')", (), "1s", "1m"),
    ],
)  # fmt: skip
def test_sessions_are_written_as_in_flink_with_a_greatest_length(
    window: str, by: tuple[str, ...], gap: str, length_max: str
) -> None:
    groups = ", ".join(("window_start", "window_end", *by))
    select = f"CREATE STREAM n AS SELECT {groups}, count(*) AS n"
    assert boxes_of(f"{select} FROM {window} GROUP BY {groups}") == [
        Session(name="n", input="ticks", by=by, gap=gap, length_max=length_max,
                columns={"n": "count(*)"})
    ]  # fmt: skip


def test_a_condition_on_the_key_of_sessions_is_a_filter_before_them() -> None:
    text = """CREATE STREAM n AS SELECT window_start, symbol, count(*) AS n
        FROM SESSION(TABLE ticks PARTITION BY symbol, '5m', '4h')
        WHERE symbol LIKE 'a%' AND ticks.symbol <> 'ab' GROUP BY window_start, symbol"""
    where, session, _ = boxes_of(text)
    assert isinstance(where, Filter)
    assert where.cases == {"yes": "symbol LIKE 'a%' AND symbol <> 'ab'"}
    assert isinstance(session, Session)
    assert session.input == where.name


def test_the_end_of_a_session_is_a_column_of_it() -> None:
    text = """CREATE STREAM n AS SELECT symbol, unix_seconds(window_end) AS ends
        FROM SESSION(TABLE ticks PARTITION BY symbol, '5m', '4h') GROUP BY symbol, window_start
        HAVING max(price) > 3 AND window_end > timestamp'2024-01-31 00:00:00'"""
    session, having, behind = boxes_of(text)
    assert isinstance(session, Session)
    assert isinstance(having, Filter)
    assert isinstance(behind, Map)
    assert session.columns == {"max_1": "max(price)"}
    assert having.cases["yes"].startswith("max_1 > 3 AND window_end > timestamp")
    assert behind.columns == {"symbol": "symbol", "ends": "unix_seconds(window_end)"}


def test_expressions_over_aggregates_are_a_map_behind_the_aggregate() -> None:
    text = """CREATE STREAM bars AS
        SELECT symbol, max(price) - min(price) AS spread, max(price) AS high, window_end
        FROM TUMBLE(TABLE ticks, INTERVAL '60' SECOND) GROUP BY symbol, window_start, window_end"""
    aggregate, behind = boxes_of(text)
    assert isinstance(aggregate, Aggregate)
    assert isinstance(behind, Map)
    assert aggregate.columns == {"high": "max(price)", "min_1": "min(price)"}
    assert behind.columns == {
        "symbol": "symbol",
        "spread": "high - min_1",
        "high": "high",
        "window_end": "timestamp_micros(unix_micros(window_start) + 60000000L)",
    }


def test_having_may_name_aggregates_that_are_not_selected_and_columns_that_are() -> None:
    text = """CREATE STREAM bars AS SELECT symbol, max(price) - min(price) AS spread
        FROM TUMBLE(TABLE ticks, INTERVAL '60' SECOND) GROUP BY window_start, symbol
        HAVING count(*) > 3 AND spread > 0.5"""
    aggregate, having, behind = boxes_of(text)
    assert isinstance(aggregate, Aggregate)
    assert isinstance(having, Filter)
    assert isinstance(behind, Map)
    assert aggregate.columns == {
        "max_1": "max(price)", "min_1": "min(price)", "count_1": "count(*)",
    }  # fmt: skip
    assert having.cases == {"yes": "count_1 > 3 AND (max_1 - min_1) > 0.5"}
    assert behind.columns == {"symbol": "symbol", "spread": "max_1 - min_1"}


def test_an_expression_of_the_group_is_a_map_before_the_aggregate() -> None:
    text = """CREATE STREAM n AS SELECT window_start, floor(size / 2) AS size, sum(size) AS total,
            max(size) AS most, floor(size / 2) + 1 AS more
        FROM TUMBLE(TABLE ticks, INTERVAL '60' SECOND)
        GROUP BY window_start, floor(size / 2) HAVING floor(size / 2) > 0"""
    before, aggregate, having, behind = boxes_of(text)
    assert isinstance(before, Map)
    assert isinstance(behind, Map)
    assert isinstance(having, Filter)
    assert dict(before.columns) == {
        "ts_us": "ts_us", "symbol": "symbol", "price": "price", "size": "size",
        "group_1": "floor(size / 2)",
    }  # fmt: skip
    assert aggregate == Aggregate(
        name="n_windows", input="n_groups", size="60s", group_by=("group_1",),
        columns={"total": "sum(size)", "most": "max(size)"},
    )  # fmt: skip
    assert having.cases == {"yes": "group_1 > 0"}
    assert behind.columns["size"] == "group_1"
    assert behind.columns["more"] == "group_1 + 1"


def test_a_name_in_group_by_is_a_column_before_it_is_one_that_is_selected() -> None:
    text = """CREATE STREAM n AS SELECT window_start, {} AS {}, count(*) AS n
        FROM TUMBLE(TABLE ticks, INTERVAL '60' SECOND) GROUP BY window_start, {}"""
    aggregate, behind = boxes_of(text.format("lower(symbol)", "symbol", "symbol"))
    assert isinstance(aggregate, Aggregate)
    assert isinstance(behind, Map)
    assert aggregate.group_by == ("symbol",)
    assert behind.columns["symbol"] == "lower(symbol)"
    aggregate, behind = boxes_of(text.format("symbol", "price", "symbol"))
    assert isinstance(behind, Map)
    assert behind.columns["price"] == "symbol"
    before, aggregate = boxes_of(text.format("lower(symbol)", "s", "s"))
    assert isinstance(before, Map)
    assert before.columns["s"] == "lower(symbol)"


def test_columns_that_are_named_as_keywords_stay_columns() -> None:
    network = network_of_sql_text(
        "CREATE SOURCE s (at STRING, `true` INT, `end` INT, date STRING) WITH (time = 'at');"
        "CREATE STREAM o AS SELECT x.*, CASE WHEN `end` > 1 THEN 1 ELSE 2 END AS c FROM s AS x;"
        "CREATE STREAM p AS SELECT max(`true`) AS `null`, max(cast(at AS date)) AS d, date "
        "FROM TUMBLE(TABLE s, '1m') GROUP BY window_start, date",
        "x.sql",
        "x",
    )
    assert columns_of(network, "o") == {
        "at": "string", "true": "int", "end": "int", "date": "string", "c": "int",
    }  # fmt: skip
    assert columns_of(network, "p") == {"null": "int", "d": "date", "date": "string"}


def test_queries_that_nothing_reads_make_no_boxes() -> None:
    network = network_of("""CREATE STREAM n AS
        WITH big AS (SELECT * FROM ticks WHERE size > 3), named AS (SELECT symbol FROM big)
        SELECT * FROM big;
        CREATE STREAM n_where AS SELECT symbol FROM ticks WHERE size > 4""")
    assert [box.name for box in network.boxes] == ["n", "n_where_where", "n_where"]


def test_a_call_may_have_the_name_of_a_column_that_it_reads_or_groups() -> None:
    text = """CREATE STREAM bars AS SELECT symbol AS s, max(price) AS price, count(*) AS symbol
        FROM TUMBLE(TABLE ticks, INTERVAL '60' SECOND) GROUP BY window_start, symbol"""
    aggregate, behind = boxes_of(text)
    assert isinstance(aggregate, Aggregate)
    assert isinstance(behind, Map)
    assert aggregate.columns == {"price": "max(price)", "count_1": "count(*)"}
    assert behind.columns == {"s": "symbol", "price": "price", "symbol": "count_1"}


def test_a_filter_of_an_aggregate_belongs_to_its_call() -> None:
    text = """CREATE STREAM n AS SELECT window_start,
            count(*) FILTER (WHERE size > 3) AS many, count(*) AS n
        FROM TUMBLE(TABLE ticks, INTERVAL '60' SECOND) GROUP BY window_start"""
    (box,) = boxes_of(text)
    assert isinstance(box, Aggregate)
    assert box.columns == {"many": "count(*) FILTER (WHERE size > 3)", "n": "count(*)"}


@pytest.mark.parametrize(
    "advised",
    [
        "array_join(collect_list(symbol), ',')",
        "array_join(sort_array(collect_list(symbol)), ',')",
        "array_join(array_distinct(array_agg(upper(symbol)) FILTER (WHERE size > 3)), ',')",
        "size(collect_set(symbol))",
    ],
)
def test_a_function_of_a_list_is_computed_with_the_list(advised: str) -> None:
    network = network_of(
        f"CREATE STREAM n AS SELECT {advised} AS p FROM TUMBLE(TABLE ticks, '1m') "
        "GROUP BY window_start"
    )
    aggregate, behind = network.boxes
    assert isinstance(aggregate, Aggregate)
    assert isinstance(behind, Map)
    assert aggregate.columns == {"p": advised}
    assert columns_of(network, "n")["p"] == ("int" if "size(" in advised else "string")


def test_a_function_of_a_list_may_be_a_part_of_an_expression() -> None:
    text = """CREATE STREAM n AS SELECT 1 + size(collect_set(symbol)) AS p,
            size(split(max(symbol), ',')) AS q
        FROM TUMBLE(TABLE ticks, '1m') GROUP BY window_start
        HAVING size(collect_list(symbol)) > 2"""
    aggregate = boxes_of(text)[0]
    assert isinstance(aggregate, Aggregate)
    assert list(aggregate.columns.values()) == [
        "size(collect_set(symbol))", "max(symbol)", "size(collect_list(symbol))",
    ]  # fmt: skip


def test_union_all_gives_the_names_of_its_first_part() -> None:
    text = """CREATE STREAM u AS SELECT symbol AS s, size FROM ticks WHERE size > 3
        UNION ALL SELECT upper(symbol) AS t, size + 1 AS more FROM ticks"""
    network = network_of(text)
    (union,) = [box for box in network.boxes if isinstance(box, Union)]
    assert len(union.inputs) == 2
    assert columns_of(network, "u") == {"s": "string", "size": "int"}


def test_with_and_subqueries_are_boxes_too() -> None:
    network = network_of("""CREATE STREAM n AS
        WITH big AS (SELECT * FROM ticks WHERE size > 3), named AS (SELECT symbol FROM big)
        SELECT i.symbol AS s FROM (SELECT symbol FROM named WHERE symbol <> '') AS i""")
    assert [type(box).__name__ for box in network.boxes] == ["Filter", "Map", "Filter", "Map"]
    assert columns_of(network, "n") == {"s": "string"}


def test_comments_cases_and_quoted_names_are_those_of_sql() -> None:
    network = network_of("""-- a comment; with a semicolon
        create stream N /* another */ as select T.`symbol` as S, -- one
            concat('--', T.Symbol) as c from Ticks as T where Size > 3 -- the end""")
    assert columns_of(network, "n") == {"s": "string", "c": "string"}


def test_words_of_clauses_may_be_names_of_columns() -> None:
    network = network_of_sql_text(
        "CREATE SOURCE s (at STRING, offset BIGINT, left STRING) WITH (time = 'at');"
        "CREATE STREAM o AS SELECT offset, s.left, left(left, 2) AS l, offset + offset AS twice "
        "FROM s WHERE offset > 3 AND offset < 9",
        "x.sql",
        "x",
    )
    assert list(columns_of(network, "o")) == ["offset", "left", "l", "twice"]


def test_a_stream_may_be_computed_in_a_fragment_of_its_own() -> None:
    boxes = boxes_of("CREATE STREAM big WITH (fragment = 'tail') AS SELECT symbol FROM ticks")
    assert [box.fragment for box in boxes] == ["tail"]


def test_a_network_without_a_name_has_that_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "my ticks.sql"
    file.write_text(TICKS + "CREATE STREAM o AS SELECT symbol FROM ticks")
    assert load_network(str(file)).name == "my_ticks"


def test_a_network_has_the_bucket_that_it_declares() -> None:
    text = "CREATE NETWORK n WITH (bucket = '1m');" + TICKS
    text += "CREATE STREAM o AS SELECT symbol FROM ticks"
    network = network_of_sql_text(text, "x.sql", "x")
    assert (network.name, network.bucket) == ("n", "1m")


ORDERS = """
CREATE SOURCE orders (at_us BIGINT, id BIGINT, user STRING) WITH (time = 'at_us');
CREATE SOURCE payments (ts_us BIGINT, id BIGINT, user STRING, paid INT) WITH (time = 'ts_us');
"""


def joined(select: str) -> Network:
    return network_of_sql_text(f"{ORDERS}CREATE STREAM j AS {select}", "j.sql", "j")


@pytest.mark.parametrize(
    ("interval", "within"),
    [
        ("p.stime BETWEEN o.stime - INTERVAL '5' SECOND AND o.stime + INTERVAL '1' MINUTE",
         ("-5s", "1m")),
        ("o.stime BETWEEN p.stime AND p.stime + INTERVAL '10' SECONDS", ("-10s", "0s")),
        ("p.ts_us >= o.at_us AND p.ts_us <= o.at_us + INTERVAL '2' HOURS", ("0s", "2h")),
        ("p.stime > o.stime AND p.stime < o.stime + INTERVAL '1' SECOND", ("1us", "999999us")),
        ("o.stime + INTERVAL '1' DAY > p.stime AND o.stime - INTERVAL '1' DAY <= p.stime",
         ("-24h", "86399999999us")),
        ("p.stime = o.stime", ("0s", "0s")),
        ("p.stime - INTERVAL '3' SECONDS = o.stime", ("3s", "3s")),
    ],
)  # fmt: skip
def test_the_interval_of_a_join_is_written_in_any_direction(
    interval: str, within: tuple[str, str]
) -> None:
    network = joined(
        f"SELECT o.user FROM orders o JOIN payments AS p ON o.id = p.id AND {interval}"
    )
    box = network.box("j_join")
    assert isinstance(box, Join)
    assert (box.left, box.right, box.on, box.within) == ("orders", "payments", ("id",), within)


@pytest.mark.parametrize(
    ("join", "how", "columns"),
    [
        ("JOIN", "inner", ["at_us", "id", "user", "ts_us", "p_user", "paid"]),
        ("INNER JOIN", "inner", ["at_us", "id", "user", "ts_us", "p_user", "paid"]),
        ("LEFT JOIN", "left", ["at_us", "id", "user", "ts_us", "p_id", "p_user", "paid"]),
        ("LEFT OUTER JOIN", "left", ["at_us", "id", "user", "ts_us", "p_id", "p_user", "paid"]),
        ("SEMI JOIN", "semi", ["at_us", "id", "user"]),
        ("LEFT SEMI JOIN", "semi", ["at_us", "id", "user"]),
        ("ANTI JOIN", "anti", ["at_us", "id", "user"]),
        ("LEFT ANTI JOIN", "anti", ["at_us", "id", "user"]),
    ],
)
def test_the_kinds_of_joins_are_those_of_spark(join: str, how: str, columns: list[str]) -> None:
    network = joined(f"""SELECT * FROM orders AS o {join} payments AS p
        ON o.id = p.id AND p.stime BETWEEN o.stime AND o.stime + INTERVAL '1' HOUR""")
    box = network.box("j")
    assert isinstance(box, Join)
    assert box.how == how
    assert list(columns_of(network, "j")) == columns


@pytest.mark.parametrize(
    ("join", "how", "columns"),
    [
        ("JOIN", "inner", ["at_us", "id", "user", "ts_us", "p_user", "paid"]),
        ("LEFT JOIN", "left", ["at_us", "id", "user", "ts_us", "p_id", "p_user", "paid"]),
    ],
)
@pytest.mark.parametrize(
    ("bound", "max_age"),
    [
        ("p.stime >= o.stime - INTERVAL '1' DAY", "24h"),
        ("o.at_us - INTERVAL '90' SECONDS <= p.ts_us AND p.ts_us <= o.at_us", "90s"),
        ("p.stime BETWEEN o.stime - INTERVAL '1' MINUTE AND o.stime", "1m"),
        ("p.stime > o.stime - INTERVAL '1' SECOND", "999999us"),
    ],
)
def test_a_table_as_of_the_time_of_a_row_is_looked_up(
    join: str, how: str, columns: list[str], bound: str, max_age: str
) -> None:
    network = joined(f"""SELECT * FROM orders AS o
        {join} payments FOR SYSTEM_TIME AS OF o.stime AS p ON o.id = p.id AND {bound}""")
    box = network.box("j")
    assert isinstance(box, Lookup)
    assert (box.input, box.table, box.on) == ("orders", "payments", ("id",))
    assert (box.how, box.max_age) == (how, max_age)
    assert list(columns_of(network, "j")) == columns


def test_columns_of_joined_tables_are_named_with_their_table() -> None:
    network = joined("""SELECT p.user AS payer, o.user, paid * 2 AS twice
        FROM orders AS o LEFT JOIN (SELECT user, id, paid FROM payments WHERE paid > 0) AS p
        ON o.id = p.id AND p.stime BETWEEN o.stime AND o.stime + INTERVAL '1' HOUR
        WHERE p.user IS NULL OR p.user <> o.user""")
    behind = network.box("j")
    assert isinstance(behind, Map)
    assert behind.columns == {"payer": "p_user", "user": "user", "twice": "paid * 2"}
    where = network.box("j_where_2")
    assert isinstance(where, Filter)
    assert where.cases == {"yes": "p_user IS NULL OR p_user <> user"}


@pytest.mark.parametrize(
    "condition",
    [
        "(t.k = r.k AND r.stime BETWEEN t.stime AND t.stime + INTERVAL '1' HOUR)",
        "(t.k = r.k) AND (r.stime BETWEEN t.stime AND t.stime + INTERVAL '1' HOUR)",
        "((t.k = r.k) AND ((r.stime >= t.stime) AND r.stime <= t.stime + INTERVAL '1' HOUR))",
    ],
)
def test_brackets_around_the_parts_of_a_condition_change_nothing(condition: str) -> None:
    network = network_of_sql_text(
        "CREATE SOURCE t (at STRING, k INT, fee INT) WITH (time = 'at');"
        "CREATE SOURCE r (at STRING, k INT) WITH (time = 'at');"
        f"CREATE STREAM j AS SELECT t.fee FROM t JOIN r ON {condition}",
        "j.sql",
        "j",
    )
    join = network.box("j_join")
    assert isinstance(join, Join)
    assert (join.on, join.within) == (("k",), ("0s", "1h"))


def test_a_name_without_a_table_is_the_only_column_of_that_name() -> None:
    network = network_of_sql_text(
        "CREATE SOURCE t (at STRING, k INT, fee INT) WITH (time = 'at');"
        "CREATE SOURCE r (at STRING, k INT, fee INT, r_fee INT) WITH (time = 'at');"
        "CREATE STREAM j AS SELECT r_fee, r.r_fee AS same, r.fee AS other FROM t JOIN r "
        "ON (t.k = r.k AND r.stime BETWEEN t.stime AND t.stime + INTERVAL '1' HOUR)",
        "j.sql",
        "j",
    )
    join, behind = network.box("j_join"), network.box("j")
    assert isinstance(join, Join)
    assert isinstance(behind, Map)
    columns = {name: join.columns[text] for name, text in behind.columns.items()}
    assert columns == {"r_fee": "right.r_fee", "same": "right.r_fee", "other": "right.fee"}


def test_a_joined_stream_is_grouped_through_a_view() -> None:
    network = network_of_sql_text(
        ORDERS
        + """CREATE VIEW j AS SELECT o.user, p.paid FROM orders o JOIN payments p
            ON o.id = p.id AND p.stime BETWEEN o.stime AND o.stime + INTERVAL '1' HOUR;
        CREATE STREAM s AS SELECT user, sum(paid) AS paid
            FROM TUMBLE(TABLE j, INTERVAL '1' HOUR) GROUP BY window_start, user""",
        "j.sql",
        "j",
    )
    assert columns_of(network, "s") == {"user": "string", "paid": "bigint"}


@pytest.mark.parametrize(
    ("table", "box"),
    [
        ("TABLE ticks PARTITION BY symbol, INTERVAL '10' SECOND, INTERVAL '1' MINUTE",
         Resample(name="even", input="ticks", by=("symbol",), step="10s", max_age="1m")),
        ("ticks, DESCRIPTOR(ts_us), '10s', '1m', 'previous'",
         Resample(name="even", input="ticks", step="10s", max_age="1m")),
        ("TABLE ticks PARTITION BY symbol, size, DESCRIPTOR(stime), '1s', '5s', 'linear'",
         Resample(name="even", input="ticks", by=("symbol", "size"), step="1s", max_age="5s",
                  method="linear")),
        ("TABLE ticks PARTITION BY (symbol, size), '1s', '5s', 'linear'",
         Resample(name="even", input="ticks", by=("symbol", "size"), step="1s", max_age="5s",
                  method="linear")),
    ],
)  # fmt: skip
def test_resample_is_the_box_that_python_declares(table: str, box: Resample) -> None:
    for query in (f"RESAMPLE({table})", f"TABLE(RESAMPLE({table})) AS r"):
        network = network_of(f"CREATE STREAM even AS SELECT * FROM {query}")
        in_python = replace(network, boxes=(box,))
        assert network_document(network) == network_document(in_python)
        assert columns_of(network, "even") == columns_of(in_python, "even")


def test_resampled_rows_are_filtered_joined_and_grouped_as_those_of_a_table() -> None:
    even = "RESAMPLE(TABLE ticks PARTITION BY symbol, '10s', '1m')"
    network = network_of(f"""
        CREATE STREAM high AS SELECT r.symbol, sample_time FROM {even} AS r WHERE r.price > 2;
        CREATE STREAM met AS SELECT t.symbol, r.price FROM ticks AS t JOIN {even} AS r
            ON t.symbol = r.symbol AND r.stime BETWEEN t.stime AND t.stime + INTERVAL '9' SECOND;
        CREATE STREAM counted AS SELECT window_start, count(*) AS n
            FROM TUMBLE(TABLE (SELECT * FROM {even}), '1m') GROUP BY window_start;""")
    kinds = [type(box).__name__ for box in network.boxes]
    assert kinds == [
        "Resample",
        "Filter",
        "Map",
        "Resample",
        "Join",
        "Map",
        "Resample",
        "Aggregate",
    ]
    assert columns_of(network, "met") == {"symbol": "string", "price": "double"}
    assert columns_of(network, "high") == {"symbol": "string", "sample_time": "timestamp"}


def ranked(over: str, table: str, where: str, *, items: str = "*") -> list[Box]:
    """The boxes of the first rows of a window."""
    query = f"SELECT {items}, ROW_NUMBER() OVER ({over}) AS rank FROM {table}"
    return boxes_of(f"CREATE STREAM best AS SELECT * FROM ({query}) WHERE {where}")


MINUTES = "TUMBLE(TABLE ticks, INTERVAL '1' MINUTE)"


@pytest.mark.parametrize(
    ("where", "k"),
    [
        ("rank <= 3", 3),
        ("rank < 3", 2),
        ("rank = 1", 1),
        ("1 = rank", 1),
        ("3 >= rank", 3),
        ("4 > rank", 3),
        ("rank BETWEEN 1 AND 3", 3),
        ("(rank <= 3)", 3),
        ("((rank BETWEEN 1 AND 3))", 3),
    ],
)
def test_a_row_number_with_a_limit_is_a_rank(where: str, k: int) -> None:
    over = "PARTITION BY window_start, symbol ORDER BY price DESC NULLS LAST, size ASC"
    order = ("price desc", "size")
    assert ranked(over, MINUTES, where) == [
        Rank(name="best", input="ticks", size="1m", group_by=("symbol",), order=order, k=k)
    ]


@pytest.mark.parametrize(
    ("where", "rest"),
    [
        ("(rank <= 3) AND (size > 1)", "size > 1"),
        ("(size > 1 AND rank <= 3)", "size > 1"),
        ("(size > 1 OR price > 2) AND (rank <= 3 AND symbol = 'A')",
         "(size > 1 OR price > 2) AND symbol = 'A'"),
        ("size BETWEEN 1 AND 3 AND rank BETWEEN 1 AND 3", "size BETWEEN 1 AND 3"),
    ],
)  # fmt: skip
def test_other_conditions_than_the_limit_are_a_filter(where: str, rest: str) -> None:
    rank, filter_ = ranked("PARTITION BY window_start ORDER BY price", MINUTES, where)
    assert isinstance(rank, Rank)
    assert rank.k == 3
    assert filter_ == Filter(name="best", input=rank.name, cases={"yes": rest})


def test_without_a_limit_all_rows_of_a_window_are_ranked() -> None:
    over = "PARTITION BY window_start ORDER BY price"
    query = f"SELECT *, ROW_NUMBER() OVER ({over}) AS rank FROM {MINUTES}"
    rank, filter_ = boxes_of(f"CREATE STREAM sorted AS SELECT * FROM ({query}) WHERE size > 1")
    assert isinstance(rank, Rank)
    assert rank.k is None
    assert filter_ == Filter(name="sorted", input=rank.name, cases={"yes": "size > 1"})


@pytest.mark.parametrize("limit", ["q.rank <= 3", "(3 >= q.rank)", "q.rank BETWEEN 1 AND 3"])
def test_a_limit_may_name_the_table_of_the_rank(limit: str) -> None:
    over = "PARTITION BY window_start ORDER BY price"
    query = f"SELECT *, ROW_NUMBER() OVER ({over}) AS rank FROM {MINUTES}"
    (rank,) = boxes_of(f"CREATE STREAM best AS SELECT * FROM ({query}) AS q WHERE {limit}")
    assert isinstance(rank, Rank)
    assert rank.k == 3


VIEWS = {
    "ticks": "",
    "mixed": """CREATE VIEW mixed AS
        SELECT window_start, count(*) AS size FROM TUMBLE(TABLE ticks, '1m') GROUP BY window_start
        UNION ALL
        SELECT window_start, count(*) AS size FROM TUMBLE(TABLE ticks, '1h') GROUP BY window_start;
        """,
    "daily": """CREATE VIEW daily AS
        SELECT window_start, count(*) AS size FROM TUMBLE(TABLE ticks, INTERVAL '1' DAY, 'UTC')
        GROUP BY window_start;""",
}


@pytest.mark.parametrize("table", list(VIEWS))
def test_windows_that_are_advised_can_be_ranked(table: str) -> None:
    def best(rows: str) -> list[Box]:
        over = "PARTITION BY window_start ORDER BY size"
        query = f"SELECT *, ROW_NUMBER() OVER ({over}) AS rank FROM {rows}"
        stream = f"CREATE STREAM best AS SELECT * FROM ({query}) WHERE rank < 3"
        return boxes_of(VIEWS[table] + stream)

    with pytest.raises(Refused) as refused:
        best(table)
    advice = re.search(r"write FROM (.*) and PARTITION BY window_start", str(refused.value))
    assert advice is not None
    assert isinstance(best(advice[1])[-1], Rank)


def test_sliding_windows_are_ranked_with_what_is_selected_of_them() -> None:
    table = "HOP(TABLE ticks, INTERVAL '10' SECOND, INTERVAL '1' MINUTE) WHERE size > 1"
    where = "rank <= 3 AND (worth > 5 OR symbol = 'A')"
    found = ranked(
        "PARTITION BY window_end ORDER BY price", table, where,
        items="symbol, window_end, price * size AS worth",
    )  # fmt: skip
    end = "timestamp_micros(unix_micros(window_start) + 60000000L)"
    assert found == [
        Filter(name="best_where", input="ticks", cases={"yes": "size > 1"}),
        Rank(name="best_rank", input="best_where", size="1m", advance="10s", order=("price",), k=3),
        Map(name="best_columns", input="best_rank",
            columns={"symbol": "symbol", "window_end": end, "worth": "price * size",
                     "rank": "rank"}),
        Filter(name="best", input="best_columns",
               cases={"yes": "(worth > 5 OR symbol = 'A')"}),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("window", "size"),
    [
        (MINUTES, "1m"),
        ("HOP(TABLE ticks, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)", "10s"),
    ],
)
def test_grouped_rows_are_ranked_among_those_of_their_window(window: str, size: str) -> None:
    """One window of those that slide ends in each piece that is as long as their advance."""
    grouped = f"""(SELECT window_start, symbol, count(*) AS n FROM {window}
                   GROUP BY window_start, symbol HAVING count(*) > 1)"""
    over = "PARTITION BY window_start ORDER BY n DESC, symbol, stime"
    *_, box = ranked(over, grouped, "rank <= 2")
    assert box == Rank(name="best", input="best_having", size=size, order=("n desc", "symbol"), k=2)


def test_grouped_rows_of_a_view_and_of_a_union_are_ranked_too() -> None:
    network = network_of(f"""
        CREATE VIEW counts AS SELECT symbol, window_start, count(*) AS n
            FROM {MINUTES} GROUP BY window_start, symbol;
        CREATE STREAM best AS SELECT symbol, rank FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start ORDER BY n) AS rank
            FROM (SELECT * FROM counts UNION ALL SELECT * FROM counts)
        ) WHERE rank <= 2""")
    assert [box.size for box in network.boxes if isinstance(box, Rank)] == ["1m"]
    assert columns_of(network, "best") == {"symbol": "string", "rank": "bigint"}


@pytest.mark.parametrize("time", ["stime", "ts_us", "stime ASC"])
def test_the_first_row_of_a_key_by_event_time_is_a_deduplicate(time: str) -> None:
    over = f"PARTITION BY window_start, symbol, size ORDER BY {time}"
    assert ranked(over, MINUTES, "rank = 1") == [
        Deduplicate(name="best", input="ticks", by=("symbol", "size"), within="1m")
    ]


@pytest.mark.parametrize(
    ("over", "table", "where"),
    [
        ("PARTITION BY window_start, symbol ORDER BY stime", MINUTES, "rank <= 2"),
        ("PARTITION BY window_start ORDER BY stime", MINUTES, "rank <= 1"),
        ("PARTITION BY window_start, symbol ORDER BY stime",
         "HOP(TABLE ticks, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)", "rank <= 1"),
    ],
)  # fmt: skip
def test_other_first_rows_by_event_time_are_a_rank_without_an_order(
    over: str, table: str, where: str
) -> None:
    (box,) = ranked(over, table, where)
    assert isinstance(box, Rank)
    assert box.order == ()


OVER = "OVER (PARTITION BY window_start, symbol ORDER BY stime ROWS UNBOUNDED PRECEDING)"


@pytest.mark.parametrize(
    "over",
    [
        OVER,
        "OVER (PARTITION BY symbol, window_start ORDER BY t.ts_us ROWS UNBOUNDED PRECEDING)",
        OVER.replace("stime", "stime ASC"),
        OVER.replace("UNBOUNDED PRECEDING", "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
    ],
)
def test_an_aggregate_function_over_the_rows_up_to_each_one_is_a_running(over: str) -> None:
    running, mapped = boxes_of(
        f"CREATE STREAM x AS SELECT symbol, sum(t.size) {over} AS total, "
        f"price - max(price) FILTER (WHERE size > 1) {over} AS below "
        "FROM TUMBLE(TABLE ticks, INTERVAL '1' DAY) AS t"
    )
    assert running == Running(
        name="x_running", input="ticks", by=("symbol",), within="1d",
        columns={"total": "sum(size)", "max_1": "max(price) FILTER (WHERE size > 1)"},
    )  # fmt: skip
    assert mapped == Map(
        name="x", input="x_running",
        columns={"symbol": "symbol", "total": "total", "below": "price - max_1"},
    )  # fmt: skip


def test_a_running_with_all_columns_needs_no_map_and_where_is_a_filter_before_it() -> None:
    filtered, running = boxes_of(
        f"CREATE STREAM x AS SELECT *, sum(size) {OVER} AS total "
        "FROM TUMBLE(TABLE ticks, INTERVAL '1' DAY) WHERE price > 0"
    )
    assert filtered == Filter(name="x_where", input="ticks", cases={"yes": "price > 0"})
    assert running == Running(
        name="x", input="x_where", by=("symbol",), within="1d", columns={"total": "sum(size)"}
    )


@pytest.mark.parametrize(
    ("table", "by"),
    [
        ("ticks PARTITION BY symbol, 3, INTERVAL '1' HOUR", ("symbol",)),
        ("ticks PARTITION BY (symbol), DESCRIPTOR(ts_us), 3, '1h'", ("symbol",)),
        ("ticks PARTITION BY symbol, size, 3, INTERVAL '1' HOUR", ("symbol", "size")),
        ("ticks, 3, INTERVAL '1' HOUR", ()),
    ],
)
def test_groups_of_so_many_rows_are_an_every(table: str, by: tuple[str, ...]) -> None:
    listed = "".join(f"{name}, " for name in by)
    (box,) = boxes_of(
        f"CREATE STREAM x AS SELECT {listed}sum(size) AS total FROM EVERY(TABLE {table}) "
        f"GROUP BY {listed}group_number"
    )
    assert box == Every(
        name="x", input="ticks", by=by, n=3, within="1h", columns={"total": "sum(size)"}
    )


def test_conditions_on_the_key_and_over_groups_are_filters_around_an_every() -> None:
    before, every, behind, mapped = boxes_of(
        "CREATE STREAM x AS SELECT symbol, max(price) AS top "
        "FROM EVERY(TABLE ticks PARTITION BY symbol, 3, INTERVAL '1' HOUR) WHERE symbol <> 'a' "
        "GROUP BY group_number, symbol HAVING sum(size) > 5"
    )
    assert isinstance(every, Every)
    assert isinstance(before, Filter)
    assert isinstance(behind, Filter)
    assert isinstance(mapped, Map)
    assert (before.cases, behind.cases) == ({"yes": "symbol <> 'a'"}, {"yes": "sum_1 > 5"})


@pytest.mark.parametrize(
    ("clause", "keys"),
    [
        ("GROUP BY window_start EMIT EMPTY", {}),
        (
            (
                "GROUP BY window_start, symbol, size EMIT EMPTY "
                "FOR symbol IN ('a', 'b''c', NULL) AND size IN (1, -2)"
            ),
            {"symbol": ("a", "b'c", None), "size": (1, -2)},
        ),
    ],
)
def test_windows_without_records_have_rows_of_the_values_that_are_declared(
    clause: str, keys: Mapping[str, tuple[object, ...]]
) -> None:
    names = "".join(f", {name}" for name in keys)
    (box,) = boxes_of(
        f"CREATE STREAM x AS SELECT window_start{names}, count(*) AS n "
        f"FROM TUMBLE(TABLE ticks, INTERVAL '1' HOUR) {clause}"
    )
    assert isinstance(box, Aggregate)
    assert (box.empty, box.keys) == ("emit", keys)


def test_types_have_their_names_of_other_systems_too() -> None:
    source, _ = network_of(
        "CREATE SOURCE s (t BIGINT, a VARCHAR, b TEXT, c NUMERIC(10, 2), d DECIMAL(5), e BOOL, "
        "f DOUBLE PRECISION, g BYTES, h BYTEA, i TIMESTAMP(6), j NUMERIC ( 10 , 2 ), "
        "k DEC(4 ,1), l TIMESTAMP( 6 ), m DOUBLE  PRECISION) WITH (time = 't');"
        "CREATE STREAM o AS SELECT t FROM s; CREATE STREAM p AS SELECT symbol FROM ticks"
    ).sources[::-1]
    assert list(source.columns.values()) == [
        "bigint", "string", "string", "decimal(10,2)", "decimal(5,0)", "boolean", "double",
        "binary", "binary", "timestamp", "decimal(10,2)", "decimal(4,1)", "timestamp", "double",
    ]  # fmt: skip


def test_group_by_may_number_the_columns_of_select() -> None:
    text = """CREATE STREAM n AS SELECT ALL window_start, {} AS k, count(*) AS n
        FROM TUMBLE(TABLE ticks, INTERVAL '5' MIN) GROUP BY {}"""
    for expression in ("symbol", "upper(symbol)"):
        named = text.format(expression, f"window_start, {expression}")
        assert boxes_of(text.format(expression, "1, 2")) == boxes_of(named)
