-- What a transaction here relies on, whatever the session and the pool between have set.
SET LOCAL search_path = pg_catalog;
SET LOCAL timezone = 'UTC';
SET LOCAL datestyle = 'ISO, YMD';
SET LOCAL extra_float_digits = 1;
SET LOCAL bytea_output = 'hex';
SET LOCAL standard_conforming_strings = on;
SET LOCAL synchronous_commit = on;
SET LOCAL lock_timeout = '3s';
SET LOCAL client_min_messages = warning;
