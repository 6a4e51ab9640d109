CREATE OR REPLACE FUNCTION medusa.answer(made medusa.commit, again boolean) RETURNS jsonb
LANGUAGE sql STABLE AS $$
    SELECT jsonb_build_object('versions', made.versions,
        'committed_at_ms', medusa.to_ms(made.committed_at), 'again', again)
$$;
COMMENT ON FUNCTION medusa.answer(medusa.commit, boolean) IS
    'The reply to a commit.';
