-- +goose Up

-- Tables WITHOUT ROWID: a row is in one tree, not in a table and in the index of its key, and a short response is one
-- commit of few pages.

-- One row a response. It is its own job: owner and fence say who may append to it and end it. lease_until is 0 while the
-- lock on the data folder is the lease. Times are Unix milliseconds; completed is null until the terminal event.
CREATE TABLE response (
    id           TEXT PRIMARY KEY,
    org          TEXT NOT NULL,
    key_id       TEXT NOT NULL,
    status       TEXT NOT NULL,
    background   BIGINT NOT NULL,
    model        TEXT NOT NULL,
    previous_id  TEXT NOT NULL,
    container_id TEXT NOT NULL,
    owner        TEXT NOT NULL,
    fence        BIGINT NOT NULL,
    lease_until  BIGINT NOT NULL,
    created      BIGINT NOT NULL,
    completed    BIGINT,
    expires      BIGINT,
    last_seq     BIGINT,
    object       TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX response_live ON response (lease_until) WHERE completed IS NULL;
CREATE INDEX response_expires ON response (expires) WHERE expires IS NOT NULL;

-- A request's input apart from the row, so that ending a response does not write its files again.
CREATE TABLE response_input (
    response_id TEXT PRIMARY KEY REFERENCES response (id) ON DELETE CASCADE,
    items       TEXT NOT NULL
) WITHOUT ROWID;

-- The live log: one row a flush, the slices of many responses in one blob (segment.go).
CREATE TABLE event_segment (
    id   INTEGER PRIMARY KEY,
    data BLOB NOT NULL
);

-- How many services have written segments: the upper half of their ids.
CREATE TABLE log_generation (
    n BIGINT NOT NULL
);
INSERT INTO log_generation (n) VALUES (0);

-- The log at rest: compressed runs of events of one response (block.go).
CREATE TABLE event_block (
    response_id TEXT NOT NULL REFERENCES response (id) ON DELETE CASCADE,
    first_seq   BIGINT NOT NULL,
    last_seq    BIGINT NOT NULL,
    data        BLOB NOT NULL,
    PRIMARY KEY (response_id, first_seq)
) WITHOUT ROWID;

-- fence_epoch moves whenever a live response changes hands or goes away. A flush that finds it where it was has had its
-- fences checked already; one that does not checks each response that it writes for.
CREATE TABLE fence_epoch (
    n BIGINT NOT NULL
);
INSERT INTO fence_epoch (n) VALUES (0);

-- +goose StatementBegin
CREATE TRIGGER response_claimed AFTER UPDATE OF fence ON response WHEN OLD.fence <> NEW.fence
BEGIN
    UPDATE fence_epoch SET n = n + 1;
END;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE TRIGGER response_removed AFTER DELETE ON response WHEN OLD.completed IS NULL
BEGIN
    UPDATE fence_epoch SET n = n + 1;
END;
-- +goose StatementEnd

-- +goose Down
DROP TABLE fence_epoch;
DROP TABLE log_generation;
DROP TABLE event_block;
DROP TABLE event_segment;
DROP TABLE response_input;
DROP TABLE response;
