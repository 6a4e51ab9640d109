-- What an analyst may do: read. What load costs, and what is offered, is not for analysts.
GRANT USAGE ON SCHEMA medusa, medusa_market, medusa_api TO :"role";

GRANT SELECT ON medusa.assignment, medusa.certificate, medusa.commit, medusa.cursor,
    medusa.desired_job, medusa.divergence, medusa.divergence_settled, medusa.file, medusa.fragment,
    medusa.hold, medusa.home, medusa.job, medusa.lease, medusa.line_version, medusa.lineage,
    medusa.quarantine, medusa.recall, medusa.recall_follow, medusa.schema_file,
    medusa.schema_migration, medusa.schema_version, medusa.segment, medusa.sink,
    medusa.step_metrics, medusa.stream, medusa.stream_view, medusa.stream_producer, medusa.stream_promise,
    medusa.transition TO :"role";

GRANT SELECT ON medusa_market.contract_activation, medusa_market.contract_agreement,
    medusa_market.contract_notice, medusa_market.contract_proposal, medusa_market.contract_revision,
    medusa_market.contract_signature, medusa_market.round TO :"role";
GRANT EXECUTE ON FUNCTION medusa_market.ends_at TO :"role";

GRANT SELECT ON medusa_api.assignments, medusa_api.bounds, medusa_api.certificates,
    medusa_api.contract, medusa_api.contract_history, medusa_api.contract_in_force,
    medusa_api.contract_notices, medusa_api.cursors, medusa_api.desired_jobs, medusa_api.disputed,
    medusa_api.divergences, medusa_api.holds, medusa_api.jobs, medusa_api.leases,
    medusa_api.lineage, medusa_api.published_boundaries, medusa_api.published_files,
    medusa_api.published_segments, medusa_api.quarantine, medusa_api.recalls, medusa_api.rounds,
    medusa_api.segments, medusa_api.sinks, medusa_api.steps, medusa_api.streams,
    medusa_api.transitions, medusa_api.views TO :"role";
