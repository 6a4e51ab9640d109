-- Have a table's record alone until the end of the transaction; how often it was written.
SELECT deliveries FROM {record} WHERE target = %(target)s FOR UPDATE;
