-- Refuse a partner from now on; whether it was one.
SELECT medusa_api.remove_partner(:partner);
