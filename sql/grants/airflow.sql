-- What an Airflow worker may do: it deploys, says what shall run and supervises it, and sees states.
GRANT USAGE ON SCHEMA medusa, medusa_market, medusa_api TO :"role";

GRANT SELECT ON medusa.assignment, medusa.certificate, medusa.commit, medusa.desired_job,
    medusa.divergence, medusa.divergence_settled, medusa.fragment, medusa.hold, medusa.home,
    medusa.job, medusa.lease, medusa.recall, medusa.recall_follow, medusa.sink, medusa.step_metrics,
    medusa.stream, medusa.stream_producer, medusa.stream_promise, medusa.transition TO :"role";
GRANT EXECUTE ON FUNCTION medusa.declare_bound, medusa.declare_following, medusa.declare_qos, medusa.declare_retention, medusa.declare_sink,
    medusa.declare_source, medusa.declare_verify, medusa.deploy, medusa.desire_job, medusa.end_job,
    medusa.intend_job, medusa.stop_job, medusa.take_up_job, medusa.to_ms, medusa.withdraw_sink TO
    :"role";

GRANT SELECT ON medusa_market.contract_activation, medusa_market.contract_agreement,
    medusa_market.contract_notice, medusa_market.contract_proposal, medusa_market.contract_revision,
    medusa_market.contract_signature, medusa_market.round TO :"role";
GRANT EXECUTE ON FUNCTION medusa_market.ends_at, medusa_market.open_round TO :"role";

GRANT SELECT ON medusa_api.assignments, medusa_api.bounds, medusa_api.certificates,
    medusa_api.contract, medusa_api.contract_history, medusa_api.contract_in_force,
    medusa_api.contract_notices, medusa_api.desired_jobs, medusa_api.disputed,
    medusa_api.divergences, medusa_api.holds, medusa_api.jobs, medusa_api.leases,
    medusa_api.recalls, medusa_api.rounds, medusa_api.sinks, medusa_api.steps, medusa_api.streams,
    medusa_api.transitions TO :"role";
