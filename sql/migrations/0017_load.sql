-- Load is measured and kept as samples; the owner declares by SQL what load costs it.

-- Load: what CPU this participant's drivers spend, on what; and what load costs it ----------------
-- Both are private: the owner and its jobs see them, nobody else of the home, and no partner.

CREATE TYPE medusa.load_kind AS ENUM (
    'work', 'deciding', 'delivery', 'housekeeping', 'starting', 'unattributed');

CREATE TABLE medusa.load_sample (
    sample_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    driver    text COLLATE "C" NOT NULL,
    number    bigint NOT NULL,
    lane      medusa.lane NOT NULL,
    length_ms bigint NOT NULL CHECK (length_ms > 0),
    total_us  bigint NOT NULL CHECK (total_us >= 0),
    ended_at  timestamptz NOT NULL,
    UNIQUE (driver, number)
);
COMMENT ON TABLE medusa.load_sample IS
    'What a driver spent in one period, some seconds long; insert-only until it is older than kept.';
COMMENT ON COLUMN medusa.load_sample.driver IS 'The process: its samples are numbered.';
COMMENT ON COLUMN medusa.load_sample.total_us IS 'CPU of its whole process tree.';
COMMENT ON COLUMN medusa.load_sample.ended_at IS 'When the period ended, by this home''s clock.';
CREATE INDEX load_sample_ended ON medusa.load_sample (ended_at);
COMMENT ON INDEX medusa.load_sample_ended IS 'The samples of a time, and those to be trimmed.';

CREATE TABLE medusa.load_part (
    sample_id bigint NOT NULL REFERENCES medusa.load_sample ON DELETE CASCADE,
    kind      medusa.load_kind NOT NULL,
    fragment  text COLLATE "C" REFERENCES medusa.fragment,
    partition integer,
    cause     medusa.cause,
    cpu_us    bigint NOT NULL CHECK (cpu_us > 0),
    CHECK ((kind = 'work') = (fragment IS NOT NULL)
        AND (fragment IS NULL) = (partition IS NULL)
        AND (fragment IS NULL) = (cause IS NULL))
);
COMMENT ON TABLE medusa.load_part IS
    'On what a sample''s CPU was spent: fragments by cause, and kinds that are no fragment''s.';
CREATE UNIQUE INDEX load_part_once
    ON medusa.load_part (sample_id, fragment, partition, cause, kind) NULLS NOT DISTINCT;
COMMENT ON INDEX medusa.load_part_once IS
    'One row for a fragment, partition and cause, or another kind; the parts of a sample.';

CREATE TABLE medusa.load_retention (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    keep    interval NOT NULL DEFAULT '30 days'
        CHECK (keep >= '1 hour' AND keep <= '3650 days')
);
COMMENT ON TABLE medusa.load_retention IS 'How long samples of load are kept: one row.';
INSERT INTO medusa.load_retention DEFAULT VALUES;

CREATE FUNCTION medusa.load_kept() RETURNS interval
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT coalesce((SELECT r.keep FROM medusa.load_retention AS r), '30 days'::interval) $$;
COMMENT ON FUNCTION medusa.load_kept() IS 'For how long samples of load stay.';
REVOKE ALL ON FUNCTION medusa.load_kept() FROM PUBLIC;

CREATE FUNCTION medusa.guard_load() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_TABLE_NAME = 'load_sample' THEN
        IF OLD.ended_at < clock_timestamp() - medusa.load_kept() THEN
            RETURN OLD;
        END IF;
    ELSIF NOT EXISTS (SELECT FROM medusa.load_sample AS s WHERE s.sample_id = OLD.sample_id) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of % is refused: samples of load stay for as long as '
        'medusa.load_retention says', TG_TABLE_NAME USING ERRCODE = 'MDLOG';
END $$;
COMMENT ON FUNCTION medusa.guard_load() IS 'Raises: a sample goes when it is older than kept.';
REVOKE ALL ON FUNCTION medusa.guard_load() FROM PUBLIC;
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.load_sample
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_load();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.load_sample
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.load_part
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_load();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.load_part
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.trim_loads(samples_max integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz := clock_timestamp() - medusa.load_kept();
    gone   bigint;
BEGIN
    DELETE FROM medusa.load_sample AS s WHERE s.sample_id IN (
        SELECT o.sample_id FROM medusa.load_sample AS o
        WHERE o.ended_at < before
        ORDER BY o.ended_at LIMIT greatest(samples_max, 0)
        FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN gone;
END $$;
COMMENT ON FUNCTION medusa.trim_loads(integer) IS
    'Let the oldest samples go that are older than kept, so many at most; how many went.';
REVOKE ALL ON FUNCTION medusa.trim_loads(integer) FROM PUBLIC;

CREATE FUNCTION medusa.record_load(request jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked  record;
    number bigint;
    parted numeric;
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (driver text, number bigint, lane text,
        length_ms bigint, ended_ago_ms bigint, total_us bigint, parts jsonb);
    SELECT coalesce(sum(p.cpu_us), 0) INTO parted
    FROM jsonb_to_recordset(asked.parts) AS p (cpu_us bigint);
    IF parted IS DISTINCT FROM asked.total_us OR coalesce(asked.ended_ago_ms, -1) < 0
        OR asked.ended_ago_ms > 86400000
    THEN
        RAISE EXCEPTION 'a sample of load is refused: its parts are % us of % us, and it ended % ms '
            'ago: let parts add up, and send it within a day', parted, asked.total_us,
            asked.ended_ago_ms USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.load_sample AS s (driver, number, lane, length_ms, total_us, ended_at)
    VALUES (asked.driver, asked.number, asked.lane::medusa.lane, asked.length_ms, asked.total_us,
        clock_timestamp() - asked.ended_ago_ms * interval '1 millisecond')
    ON CONFLICT ON CONSTRAINT load_sample_driver_number_key DO NOTHING
    RETURNING s.sample_id INTO number;
    IF number IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO medusa.load_part (sample_id, kind, fragment, partition, cause, cpu_us)
    SELECT number, p.kind::medusa.load_kind, p.fragment, p.partition, p.cause::medusa.cause,
        p.cpu_us
    FROM jsonb_to_recordset(asked.parts) AS p (kind text, fragment text, partition integer,
        cause text, cpu_us bigint);
    PERFORM medusa.trim_loads(100);
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.record_load(jsonb) IS
    'Write down what a driver spent in a period, and let old samples go; false: this was known.';
REVOKE ALL ON FUNCTION medusa.record_load(jsonb) FROM PUBLIC;

CREATE TYPE medusa.cost_kind AS ENUM ('queue', 'piecewise');

CREATE TABLE medusa.cost_function (
    number    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind      medusa.cost_kind NOT NULL,
    capacity  double precision,
    scale     double precision,
    points    double precision[],
    threshold double precision NOT NULL,
    currency  text COLLATE "C" NOT NULL,
    set_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    set_by    text NOT NULL DEFAULT session_user
);
COMMENT ON TABLE medusa.cost_function IS
    'What load costs this participant, as its owner has declared it; insert-only, the newest counts.';
COMMENT ON COLUMN medusa.cost_function.capacity IS
    'Of a queue: CPU seconds per second that there are.';
COMMENT ON COLUMN medusa.cost_function.scale IS
    'Of a queue: currency per hour, times rho / (1 - rho), rho = load / capacity.';
COMMENT ON COLUMN medusa.cost_function.points IS
    'Of a piecewise linear function: {{load, cost}, ...}, cost in currency per hour.';
COMMENT ON COLUMN medusa.cost_function.threshold IS 'CPU seconds per second: more is too much.';
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.cost_function
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.is_number(n double precision) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$$ SELECT n IS NOT NULL AND n NOT IN ('NaN', 'Infinity', '-Infinity') $$;
COMMENT ON FUNCTION medusa.is_number(double precision) IS 'Neither NULL, NaN nor infinite.';
REVOKE ALL ON FUNCTION medusa.is_number(double precision) FROM PUBLIC;

CREATE FUNCTION medusa.check_points(points double precision[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    many     integer := coalesce(array_length(points, 1), 0);
    slope    double precision;
    steeper  double precision;
    problem  text;
BEGIN
    IF many NOT BETWEEN 2 AND 1000 THEN
        problem := format('a cost function has %s points: write 2 to 1000', many);
    ELSIF array_ndims(points) <> 2 OR array_length(points, 2) <> 2
        OR array_lower(points, 1) <> 1 OR array_lower(points, 2) <> 1
    THEN
        problem := 'a point of a cost function is a load and a cost: write {{0, 0}, {1, 2}}';
    END IF;
    IF problem IS NULL THEN
        FOR n IN 1 .. many LOOP
            IF NOT (medusa.is_number(points[n][1]) AND medusa.is_number(points[n][2])) THEN
                problem := format('point %s of the cost function is (%s, %s): write finite numbers',
                    n, coalesce(points[n][1]::text, 'NULL'), coalesce(points[n][2]::text, 'NULL'));
                EXIT;
            END IF;
        END LOOP;
    END IF;
    IF problem IS NULL AND points[1][1] <> 0 THEN
        problem := format('a cost function begins at load %s: let it begin at load 0',
            points[1][1]);
    END IF;
    IF problem IS NULL THEN
        FOR n IN 2 .. many LOOP
            IF points[n][1] <= points[n - 1][1] THEN
                problem := format('load %s follows load %s (point %s): sort them',
                    points[n][1], points[n - 1][1], n);
            ELSIF points[n][2] <= points[n - 1][2] THEN
                problem := format('cost %s follows cost %s (point %s): more load costs more',
                    points[n][2], points[n - 1][2], n);
            END IF;
            EXIT WHEN problem IS NOT NULL;
        END LOOP;
    END IF;
    IF problem IS NULL THEN
        FOR n IN 2 .. many LOOP
            steeper := (points[n][2] - points[n - 1][2]) / (points[n][1] - points[n - 1][1]);
            IF steeper < slope * (1 - 1e-9) THEN
                problem := format('behind point %s the cost rises by %s a unit of load, before it '
                    'by %s: a cost function is convex, let no later slope be smaller',
                    n - 1, steeper, slope);
                EXIT;
            END IF;
            slope := steeper;
        END LOOP;
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = 'MD001';
    END IF;
EXCEPTION WHEN numeric_value_out_of_range THEN
    RAISE EXCEPTION 'a cost function rises too steeply or too little: write slopes that a number '
        'can hold' USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.check_points(double precision[]) IS
    'Raises, naming the first point that breaks it, unless they make an increasing, convex function.';
REVOKE ALL ON FUNCTION medusa.check_points(double precision[]) FROM PUBLIC;

CREATE FUNCTION medusa.guard_cost() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    problem text;
BEGIN
    NEW.set_at := clock_timestamp();
    NEW.set_by := session_user;
    IF NEW.kind = 'queue' THEN
        IF NEW.points IS NOT NULL THEN
            problem := 'a queue has no points: write kind piecewise, or leave them out';
        ELSIF NOT medusa.is_number(NEW.capacity) OR NEW.capacity <= 0 THEN
            problem := format('a cost function''s capacity is %s: write a number above 0',
                coalesce(NEW.capacity::text, 'NULL'));
        ELSIF NOT medusa.is_number(NEW.scale) OR NEW.scale <= 0 THEN
            problem := format('a cost function''s scale is %s: write a number above 0',
                coalesce(NEW.scale::text, 'NULL'));
        END IF;
    ELSIF NEW.kind = 'piecewise' THEN
        IF NEW.capacity IS NOT NULL OR NEW.scale IS NOT NULL THEN
            problem := 'a piecewise cost function has points alone: write kind queue, or leave '
                'capacity and scale out';
        ELSE
            PERFORM medusa.check_points(NEW.points);
        END IF;
    ELSE
        problem := 'a cost function is of kind queue or piecewise: write one of them';
    END IF;
    IF problem IS NULL AND (NOT medusa.is_number(NEW.threshold) OR NEW.threshold <= 0) THEN
        problem := format('the threshold is %s: write a number above 0',
            coalesce(NEW.threshold::text, 'NULL'));
    ELSIF problem IS NULL AND NEW.threshold > NEW.capacity THEN
        problem := format('the threshold %s lies beyond the capacity %s: write one that is no '
            'greater', NEW.threshold, NEW.capacity);
    ELSIF problem IS NULL AND (NEW.currency IS NULL OR NEW.currency !~ '^[A-Z]{3}$') THEN
        problem := format('the currency %s is none: write three capitals, such as EUR',
            quote_nullable(left(NEW.currency, 40)));
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION '%', problem USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_cost() IS
    'Raises unless what is declared is increasing and convex, with a threshold and a currency.';
REVOKE ALL ON FUNCTION medusa.guard_cost() FROM PUBLIC;
CREATE TRIGGER guard BEFORE INSERT ON medusa.cost_function
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_cost();

CREATE VIEW medusa_api.cost WITH (security_invoker = true) AS
SELECT kind, capacity, scale, points, threshold, currency, number, set_at, set_by
FROM medusa.cost_function ORDER BY number DESC LIMIT 1;
COMMENT ON VIEW medusa_api.cost IS
    'What load costs this participant: INSERT or UPDATE it as the owner; nobody else sees it.';

CREATE FUNCTION medusa.set_cost() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        RAISE EXCEPTION 'a cost function is not taken away: declare another one'
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.cost_function (kind, capacity, scale, points, threshold, currency)
    VALUES (NEW.kind,
        NEW.capacity,
        CASE WHEN NEW.kind = 'queue' THEN coalesce(NEW.scale, 1) END,
        NEW.points, NEW.threshold, NEW.currency)
    RETURNING number, set_at, set_by INTO NEW.number, NEW.set_at, NEW.set_by;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.set_cost() IS
    'What is written to the view is one more row of the history.';
REVOKE ALL ON FUNCTION medusa.set_cost() FROM PUBLIC;
CREATE TRIGGER set_cost INSTEAD OF INSERT OR UPDATE OR DELETE ON medusa_api.cost
    FOR EACH ROW EXECUTE FUNCTION medusa.set_cost();

CREATE VIEW medusa_api.load_samples WITH (security_invoker = true) AS
SELECT s.sample_id, s.driver, s.lane, s.ended_at, s.length_ms, p.kind, p.fragment, p.partition,
    p.cause, p.cpu_us, p.cpu_us / (s.length_ms * 1000.0) AS load
FROM medusa.load_sample AS s JOIN medusa.load_part AS p ON p.sample_id = s.sample_id
UNION ALL
SELECT s.sample_id, s.driver, s.lane, s.ended_at, s.length_ms, NULL, NULL, NULL, NULL, s.total_us,
    s.total_us / (s.length_ms * 1000.0)
FROM medusa.load_sample AS s;
COMMENT ON VIEW medusa_api.load_samples IS
    'What drivers spent, period by period: a row for each fragment and kind, and without kind the '
    'total. Load is in CPU seconds per second.';

CREATE FUNCTION medusa.grant_loads_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text;
    kind text;
BEGIN
    PERFORM medusa.grant_all_to_owner();
    role := current_database() || '_owner';
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
        EXECUTE format('GRANT INSERT, UPDATE, DELETE ON medusa_api.cost TO %I', role);
    END IF;
    FOREACH kind IN ARRAY ARRAY['job', 'airflow', 'analyst', 'reader'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('REVOKE ALL ON medusa.load_sample, medusa.load_part, medusa.load_retention, '
            'medusa.cost_function, medusa_api.cost, medusa_api.load_samples FROM %I', role);
        IF kind = 'job' THEN
            EXECUTE format('GRANT SELECT ON medusa.load_sample, medusa.load_part, '
                'medusa.load_retention, medusa.cost_function, medusa_api.cost, '
                'medusa_api.load_samples TO %I', role);
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.record_load, medusa.trim_loads TO %I',
                role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_loads_to_roles() IS
    'Jobs measure load and decide by its cost; no other role sees either.';
REVOKE ALL ON FUNCTION medusa.grant_loads_to_roles() FROM PUBLIC;
SELECT medusa.grant_loads_to_roles();
