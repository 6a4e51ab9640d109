-- Tell each partner one hash of what is agreed with it; how many.
SELECT medusa.tell_standings()
