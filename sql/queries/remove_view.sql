-- Remove a view and its hold; whether there was one.
SELECT medusa.remove_view(:view);
