CREATE OR REPLACE FUNCTION medusa_api.hold_max_of(partner text, stream text) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Contracts are looked at only if there is no grant: each acknowledgement asks.
    IF EXISTS (SELECT FROM medusa.stream_grant AS g
        WHERE (g.stream, g.partner) = (hold_max_of.stream, hold_max_of.partner))
    THEN
        RETURN NULL;
    END IF;
    RETURN (SELECT max(r.hold_ms_max)
        FROM medusa_api.sold_streams(hold_max_of.partner) AS s
        JOIN medusa_api.contract_in_force AS c ON c.contract = s.contract
        JOIN medusa_market.contract_revision AS r ON r.revision = c.revision
        WHERE s.stream = hold_max_of.stream);
END $$;
COMMENT ON FUNCTION medusa_api.hold_max_of(text, text) IS
    'For how long contracts let a partner hold a stream; NULL: it reads it by a grant, which has no '
    'limit of its own.';
