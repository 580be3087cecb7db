-- +goose Up
-- Times are Unix milliseconds. theirs is the vendor's own id, which no client sees. status and active are as last heard.
-- asked is a digest of the settings that the container was made with, empty where there were none.
CREATE TABLE vendor_container (
    id           TEXT PRIMARY KEY,
    org          TEXT NOT NULL,
    provider     TEXT NOT NULL,
    theirs       TEXT NOT NULL,
    name         TEXT NOT NULL,
    memory_limit TEXT NOT NULL,
    network      TEXT NOT NULL,
    asked        TEXT NOT NULL,
    idle         BIGINT NOT NULL,
    status       TEXT NOT NULL,
    created      BIGINT NOT NULL,
    active       BIGINT NOT NULL
);
CREATE UNIQUE INDEX vendor_container_theirs ON vendor_container (provider, theirs);
CREATE INDEX vendor_container_org ON vendor_container (org, id);
CREATE INDEX vendor_container_active ON vendor_container (active);

CREATE TABLE vendor_file (
    id           TEXT PRIMARY KEY,
    container_id TEXT NOT NULL REFERENCES vendor_container (id) ON DELETE CASCADE,
    theirs       TEXT NOT NULL
);
CREATE UNIQUE INDEX vendor_file_theirs ON vendor_file (container_id, theirs);

-- +goose Down
DROP TABLE vendor_file;
DROP TABLE vendor_container;
