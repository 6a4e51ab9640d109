"""One-minute bars of stock trades and counts of quotes, from the ticks of exchanges.

Trades per symbol and exchange, and of a second feed per symbol: how many, their volume, and the
first, highest, lowest and last price in feed order (`seq`). Quotes per exchange: how many, and how
many were crossed (bid above offer). `window_start` is in Unix seconds.
"""

from medusa_core.network import Aggregate, Map, Network, Output, Source

QUOTE = {"ts_us": "bigint", "ex": "string", "bid": "double", "ofr": "double"}
TICK = {"seq": "bigint", "ts_us": "bigint", "symbol": "string"}
TRADE = TICK | {"price": "double", "size": "bigint"}
BAR = {
    "trades": "count(*)",
    "volume": "sum(size)",
    "open": "min_by(price, seq)",
    "high": "max(price)",
    "low": "min(price)",
    "close": "max_by(price, seq)",
}
CROSSED = "count(*) filter (where bid > ofr and ofr > 0)"


def source(name: str, columns: dict[str, str]) -> Source:
    """A feed of ticks."""
    return Source(name=name, columns=columns, time="ts_us")


def per_minute(feed: str, group_by: tuple[str, ...], columns: dict[str, str]) -> Aggregate:
    """One record for each minute and group."""
    return Aggregate(
        name=f"{feed}_per_minute", input=feed, size="60s", group_by=group_by, columns=columns
    )


def in_seconds(box: Aggregate) -> Map:
    """The same columns with the window's start in Unix seconds."""
    kept = {name: name for name in (*box.group_by, *box.columns)}
    columns = {"window_start": "unix_seconds(window_start)"} | kept
    return Map(name=f"{box.name}_in_seconds", input=box.name, columns=columns)


aggregates = {
    "bars": per_minute("trades", ("symbol", "ex"), BAR),
    "quote_counts": per_minute("quotes", ("ex",), {"quotes": "count(*)", "crossed": CROSSED}),
    "multi_bars": per_minute("multi_trades", ("symbol",), BAR),
}
network = Network(
    name="trade_bars",
    sources=(
        source("trades", TRADE | {"ex": "string"}),
        source("quotes", QUOTE),
        source("multi_trades", TRADE),
    ),
    boxes=(*aggregates.values(), *(in_seconds(box) for box in aggregates.values())),
    outputs=tuple(Output(name=n, input=f"{b.name}_in_seconds") for n, b in aggregates.items()),
)
