CREATE OR REPLACE FUNCTION medusa_api.record_payment(
    partner text, currency text, amount numeric, direction text, reference text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    received CONSTANT boolean := record_payment.direction = 'received';
    known    medusa_market.payment;
    made     bigint;
BEGIN
    PERFORM medusa_market.check_names(record_payment.partner);
    IF (record_payment.direction IN ('paid', 'received') AND record_payment.currency ~ '^[A-Z]{3}$'
        AND record_payment.amount > 0 AND record_payment.amount <= 1000000000000000
        AND scale(record_payment.amount) <= 6
        AND char_length(record_payment.reference) BETWEEN 1 AND 200) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a payment is paid or received, of an amount above 0 with six decimal '
            'places at most, in a currency such as EUR, and has a reference' USING ERRCODE = 'MD001';
    END IF;
    IF medusa_market.key_of(record_payment.partner) IS NULL THEN
        RAISE EXCEPTION 'no partner % is known here', record_payment.partner
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa_market.payment (partner, currency, amount, is_received, reference)
    VALUES (record_payment.partner, record_payment.currency, trim_scale(record_payment.amount),
        received, record_payment.reference)
    ON CONFLICT DO NOTHING RETURNING payment_id INTO made;
    IF NOT FOUND THEN
        SELECT p.* INTO known FROM medusa_market.payment AS p
        WHERE (p.partner, p.reference) = (record_payment.partner, record_payment.reference);
        IF (known.currency, known.amount, known.is_received) IS DISTINCT FROM
            (record_payment.currency, record_payment.amount, received)
        THEN
            RAISE EXCEPTION 'a payment % with % is recorded, of another amount: give another '
                'reference', known.reference, known.partner USING ERRCODE = 'MD001';
        END IF;
        RETURN known.payment_id;
    END IF;
    PERFORM medusa_market.book(jsonb_build_array(jsonb_build_object(
        'key', 'payment/' || made, 'kind', 'payment', 'partner', record_payment.partner,
        'currency', record_payment.currency, 'payment_id', made, 'postings', jsonb_build_array(
            jsonb_build_object('account', 'partner', 'amount',
                CASE WHEN received THEN -record_payment.amount ELSE record_payment.amount END),
            jsonb_build_object('account', 'settlement', 'amount',
                CASE WHEN received THEN record_payment.amount ELSE -record_payment.amount END)))));
    PERFORM medusa_market.write_audit('payment', record_payment.partner, NULL, jsonb_build_object(
        'currency', record_payment.currency, 'amount', record_payment.amount, 'direction',
        record_payment.direction, 'reference', record_payment.reference));
    RETURN made;
END $$;
COMMENT ON FUNCTION medusa_api.record_payment(text, text, numeric, text, text) IS
    'For the owner: record a payment to a partner (paid) or from it (received) and book it; the same '
    'reference again is the same payment.';
