-- step_costs asks for the last steps of each fragment, and has read every commit of the home where a
-- fragment has none, as one that only lands records never has.
CREATE INDEX commit_of_fragment ON medusa.commit (fragment, commit_id)
    WHERE cause IN ('normal', 'tentative', 'correction');
COMMENT ON INDEX medusa.commit_of_fragment IS 'The last steps of a fragment, landing aside.';
