-- Whose home this is, and which incarnation of it.
SELECT participant, incarnation::text AS incarnation FROM medusa.home;
