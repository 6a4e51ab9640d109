-- Say whose home this is; the same again changes nothing.
SELECT medusa.found_home(:participant);
