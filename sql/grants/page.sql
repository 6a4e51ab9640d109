-- What the operator's page may do: read what an operator is shown, also of contracts and money. It writes
-- nothing and calls nothing that writes; secrets, tokens and contents of envelopes are not for it.
GRANT USAGE ON SCHEMA medusa, medusa_market, medusa_api TO :"role";

GRANT SELECT ON medusa.assignment, medusa.certificate, medusa.commit, medusa.cursor,
    medusa.desired_job, medusa.divergence, medusa.divergence_settled, medusa.file,
    medusa.fragment, medusa.fragment_owner, medusa.hold, medusa.home, medusa.job,
    medusa.landed_batch, medusa.landed_bucket, medusa.late_record, medusa.lease,
    medusa.line_version, medusa.lineage, medusa.network, medusa.plan, medusa.quarantine,
    medusa.quarantine_retry, medusa.recall, medusa.recall_follow, medusa.recipient_grant,
    medusa.schema_file, medusa.schema_migration, medusa.schema_version, medusa.segment,
    medusa.sink, medusa.source, medusa.step_metrics, medusa.stream, medusa.stream_grant,
    medusa.stream_producer, medusa.stream_promise, medusa.stream_view, medusa.transition TO :"role";
GRANT EXECUTE ON FUNCTION medusa.to_ms TO :"role";

GRANT SELECT ON medusa_market.agreed_move, medusa_market.answer, medusa_market.bill,
    medusa_market.bill_answer, medusa_market.billed_line, medusa_market.billed_range,
    medusa_market.billing_position, medusa_market.book_entry, medusa_market.book_posting,
    medusa_market.contract_activation, medusa_market.contract_agreement,
    medusa_market.contract_notice, medusa_market.contract_proposal, medusa_market.contract_revision,
    medusa_market.contract_signature, medusa_market.contract_void, medusa_market.cost_function,
    medusa_market.definition, medusa_market.delivery_pause,
    medusa_market.inbox_repeat, medusa_market.key_disowned, medusa_market.link,
    medusa_market.load_part, medusa_market.load_sample, medusa_market.market, medusa_market.move,
    medusa_market.move_state, medusa_market.offer, medusa_market.offer_lapse,
    medusa_market.open_offer, medusa_market.partner,
    medusa_market.party_key, medusa_market.payment, medusa_market.round,
    medusa_market.silent_partner TO :"role";
GRANT SELECT (envelope_id, sender, receiver, kind, nonce, sent_at_ms, expires_at_ms, repeats, state,
    reason, received_at, ended_at, bytes) ON medusa_market.inbox TO :"role";
GRANT SELECT (message_id, receiver, kind, about, put_at, sent_at_ms, expires_at_ms, acknowledged_at,
    problem) ON medusa_market.outbox TO :"role";
GRANT EXECUTE ON FUNCTION medusa_market.ends_at, medusa_market.is_current_key,
    medusa_market.is_name TO :"role";

GRANT SELECT ON medusa_api.accounts, medusa_api.agreed_moves, medusa_api.answers,
    medusa_api.assignments, medusa_api.bill_disputes, medusa_api.bills, medusa_api.books,
    medusa_api.bounds, medusa_api.certificates, medusa_api.contract, medusa_api.contract_history,
    medusa_api.contract_in_force, medusa_api.contract_notices, medusa_api.contract_proposals,
    medusa_api.contract_voids, medusa_api.cost, medusa_api.cursors, medusa_api.desired_jobs,
    medusa_api.disputed, medusa_api.divergences, medusa_api.holds, medusa_api.inbox,
    medusa_api.jobs, medusa_api.leases, medusa_api.lineage, medusa_api.links,
    medusa_api.load_samples, medusa_api.offers, medusa_api.outbox, medusa_api.party_keys,
    medusa_api.payments, medusa_api.published_boundaries, medusa_api.published_files,
    medusa_api.published_segments, medusa_api.quarantine, medusa_api.recalls, medusa_api.rounds,
    medusa_api.segments, medusa_api.sinks, medusa_api.steps, medusa_api.stream_grants,
    medusa_api.streams, medusa_api.trading, medusa_api.transitions, medusa_api.views TO :"role";
