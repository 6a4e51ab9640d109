-- What a partner may see of a line of this home after a version; nothing if it may not read it.
SELECT medusa.published_news(:partner, :stream, :replica, :after, :segments_max) AS news;
