-- What the owner may do, one by one: streams within the laws that triggers keep, of agreements the view
-- medusa_api.contract alone, what load costs, and how to trade. The owner logs in without owning a
-- table, so a table that is not named here is out of its reach.
GRANT USAGE ON SCHEMA medusa, medusa_market, medusa_api TO :"role";

GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON medusa.assignment, medusa.certificate,
    medusa.commit, medusa.cursor, medusa.divergence, medusa.divergence_settled, medusa.file,
    medusa.fragment, medusa.hold, medusa.home, medusa.landed_batch, medusa.landed_bucket,
    medusa.late_record, medusa.lease, medusa.line_version, medusa.lineage, medusa.network, medusa.participant,
    medusa.plan, medusa.quarantine, medusa.quarantine_retry, medusa.recall, medusa.recall_follow,
    medusa.segment, medusa.sink, medusa.source, medusa.step_metrics, medusa.stream,
    medusa.stream_view,
    medusa.stream_order, medusa.stream_producer, medusa.stream_promise, medusa.transition TO
    :"role";
GRANT SELECT ON medusa.desired_job, medusa.fragment_owner, medusa.job, medusa.placement, medusa.recipient_grant, medusa.schema_file,
    medusa.schema_migration, medusa.schema_version, medusa.stream_grant, medusa.worker TO :"role";
GRANT EXECUTE ON FUNCTION medusa.acknowledge, medusa.acquire_lease, medusa.acquire_leases,
    medusa.admit_late, medusa.change_owner,
    medusa.answer, medusa.bring_order, medusa.chain_at, medusa.check_epoch, medusa.check_files,
    medusa.check_lease, medusa.check_leases, medusa.check_reason, medusa.check_trim,
    medusa.check_writes, medusa.chosen_through, medusa.commit_choice, medusa.commit_step,
    medusa.commit_steps, medusa.compact_line, medusa.agree_to_revisions, medusa.declare_following, medusa.declare_qos,
    medusa.declare_bound, medusa.declare_retention,
    medusa.close_view, medusa.make_view, medusa.open_view, medusa.read_line, medusa.remove_view,
    medusa.view_begins, medusa.declare_sink, medusa.declare_source, medusa.declare_verify, medusa.deploy,
    medusa.desire_job, medusa.drop_cursor, medusa.end_job, medusa.end_worker, medusa.follow_recalls, medusa.held_from, medusa.hold_again,
    medusa.import_line, medusa.intend_job, medusa.is_held, medusa.kept_from, medusa.key_now,
    medusa.land, medusa.land_many, medusa.line_news, medusa.lock_leases, medusa.lock_lines,
    medusa.lock_own_lines, medusa.move_cursor, medusa.note_retries, medusa.note_stable_prefix,
    medusa.place_cursor, medusa.place_fragments, medusa.place_hold, medusa.promise, medusa.promise_many, medusa.write_quarantine,
    medusa.recall, medusa.recall_closure, medusa.recall_line, medusa.record_certificate,
    medusa.record_delivery, medusa.record_files, medusa.record_sink_problem,
    medusa.record_transition, medusa.refuse_without_line, medusa.release_hold, medusa.release_lease,
    medusa.release_leases, medusa.remove_trimmed, medusa.renew_lease, medusa.renew_leases, medusa.report_worker,
    medusa.revise, medusa.settle, medusa.stop_fragment, medusa.stop_job, medusa.supersede, medusa.take_up_job, medusa.bounds_of, medusa.to_ms,
    medusa.recall_document, medusa.total, medusa.trim_line, medusa.withdraw_sink TO :"role";

GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON medusa_market.cost_function,
    medusa_market.load_part, medusa_market.load_retention, medusa_market.load_sample,
    medusa_market.message_retention TO :"role";
GRANT SELECT ON medusa_market.access_token, medusa_market.agreed_move, medusa_market.move, medusa_market.move_state, medusa_market.answer, medusa_market.audit,
    medusa_market.audit_entry, medusa_market.audit_head, medusa_market.contract_activation,
    medusa_market.contract_agreement, medusa_market.contract_claim, medusa_market.contract_notice,
    medusa_market.contract_order, medusa_market.definition, medusa_market.contract_proposal, medusa_market.contract_revision,
    medusa_market.contract_signature, medusa_market.contract_void, medusa_market.delivery_pause,
    medusa_market.inbox, medusa_market.inbox_repeat, medusa_market.invitation,
    medusa_market.key_disowned,
    medusa_market.last_word, medusa_market.link, medusa_market.market, medusa_market.offer, medusa_market.offer_lapse,
    medusa_market.open_item, medusa_market.open_offer, medusa_market.outbox,
    medusa_market.partner, medusa_market.partner_home, medusa_market.partner_share,
    medusa_market.party_key, medusa_market.recipient_token, medusa_market.recipient_usage,
    medusa_market.round, medusa_market.silent_partner, medusa_market.statement,
    medusa_market.statement_due, medusa_market.requested_load, medusa_market.used_assertion TO
    :"role";
GRANT EXECUTE ON FUNCTION medusa_market.agreed_revision, medusa_market.at_ms,
    medusa_market.audit_hash, medusa_market.check_amount, medusa_market.check_fragments,
    medusa_market.check_length, medusa_market.check_names, medusa_market.check_points,
    medusa_market.check_promise, medusa_market.check_proposal, medusa_market.check_reads,
    medusa_market.check_reference, medusa_market.check_terms, medusa_market.check_word,
    medusa_market.contract_document, medusa_market.edited_terms, medusa_market.ends_at,
    medusa_market.give_notice, medusa_market.here, medusa_market.hex_key, medusa_market.is_current_key, medusa_market.is_fragment,
    medusa_market.is_fragment_of, medusa_market.is_name, medusa_market.is_number,
    medusa_market.json_list, medusa_market.key_of, medusa_market.learn_first_key,
    medusa_market.learn_key, medusa_market.load_kept, medusa_market.messages_kept,
    medusa_market.open_round, medusa_market.partner_keys, medusa_market.price_of, medusa_market.propose,
    medusa_market.propose_document, medusa_market.record_load, medusa_market.room_of,
    medusa_market.round_is_due, medusa_market.sorted_terms, medusa_market.subject_range,
    medusa_market.terms_in_force, medusa_market.terms_of, medusa_market.this_round,
    medusa_market.trim_loads, medusa_market.verify_audit, medusa_market.what_if_document,
    medusa_market.what_if_edited TO :"role";
GRANT UPDATE (dead_band, move_ms, partners_max, residence_ms, round_ms) ON medusa_market.market TO
    :"role";

GRANT SELECT, INSERT, UPDATE, DELETE ON medusa_api.contract, medusa_api.cost TO :"role";
GRANT SELECT ON medusa_api.agreed_moves, medusa_api.answers, medusa_api.assignments,
    medusa_api.audit, medusa_api.bounds, medusa_api.certificates, medusa_api.contract_history,
    medusa_api.contract_in_force, medusa_api.contract_notices, medusa_api.contract_proposals,
    medusa_api.contract_voids, medusa_api.cursors, medusa_api.desired_jobs, medusa_api.disputed,
    medusa_api.divergences, medusa_api.holds, medusa_api.views, medusa_api.definitions, medusa_api.inbox, medusa_api.jobs, medusa_api.leases,
    medusa_api.lineage, medusa_api.links, medusa_api.load_samples, medusa_api.offers, medusa_api.outbox,
    medusa_api.partners, medusa_api.party_keys, medusa_api.published_boundaries,
    medusa_api.published_files,
    medusa_api.published_segments, medusa_api.quarantine, medusa_api.recalls,
    medusa_api.recipient_grants, medusa_api.recipient_tokens, medusa_api.recipient_usage,
    medusa_api.recipients, medusa_api.rounds,
    medusa_api.segments, medusa_api.sinks, medusa_api.steps, medusa_api.stream_grants, medusa_api.streams, medusa_api.trading,
    medusa_api.transitions TO :"role";
GRANT EXECUTE ON FUNCTION medusa_api.accept_contract, medusa_api.add_partner,
    medusa_api.declare_readers, medusa_api.disown_key, medusa_api.grant_stream, medusa_api.invite_partner, medusa_api.learn_key,
    medusa_api.learn_past_key, medusa_api.remove_partner, medusa_api.replace_key,
    medusa_api.revoke_tokens, medusa_api.withdraw_contract, medusa_api.withdraw_stream TO :"role";
GRANT EXECUTE ON FUNCTION medusa_api.declare_recipients, medusa_api.grant_to_recipient,
    medusa_api.issue_recipient_token, medusa_api.revoke_recipient_tokens,
    medusa_api.withdraw_from_recipient TO :"role";
GRANT UPDATE (dead_band, move_ms, partners_max, residence_ms, round_ms) ON medusa_api.trading TO
    :"role";
-- The owner reads the books, and writes into them by recording payments alone.
GRANT SELECT ON medusa_market.bill, medusa_market.bill_answer, medusa_market.billed_line,
    medusa_market.billed_range, medusa_market.billing_position, medusa_market.book_entry,
    medusa_market.book_posting, medusa_market.payment, medusa_market.sample,
    medusa_market.sample_position, medusa_market.sample_seed TO :"role";
GRANT SELECT ON medusa_api.accounts, medusa_api.bill_disputes, medusa_api.bills, medusa_api.books,
    medusa_api.payments, medusa_api.samples TO :"role";
GRANT EXECUTE ON FUNCTION medusa_api.record_payment TO :"role";
