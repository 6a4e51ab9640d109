-- Give a hold up; nothing if there is none.
SELECT medusa.release_hold(:stream, :holder, :purpose);
