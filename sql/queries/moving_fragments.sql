-- The fragments of this home that a move has that has not ended.
SELECT m.fragment FROM medusa_market.move AS m WHERE m.is_given AND m.state <> 'ended'
