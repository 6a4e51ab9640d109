-- Links with partners: what was sent and received over each, and how long answers took.
CREATE TABLE medusa_market.link (
    partner        text COLLATE "C" NOT NULL,
    side           text NOT NULL,
    state          text NOT NULL,
    state_since    timestamptz NOT NULL,
    error          text,
    failed_at      timestamptz,
    answered_at    timestamptz,
    requests       bigint NOT NULL DEFAULT 0,
    failures       bigint NOT NULL DEFAULT 0,
    files          bigint NOT NULL DEFAULT 0,
    bytes_received bigint NOT NULL DEFAULT 0,
    bytes_sent     bigint NOT NULL DEFAULT 0,
    answer_ms      bigint,
    answer_ms_max  bigint,
    delay_ms       bigint,
    delay_ms_max   bigint,
    counted_since  timestamptz NOT NULL DEFAULT clock_timestamp(),
    reported_at    timestamptz NOT NULL,
    PRIMARY KEY (partner, side),
    CONSTRAINT link_is_with_a_participant CHECK (medusa_market.is_name(partner)),
    CONSTRAINT link_has_a_side CHECK (side IN ('client', 'server')),
    CONSTRAINT link_has_a_state CHECK (state IN ('reachable', 'refused', 'unreachable')),
    CONSTRAINT link_has_a_short_error CHECK (char_length(error) <= 1000),
    CONSTRAINT link_has_counted CHECK (requests >= 0 AND failures >= 0 AND files >= 0
        AND bytes_received >= 0 AND bytes_sent >= 0),
    CONSTRAINT link_has_taken_time CHECK (answer_ms >= 0 AND answer_ms_max >= answer_ms
        AND delay_ms >= 0 AND delay_ms_max >= delay_ms)
);
COMMENT ON TABLE medusa_market.link IS
    'Links with partners as the processes of this home report them, at most once in some seconds: '
    'its driver for the requests that it makes (client), its exchange server for those that it '
    'answers (server).';
COMMENT ON COLUMN medusa_market.link.state IS
    'client: whether the partner''s server answered the last request; refused: it issues no access '
    'token. server: reachable.';
COMMENT ON COLUMN medusa_market.link.error IS 'Of the last request that failed, at failed_at.';
COMMENT ON COLUMN medusa_market.link.answer_ms IS
    'Median of the last 100 answers, answer_ms_max their maximum; without the time for which a '
    'request waits for news. client: until an answer has arrived; server: inside.';
COMMENT ON COLUMN medusa_market.link.delay_ms IS
    'client: median of the last 100 news, delay_ms_max their maximum: the time from the partner''s '
    'commit to the commit of its copy in this home, as a sum of durations.';
COMMENT ON COLUMN medusa_market.link.counted_since IS 'Since when requests and bytes are counted.';
