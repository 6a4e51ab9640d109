-- Bring a partner's proposal, or what both have signed; what came of it.
SELECT medusa.take_document(:envelope_id, :document, :payer_signature, :provider_signature,
    CAST(:proposal AS bigint), CAST(:expires_at_ms AS bigint))
