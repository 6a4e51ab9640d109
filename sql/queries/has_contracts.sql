-- Whether a bilateral contract was ever proposed here, or a partner has sent a message about one.
SELECT EXISTS (SELECT FROM medusa_market.contract_revision)
    OR EXISTS (SELECT FROM medusa_market.inbox)
