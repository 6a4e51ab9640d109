-- What the exchange server may do, by functions alone: publish lines, take acknowledgements and
-- envelopes, and issue and check access tokens. The tables say whose home it is, and which version.
GRANT USAGE ON SCHEMA medusa, medusa_market TO :"role";

GRANT SELECT ON medusa.home, medusa.schema_file, medusa.schema_migration, medusa.schema_version TO
    :"role";
GRANT EXECUTE ON FUNCTION medusa.acknowledge, medusa.line_news, medusa.to_ms TO :"role";
GRANT EXECUTE ON FUNCTION medusa_market.issue_token, medusa_market.partner_key,
    medusa_market.take_envelopes, medusa_market.token_holder TO :"role";
