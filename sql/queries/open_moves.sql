-- The moves that have not ended or are still deployed, as they began.
SELECT m.move_id, m.is_given, m.partner, m.contract, m.number, m.fragment, m.state,
    m.order_document, m.age_ms, m.is_in_force, m.bound_ms, m.move_ms, m.is_deployed,
    m.is_recalled, m.earlier, m.waits, m.lacks_room, m.reads, m.readable, m.method, m.recovery
FROM medusa_market.open_moves() AS m;
