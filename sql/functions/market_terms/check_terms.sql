CREATE OR REPLACE FUNCTION medusa_market.check_terms(
    terms medusa_market.contract_revision) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    strange text;
BEGIN
    PERFORM medusa_market.check_names(terms.contract, terms.payer, terms.provider);
    PERFORM medusa_market.check_word('the kind of contract ' || terms.contract, terms.kind,
        ARRAY['movement', 'content', 'suggested']);
    IF terms.payer = terms.provider THEN
        RAISE EXCEPTION 'contract % is one of % with itself: name two parties', terms.contract,
            terms.payer USING ERRCODE = 'MD001';
    END IF;
    IF (terms.currency ~ '^[A-Z]{3}$') IS NOT TRUE THEN
        RAISE EXCEPTION 'the currency % of contract % is not valid: write three capital letters, such as EUR',
            coalesce(quote_literal(left(terms.currency, 80)), 'NULL'), terms.contract
            USING ERRCODE = 'MD001';
    END IF;
    IF terms.validity IS NULL OR isempty(terms.validity) OR NOT lower_inc(terms.validity)
        OR upper_inc(terms.validity) OR lower_inf(terms.validity) OR upper_inf(terms.validity)
        OR NOT isfinite(lower(terms.validity)) OR NOT isfinite(upper(terms.validity))
    THEN
        RAISE EXCEPTION 'the validity of contract % is %: write a time with a beginning and a '
            'later end, such as [2026-01-01,2027-01-01)', terms.contract,
            coalesce(quote_literal(terms.validity::text), 'NULL') USING ERRCODE = 'MD001';
    END IF;
    IF lower(terms.validity) < timestamptz '0001-01-01 00:00:00+00'
        OR upper(terms.validity) >= timestamptz '9999-12-31 23:59:59+00' + interval '1 s'
    THEN
        RAISE EXCEPTION 'the validity of contract % is %: write times of the years 1 to 9999',
            terms.contract, quote_literal(terms.validity::text) USING ERRCODE = 'MD001';
    END IF;
    IF medusa_market.at_ms(medusa.to_ms(lower(terms.validity))) <> lower(terms.validity)
        OR medusa_market.at_ms(medusa.to_ms(upper(terms.validity))) <> upper(terms.validity)
    THEN
        RAISE EXCEPTION 'the validity of contract % is finer than milliseconds: round it',
            terms.contract USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa_market.check_length('the settlement period of contract ' || terms.contract,
        terms.settlement_ms, 1);
    PERFORM medusa_market.check_length('the notice of contract ' || terms.contract, terms.notice_ms,
        0);
    IF (terms.number BETWEEN 1 AND 9007199254740991
        AND (terms.number = 1) = (terms.supersedes IS NULL)) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'revision % of contract % supersedes %: the first alone supersedes nothing',
            terms.number, terms.contract, coalesce(terms.supersedes, 'nothing')
            USING ERRCODE = 'MD001';
    END IF;
    IF (terms.supersedes ~ '^[0-9a-f]{64}$') IS FALSE THEN
        RAISE EXCEPTION 'revision % of contract % supersedes %: write 64 hexadecimal digits',
            terms.number, terms.contract, quote_literal(left(terms.supersedes, 80))
            USING ERRCODE = 'MD001';
    END IF;
    strange := CASE terms.kind
        WHEN 'movement' THEN CASE WHEN num_nonnulls(terms.stream, terms.price, terms.per,
            terms.instead, terms.boxes) > 0 THEN 'stream, price, per, instead and boxes' END
        WHEN 'content' THEN CASE WHEN num_nonnulls(terms.price_low, terms.price_high,
            terms.price_step, terms.fragments, terms.billed, terms.reference, terms.instead,
            terms.reads, terms.verify) > 0
            THEN 'price_low, price_high, price_step, fragments, reads, reference, verify and '
                'instead' END
        ELSE CASE WHEN num_nonnulls(terms.price_low, terms.price_high, terms.price_step,
            terms.fragments, terms.load_max, terms.billed, terms.reference, terms.recovery,
            terms.method, terms.replicas, terms.bound_ms, terms.penalty,
            terms.hold_ms_max, terms.price, terms.per, terms.boxes, terms.reads, terms.verify) > 0
            THEN 'all but stream and instead' END
        END;
    IF strange IS NOT NULL THEN
        RAISE EXCEPTION 'contract % is one of kind %: leave % out', terms.contract, terms.kind,
            strange USING ERRCODE = 'MD001';
    END IF;
    IF terms.kind = 'suggested' THEN
        PERFORM medusa_market.check_names(terms.stream, terms.instead);
        IF terms.instead IN (terms.payer, terms.provider) THEN
            RAISE EXCEPTION 'contract % suggests to buy from %, a party itself: name a third '
                'participant', terms.contract, terms.instead USING ERRCODE = 'MD001';
        END IF;
        RETURN;
    END IF;
    PERFORM medusa_market.check_word('the recovery of contract ' || terms.contract, terms.recovery,
        ARRAY['gap', 'rollback', 'precise']);
    PERFORM medusa_market.check_word('the method of contract ' || terms.contract, terms.method,
        ARRAY['amnesia', 'passive_standby', 'active_standby', 'upstream_backup']);
    PERFORM medusa_market.check_amount('the penalty', terms.penalty, 0);
    PERFORM medusa_market.check_length('a hold under contract ' || terms.contract,
        terms.hold_ms_max, 1);
    IF (terms.replicas BETWEEN 1 AND 1000) IS NOT TRUE THEN
        RAISE EXCEPTION 'contract % promises % replicas: write 1 to 1000', terms.contract,
            coalesce(terms.replicas::text, 'NULL') USING ERRCODE = 'MD001';
    END IF;
    IF terms.method = 'amnesia' AND terms.recovery <> 'gap' THEN
        RAISE EXCEPTION 'contract % promises % recovery, but with method amnesia a failure loses '
            'what was in work: promise gap, or another method', terms.contract, terms.recovery
            USING ERRCODE = 'MD001';
    END IF;
    IF terms.method = 'active_standby' AND terms.replicas < 2 THEN
        RAISE EXCEPTION 'contract % leaves method active_standby with % replica: write 2 or more',
            terms.contract, terms.replicas USING ERRCODE = 'MD001';
    END IF;
    IF terms.bound_ms IS NOT NULL THEN
        PERFORM medusa_market.check_length('the bound of contract ' || terms.contract,
            terms.bound_ms, 1);
    END IF;
    IF terms.kind = 'content' THEN
        PERFORM medusa_market.check_names(terms.stream);
        PERFORM medusa_market.check_amount('the price', terms.price);
        PERFORM medusa_market.check_word('what contract ' || terms.contract || ' is paid per',
            terms.per,
            ARRAY['record', 'period']);
        IF (terms.boxes IS NULL) <> (terms.load_max IS NULL) THEN
            RAISE EXCEPTION 'contract % has boxes without load_max, or load_max without boxes: write '
                'both, or neither', terms.contract USING ERRCODE = 'MD001';
        END IF;
        IF terms.boxes IS NOT NULL THEN
            PERFORM medusa_market.check_amount('the most load', terms.load_max);
            IF (cardinality(terms.boxes) > 0) IS NOT TRUE
                OR NOT terms.boxes <@ ARRAY['filter', 'map', 'aggregate']
            THEN
                RAISE EXCEPTION 'contract % lets the payer define boxes %: name kinds, such as '
                    '{filter,map}, or NULL for none', terms.contract, terms.boxes::text
                    USING ERRCODE = 'MD001';
            END IF;
        END IF;
        RETURN;
    END IF;
    PERFORM medusa_market.check_amount('the price''s low', terms.price_low);
    PERFORM medusa_market.check_amount('the price''s high', terms.price_high);
    PERFORM medusa_market.check_amount('the price''s step', terms.price_step);
    PERFORM medusa_market.check_amount('the most load', terms.load_max);
    IF terms.price_low > terms.price_high THEN
        RAISE EXCEPTION 'the lowest price % is above the highest %: exchange them',
            trim_scale(terms.price_low), trim_scale(terms.price_high) USING ERRCODE = 'MD001';
    END IF;
    IF (terms.price_high - terms.price_low) % terms.price_step <> 0 THEN
        RAISE EXCEPTION 'steps of % do not lead from % to %: choose a step that divides %',
            trim_scale(terms.price_step), trim_scale(terms.price_low),
            trim_scale(terms.price_high), trim_scale(terms.price_high - terms.price_low)
            USING ERRCODE = 'MD001';
    END IF;
    IF (terms.price_high - terms.price_low) / terms.price_step > 1000 THEN
        RAISE EXCEPTION 'a price range of % steps is too fine: choose a step that makes 1,000 at '
            'most', trim_scale((terms.price_high - terms.price_low) / terms.price_step)
            USING ERRCODE = 'MD001';
    END IF;
    IF terms.fragments IS NOT NULL THEN
        IF cardinality(terms.fragments) = 0 THEN
            RAISE EXCEPTION 'contract % lets nothing move: name fragments, or NULL for any',
                terms.contract USING ERRCODE = 'MD001';
        END IF;
        IF cardinality(terms.fragments) > 1000 THEN
            RAISE EXCEPTION 'contract % lets % fragments move: name 1,000 at most, or NULL for any',
                terms.contract, cardinality(terms.fragments) USING ERRCODE = 'MD001';
        END IF;
        PERFORM medusa_market.check_fragments(terms.fragments);
    END IF;
    IF terms.reads IS NOT NULL THEN
        PERFORM medusa_market.check_reads(terms);
    END IF;
    PERFORM medusa_market.check_reference(terms.contract, terms.reference);
    IF (terms.verify BETWEEN 0 AND 1 AND terms.verify = round(terms.verify, 6)) IS FALSE THEN
        RAISE EXCEPTION 'the share of buckets that are recomputed is %: write a share from 0 to 1, '
            'with six decimal places at most', left(terms.verify::text, 60)
            USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.check_terms(medusa_market.contract_revision) IS
    'Refuse terms that contradict each other, with a sentence; the constraints are the second '
    'guard.';
