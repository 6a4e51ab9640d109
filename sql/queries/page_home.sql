-- Whose home this is, and its clock.
SELECT h.participant, medusa.to_ms(clock_timestamp()) AS clock_ms FROM medusa.home AS h;
