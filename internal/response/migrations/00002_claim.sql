-- +goose Up

-- An owner is a service that runs. Its lease is one row, renewed on a timer; what it owns falls to another when the
-- lease has run out. Its live log stands in the segments of its generation. heir is the owner that is taking over what
-- is left: while that one lives, nobody else does.
CREATE TABLE response_owner (
    name        TEXT PRIMARY KEY,
    generation  BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    heir        TEXT NOT NULL
) WITHOUT ROWID;

DROP INDEX response_live;
ALTER TABLE response DROP COLUMN lease_until;
CREATE INDEX response_open ON response (owner) WHERE completed IS NULL;

-- What another owner needs to go on with an open response: the request as the agent keeps it, and what the loop had done
-- when it last said so. Both go with the response's end.
CREATE TABLE response_work (
    response_id TEXT PRIMARY KEY REFERENCES response (id) ON DELETE CASCADE,
    work        BLOB NOT NULL
) WITHOUT ROWID;

CREATE TABLE response_journal (
    response_id TEXT NOT NULL REFERENCES response (id) ON DELETE CASCADE,
    n           BIGINT NOT NULL,
    seq         BIGINT NOT NULL,
    entry       BLOB NOT NULL,
    PRIMARY KEY (response_id, n)
) WITHOUT ROWID;

-- What a client named a request by, so that sending it again does not run it again. It outlives the response.
CREATE TABLE response_key (
    org         TEXT NOT NULL,
    key         TEXT NOT NULL,
    digest      TEXT NOT NULL,
    response_id TEXT NOT NULL,
    expires     BIGINT NOT NULL,
    PRIMARY KEY (org, key)
) WITHOUT ROWID;
CREATE INDEX response_key_expires ON response_key (expires);

-- +goose Down
DROP TABLE response_key;
DROP TABLE response_journal;
DROP TABLE response_work;
DROP TABLE response_owner;
