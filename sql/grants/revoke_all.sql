-- Applied before the grants, for PUBLIC and all roles at once: nothing of a home is everybody's, and a
-- role has what its file says and no more. A column's rights go with those of its table.
REVOKE ALL ON SCHEMA medusa, medusa_market, medusa_api FROM :roles;
REVOKE ALL ON ALL TABLES IN SCHEMA medusa, medusa_market, medusa_api FROM :roles;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA medusa, medusa_market, medusa_api FROM :roles;
