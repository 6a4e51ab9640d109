-- End a recipient's access to a stream now.
SELECT medusa_api.withdraw_from_recipient(:stream, :recipient) AS had_access;
