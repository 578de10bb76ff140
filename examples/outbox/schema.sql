-- The application's tables, and the outbox.

CREATE TABLE customers (
    name text PRIMARY KEY,
    orders bigint NOT NULL DEFAULT 0
);

CREATE TABLE outbox (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    xid xid8 NOT NULL DEFAULT pg_current_xact_id(),
    topic text NOT NULL,
    key bytea,
    value bytea
);

CREATE INDEX outbox_xid ON outbox (xid);

-- The snapshots up to which the relay has read. The first one sees no rows.
CREATE TABLE outbox_window (
    number bigint PRIMARY KEY,
    snapshot pg_snapshot NOT NULL
);

INSERT INTO outbox_window VALUES (0, '1:1:');

CREATE FUNCTION notify_outbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NOTIFY outbox;
    RETURN NULL;
END
$$;

CREATE TRIGGER notify_outbox AFTER INSERT ON outbox
    FOR EACH STATEMENT EXECUTE FUNCTION notify_outbox();
