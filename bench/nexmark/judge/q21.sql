SELECT auction, bidder, price, channel,
       coalesce(CAST(list_position(['apple', 'google', 'facebook', 'baidu'], lower(channel)) - 1 AS VARCHAR),
                split_part(url, 'channel_id=', 2)) AS channel_id
FROM bid
