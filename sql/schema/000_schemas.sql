-- A participant's home: the one database that holds all it knows of its progress.
--
-- These files hold what keeps data: types, tables, constraints and indexes. Read them in order: who
-- and what (networks), what was computed (lines) and landed, who reads it (consumers), what was taken
-- back or is disputed, which jobs shall run; from 110 on, contracts with partners and trading.
-- Functions, triggers, views and grants are in folders of their own: see ../README.md.
--
-- Event times are bigint microseconds UTC (`_us`); clocks are timestamptz, read with
-- clock_timestamp(), because a transaction that waited for a lock must see the time of now.
-- No foreign key, trigger, view or statement reaches another home, no extension is needed.
--
-- SQLSTATEs raised in a home, mapped to error classes in postgres_errors.py:
--   MD001 refused: the request is wrong       MD002 conflict: somebody was first
--   MD006 diverged: what was read before is not what stands now
--   MD007 expired: what is asked for is trimmed
--   MDS01 law S1   MDS02 law S2   MDS07 law S7   MDS08 law S8 (a conflict)   MDLOG insert-only table

CREATE SCHEMA medusa;
CREATE SCHEMA medusa_market;
CREATE SCHEMA medusa_api;
COMMENT ON SCHEMA medusa IS 'Streams of a home: their tables, and the functions that write them.';
COMMENT ON SCHEMA medusa_market IS
    'Contracts with partners, the cost of load, and trading.';
COMMENT ON SCHEMA medusa_api IS 'Views for people and for partners.';

CREATE TYPE medusa.stability AS ENUM ('stable', 'tentative', 'gap');
COMMENT ON TYPE medusa.stability IS
    'The stability of a segment: stable and gap are final.';
CREATE TYPE medusa.lane AS ENUM ('live', 'backlog');
COMMENT ON TYPE medusa.lane IS
    'The lane of a fragment that a lease is for.';
CREATE TYPE medusa.cause AS ENUM ('landing', 'normal', 'tentative', 'correction', 'import');
COMMENT ON TYPE medusa.cause IS 'Why a step was made; it is metered and billed by cause.';
