-- The next state of a move, and why.
SELECT medusa_market.settle_move(:move_id, :state, :reason, :lost_us);
