-- Whose home this is, if that is known, and in which database; of homes of any version.
SELECT current_database() AS database, (SELECT h.participant FROM medusa.home AS h) AS participant;
