-- What is agreed in a round to be given and has not begun to move, in the order of agreement.
SELECT a.move_id, a.partner, a.contract, a.fragment, a.round, a.level, a.price
FROM medusa_market.agreed_move AS a
WHERE a.is_given AND a.state = 'accepted' AND a.partition = 0
    AND NOT EXISTS (SELECT FROM medusa_market.move AS m WHERE m.agreed_id = a.move_id)
ORDER BY a.move_id
