-- The number of the next move of this home.
SELECT medusa_market.next_move();
