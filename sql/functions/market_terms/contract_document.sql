CREATE OR REPLACE FUNCTION medusa_market.contract_document(
    terms medusa_market.contract_revision) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT convert_to('{"contract":"' || terms.contract || '","currency":"' || terms.currency
        || '","format":"medusa.contract/1","kind":"' || terms.kind
        || '","notice_ms":' || terms.notice_ms || ',"number":' || terms.number
        || ',"payer":"' || terms.payer || '","provider":"' || terms.provider
        || '","settlement_ms":' || terms.settlement_ms || ',"subject":{'
        || CASE WHEN terms.kind = 'suggested' THEN
            '"instead":"' || terms.instead || '","stream":"' || terms.stream || '"'
        ELSE
            '"availability":{"bound_ms":' || coalesce(terms.bound_ms::text, 'null')
            || ',"method":"' || terms.method || '","recovery":"' || terms.recovery
            || '","replicas":' || terms.replicas || '},'
            || CASE terms.kind WHEN 'movement' THEN
                CASE WHEN terms.billed IS NULL THEN '' ELSE
                    '"billed":' || medusa_market.json_list(terms.billed) || ',' END
                || '"fragments":' || medusa_market.json_list(terms.fragments)
                || ',"hold_ms_max":' || terms.hold_ms_max
                || ',"load_max":"' || trim_scale(terms.load_max)
                || '","penalty":"' || trim_scale(terms.penalty)
                || '","price_high":"' || trim_scale(terms.price_high)
                || '","price_low":"' || trim_scale(terms.price_low)
                || '","price_step":"' || trim_scale(terms.price_step) || '"'
                || CASE WHEN terms.reads IS NULL THEN '' ELSE
                    ',"reads":' || medusa_market.json_list(terms.reads) END
                || CASE WHEN terms.reference IS NULL THEN '' ELSE
                    ',"reference":' || medusa_market.json_list(terms.reference) END
                || CASE WHEN terms.verify IS NULL THEN '' ELSE
                    ',"verify":"' || trim_scale(terms.verify) || '"' END
            ELSE
                CASE WHEN terms.boxes IS NULL THEN '' ELSE
                    '"boxes":' || medusa_market.json_list(terms.boxes) || ',' END
                || '"hold_ms_max":' || terms.hold_ms_max
                || CASE WHEN terms.boxes IS NULL THEN '' ELSE
                    ',"load_max":"' || trim_scale(terms.load_max) || '"' END
                || ',"penalty":"' || trim_scale(terms.penalty) || '","per":"' || terms.per
                || '","price":"' || trim_scale(terms.price) || '","stream":"' || terms.stream || '"'
            END
        END || '},"supersedes":' || coalesce('"' || terms.supersedes || '"', 'null')
        || ',"valid_from_ms":' || medusa.to_ms(lower(terms.validity))
        || ',"valid_until_ms":' || medusa.to_ms(upper(terms.validity)) || '}', 'UTF8')
$$;
COMMENT ON FUNCTION medusa_market.contract_document(medusa_market.contract_revision) IS
    'The one document of these terms: the bytes that medusa_core/market/documents.py writes.';
