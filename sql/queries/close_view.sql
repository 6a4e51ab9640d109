-- A reader of a view has read it: it holds nothing any more.
SELECT medusa.close_view(:view, :reader);
