-- Forget a cursor and what it held; nothing if there is none.
SELECT medusa.drop_cursor(:stream, :cursor);
