-- Bring a partner's proposal, or what both have signed with its verdict; what came of it.
SELECT medusa_market.take_document(:envelope_id, :document, CAST(:signatures AS jsonb),
    CAST(:proposal AS bigint), CAST(:expires_at_ms AS bigint), :verdict, CAST(:judged AS jsonb))
