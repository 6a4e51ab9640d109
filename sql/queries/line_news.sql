-- What a partner may see of a line after a version.
SELECT medusa.line_news(:stream, :participant, :replica, :after, :segments_max) AS news;
