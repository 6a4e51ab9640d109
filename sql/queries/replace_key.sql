-- Another key of a participant counts from now on; whether it is new.
SELECT medusa_api.replace_key(:participant, :public_key);
