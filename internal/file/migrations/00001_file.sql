-- +goose Up
-- Times are Unix milliseconds. status is uploading until the bytes are whole, and deleted until they are gone; neither
-- is seen by anybody. backend and the id say where the bytes are.
CREATE TABLE file (
    id       TEXT PRIMARY KEY,
    org      TEXT NOT NULL,
    name     TEXT NOT NULL,
    bytes    BIGINT NOT NULL,
    purpose  TEXT NOT NULL,
    status   TEXT NOT NULL,
    backend  TEXT NOT NULL,
    created  BIGINT NOT NULL,
    expires  BIGINT
);
CREATE INDEX file_org ON file (org, id);
CREATE INDEX file_status ON file (status, expires);

-- +goose Down
DROP TABLE file;
