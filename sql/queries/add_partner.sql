-- A partner elsewhere, with its key and its address.
SELECT medusa_api.add_partner(:partner, :public_key, :url, :pin, :replaces_key, :is_confirmed);
