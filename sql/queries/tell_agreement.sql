-- Send the agreed document of a contract to the partner that does not hold it yet.
SELECT medusa.tell_agreement(:contract)
