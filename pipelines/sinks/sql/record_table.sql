-- How far each table of this schema was delivered by Medusa, written with its rows in one piece.
CREATE TABLE IF NOT EXISTS {record} (
    target       text COLLATE "C" PRIMARY KEY,
    home         text NOT NULL,
    participant  text NOT NULL,
    stream       text NOT NULL,
    sink         text NOT NULL,
    through_us   bigint NOT NULL,
    through      timestamptz NOT NULL,
    version      bigint NOT NULL,
    rows         bigint NOT NULL,
    lost_us      bigint NOT NULL,
    deliveries   bigint NOT NULL,
    last_from_us bigint,
    last_to_us   bigint,
    last_digest  text,
    overlay      text NOT NULL,
    delivered_at timestamptz NOT NULL
);
