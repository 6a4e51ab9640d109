-- What the exchange server may do, by functions alone that name the partner for which they are
-- called: publish what is granted to it, take its acknowledgements and envelopes, and issue and
-- check access tokens. Those of Delta Sharing name a recipient's token, and check it themselves. The
-- tables say whose home it is, and which version.
GRANT USAGE ON SCHEMA medusa, medusa_market TO :"role";

GRANT SELECT ON medusa.home, medusa.schema_file, medusa.schema_migration, medusa.schema_version TO
    :"role";
GRANT EXECUTE ON FUNCTION medusa.acknowledge_as, medusa.published_file, medusa.published_files,
    medusa.published_news, medusa.published_progress, medusa.published_streams, medusa.to_ms TO
    :"role";
GRANT EXECUTE ON FUNCTION medusa.shared_changes, medusa.shared_segments, medusa.shared_table,
    medusa.shared_version_at, medusa.shared_versions TO :"role";
GRANT EXECUTE ON FUNCTION medusa_market.deliver_envelopes, medusa_market.issue_token,
    medusa_market.join_partner, medusa_market.note_introduction, medusa_market.partner_keys,
    medusa_market.report_links, medusa_market.token_holder TO :"role";
GRANT EXECUTE ON FUNCTION medusa_market.is_shared, medusa_market.note_recipient_usage,
    medusa_market.recipient_of, medusa_market.shared_names TO :"role";
