"""The page about SQL: its file compiles, and each of its refusals is one."""

from __future__ import annotations

import re

import pytest

from medusa_core.errors import Refused
from medusa_core.network import Deduplicate, Rank
from pipelines.language.check import check_network
from pipelines.language.sql.sql_file import network_of_sql_text
from tests.docs.pages import DOCS

PAGE = (DOCS / "sql.md").read_text(encoding="utf-8")
FILE = "\n".join(re.findall(r"```sql\n(.*?)```\n", PAGE, re.DOTALL))


def test_the_sql_of_the_page_is_a_network() -> None:
    network = network_of_sql_text(FILE, "rides.sql", "rides")
    outputs = [output.name for output in network.outputs]
    assert (network.name, network.bucket) == ("rides", "1m")
    assert outputs == [
        "long_trips",
        "per_user",
        "hourly",
        "monthly",
        "rides_of_users",
        "quiet_hours",
        "trios",
        "fares_so_far",
        "refunded",
        "never_refunded",
        "with_level",
        "refunded_with_level",
        "every_hour",
        "between",
        "dearest",
        "best_users",
        "first_trips",
        "cheapest_trips",
    ]
    checked = check_network(network)
    assert {c.name: c.type for c in checked.columns_of_output("per_user")} == {
        "window_start": "timestamp", "user": "string", "trips": "bigint",
        "fees": "decimal(20,2)", "long": "bigint", "mean_km": "double",
    }  # fmt: skip
    assert {c.name: c.type for c in checked.columns_of_output("dearest")} == {
        "window_start": "timestamp", "user": "string", "fee": "decimal(10,2)", "rank": "bigint",
    }  # fmt: skip
    assert isinstance(network.box("best_users"), Rank)
    assert isinstance(network.box("first_trips_first"), Deduplicate)
    assert isinstance(network.box("cheapest_trips_rank"), Rank)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT user, count(*) AS n FROM trips GROUP BY user",
        "SELECT DISTINCT user FROM trips",
        "SELECT user FROM trips ORDER BY user",
        "SELECT user FROM trips LIMIT 1",
        "SELECT user FROM trips UNION SELECT user FROM trips",
        "SELECT user FROM trips EXCEPT SELECT user FROM trips",
        "SELECT user FROM trips WHERE km > (SELECT max(km) AS m FROM trips)",
        "SELECT sum(km) OVER (PARTITION BY user) AS s FROM trips",
        "SELECT user FROM trips JOIN refunds ON trips.user = refunds.user",
    ],
)
def test_what_the_page_says_is_refused_is_refused_with_its_place(query: str) -> None:
    with pytest.raises(Refused, match=r"rides\.sql, line \d+, column \d+: "):
        network_of_sql_text(f"{FILE}CREATE STREAM x AS {query};", "rides.sql", "rides")
