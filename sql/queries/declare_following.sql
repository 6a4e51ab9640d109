-- Say whether revisions of a partner's line are followed here without asking.
SELECT medusa.declare_following(:stream, CAST(:follows AS boolean));
