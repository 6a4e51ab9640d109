-- What a participant's own program may do: it reads all of its home, and writes by functions alone.
GRANT USAGE ON SCHEMA medusa, medusa_market, medusa_api TO :"role";

GRANT SELECT ON ALL TABLES IN SCHEMA medusa TO :"role";
GRANT EXECUTE ON FUNCTION medusa.acknowledge, medusa.acquire_lease, medusa.acquire_leases,
    medusa.admit_late, medusa.change_owner,
    medusa.close_view, medusa.is_held, medusa.make_view, medusa.open_view, medusa.read_line,
    medusa.remove_view, medusa.view_begins,
    medusa.commit_choice, medusa.commit_step, medusa.commit_steps, medusa.compact_line,
    medusa.declare_bound, medusa.declare_following, medusa.declare_qos,
    medusa.declare_retention, medusa.declare_sink, medusa.declare_source,
    medusa.declare_verify, medusa.deploy, medusa.desire_job, medusa.drop_cursor,
    medusa.end_job, medusa.end_worker, medusa.import_line, medusa.intend_job, medusa.land, medusa.land_many,
    medusa.line_news, medusa.move_cursor, medusa.place_cursor, medusa.place_fragments, medusa.place_hold, medusa.promise,
    medusa.promise_many, medusa.record_certificate, medusa.record_delivery,
    medusa.record_sink_problem, medusa.record_transition, medusa.release_hold, medusa.release_lease,
    medusa.release_leases, medusa.renew_lease, medusa.renew_leases, medusa.report_worker, medusa.stop_fragment, medusa.stop_job,
    medusa.take_up_job, medusa.bounds_of, medusa.to_ms, medusa.trim_line, medusa.withdraw_sink TO :"role";

GRANT SELECT ON medusa_market.agreed_move, medusa_market.answer, medusa_market.audit,
    medusa_market.audit_head, medusa_market.contract_activation, medusa_market.contract_agreement,
    medusa_market.contract_claim, medusa_market.contract_notice, medusa_market.contract_proposal,
    medusa_market.contract_revision, medusa_market.contract_signature, medusa_market.contract_void,
    medusa_market.cost_function, medusa_market.definition, medusa_market.delivery_pause, medusa_market.inbox,
    medusa_market.inbox_repeat, medusa_market.invitation, medusa_market.key_disowned,
    medusa_market.last_word, medusa_market.link,
    medusa_market.load_part, medusa_market.load_retention, medusa_market.load_sample,
    medusa_market.market, medusa_market.message_retention,
    medusa_market.move, medusa_market.move_state, medusa_market.offer,
    medusa_market.offer_lapse, medusa_market.open_item, medusa_market.open_offer,
    medusa_market.outbox, medusa_market.partner, medusa_market.partner_home,
    medusa_market.partner_share,
    medusa_market.party_key, medusa_market.round, medusa_market.silent_partner,
    medusa_market.statement, medusa_market.statement_due, medusa_market.requested_load TO :"role";
GRANT EXECUTE ON FUNCTION medusa_market.acknowledge_message, medusa_market.apply_round,
    medusa_market.define_boxes, medusa_market.definitions_due, medusa_market.settle_definition,
    medusa_market.take_defined, medusa_market.take_definition, medusa_market.withdraw_definition,
    medusa_market.begin_move, medusa_market.lapse_agreed, medusa_market.next_move, medusa_market.open_moves,
    medusa_market.return_fragment, medusa_market.settle_move, medusa_market.take_move,
    medusa_market.take_moved,
    medusa_market.audit_hash, medusa_market.ends_at, medusa_market.expire_market,
    medusa_market.expire_proposals, medusa_market.handle_envelope, medusa_market.held_agreement,
    medusa_market.holdings_with, medusa_market.keep_envelope, medusa_market.key_of,
    medusa_market.is_current_key, medusa_market.learn_first_key, medusa_market.note_introduction,
    medusa_market.open_round, medusa_market.pause_delivery,
    medusa_market.propose_document, medusa_market.put_message, medusa_market.record_load,
    medusa_market.refuse_envelope, medusa_market.report_links, medusa_market.resume_delivery, medusa_market.room_of,
    medusa_market.round_is_due, medusa_market.seal_message, medusa_market.sign_contract,
    medusa_market.state, medusa_market.take_answer, medusa_market.take_document,
    medusa_market.take_holdings, medusa_market.take_let_go, medusa_market.take_notice,
    medusa_market.take_offer, medusa_market.take_refusal, medusa_market.take_status,
    medusa_market.take_want, medusa_market.take_withdrawal, medusa_market.send_statuses,
    medusa_market.tidy_partners, medusa_market.trim_loads, medusa_market.verify_audit,
    medusa_market.verify_envelope, medusa_market.what_if_document, medusa_market.what_if_edited TO
    :"role";

GRANT SELECT ON ALL TABLES IN SCHEMA medusa_api TO :"role";
GRANT SELECT ON medusa_market.bill, medusa_market.bill_answer, medusa_market.billed_line,
    medusa_market.billed_range, medusa_market.billing_position, medusa_market.book_entry,
    medusa_market.book_posting, medusa_market.payment, medusa_market.sample TO :"role";
GRANT EXECUTE ON FUNCTION medusa_market.answer_bill, medusa_market.bills_again,
    medusa_market.concede_bill, medusa_market.is_disputed, medusa_market.make_bill,
    medusa_market.note_billed, medusa_market.note_samples, medusa_market.sampled_lines,
    medusa_market.take_bill, medusa_market.take_bill_answer, medusa_market.take_concession TO
    :"role";
