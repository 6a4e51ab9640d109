-- The number of a bid's channel: known by its name, or in the address.
CREATE SOURCE bid (ts_us BIGINT, auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, extra STRING)
WITH (time = 'ts_us');

CREATE STREAM result AS
WITH numbered AS (
    SELECT auction, bidder, price, channel,
           CASE WHEN lower(channel) = 'apple' THEN '0'
                WHEN lower(channel) = 'google' THEN '1'
                WHEN lower(channel) = 'facebook' THEN '2'
                WHEN lower(channel) = 'baidu' THEN '3'
                ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id
    FROM bid
)
SELECT * FROM numbered WHERE channel_id <> '';
