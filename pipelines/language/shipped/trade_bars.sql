-- One-minute bars of stock trades and counts of quotes, from the ticks of exchanges: trade_bars.py in
-- SQL.
--
-- Trades per symbol and exchange, and of a second feed per symbol: how many, their volume, and the
-- first, highest, lowest and last price in feed order (`seq`). Quotes per exchange: how many, and
-- how many were crossed (bid above offer). `window_start` is in Unix seconds.

CREATE NETWORK trade_bars;

CREATE SOURCE trades
    (seq BIGINT, ts_us BIGINT, symbol STRING, price DOUBLE, size BIGINT, ex STRING)
WITH (time = 'ts_us');

CREATE SOURCE quotes (ts_us BIGINT, ex STRING, bid DOUBLE, ofr DOUBLE) WITH (time = 'ts_us');

CREATE SOURCE multi_trades (seq BIGINT, ts_us BIGINT, symbol STRING, price DOUBLE, size BIGINT)
WITH (time = 'ts_us');

CREATE STREAM bars AS
SELECT unix_seconds(window_start) AS window_start, symbol, ex, count(*) AS trades,
       sum(size) AS volume, min_by(price, seq) AS open, max(price) AS high, min(price) AS low,
       max_by(price, seq) AS close
FROM TUMBLE(TABLE trades, DESCRIPTOR(ts_us), INTERVAL '1' MINUTE)
GROUP BY window_start, symbol, ex;

CREATE STREAM quote_counts AS
SELECT unix_seconds(window_start) AS window_start, ex, count(*) AS quotes,
       count(*) FILTER (WHERE bid > ofr AND ofr > 0) AS crossed
FROM TUMBLE(TABLE quotes, DESCRIPTOR(ts_us), INTERVAL '1' MINUTE)
GROUP BY window_start, ex;

CREATE STREAM multi_bars AS
SELECT unix_seconds(window_start) AS window_start, symbol, count(*) AS trades,
       sum(size) AS volume, min_by(price, seq) AS open, max(price) AS high, min(price) AS low,
       max_by(price, seq) AS close
FROM TUMBLE(TABLE multi_trades, DESCRIPTOR(ts_us), INTERVAL '1' MINUTE)
GROUP BY window_start, symbol;
