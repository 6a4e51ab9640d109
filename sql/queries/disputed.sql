-- From which bucket on streams of this home are disputed, by name.
SELECT stream, from_us FROM medusa_api.disputed ORDER BY stream;
