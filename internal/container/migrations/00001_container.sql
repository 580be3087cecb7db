-- +goose Up
-- Times are Unix milliseconds. slot is NULL once the container's folder is gone; due is when somebody must look at the
-- row again: the end of its idle time, then the end of its files.
CREATE TABLE container (
    id           TEXT PRIMARY KEY,
    org          TEXT NOT NULL,
    name         TEXT NOT NULL,
    status       TEXT NOT NULL,
    slot         BIGINT UNIQUE,
    memory_limit TEXT NOT NULL,
    idle_ttl     BIGINT NOT NULL,
    network      TEXT NOT NULL,
    created      BIGINT NOT NULL,
    last_active  BIGINT NOT NULL,
    ended        BIGINT,
    due          BIGINT
);
CREATE INDEX container_org ON container (org, id);
CREATE INDEX container_due ON container (due);

-- A path's row outlives its file, so that a file that comes back keeps its id.
CREATE TABLE container_file (
    id        TEXT PRIMARY KEY,
    container TEXT NOT NULL REFERENCES container (id),
    path      TEXT NOT NULL,
    source    TEXT NOT NULL,
    created   BIGINT NOT NULL,
    UNIQUE (container, path)
);
CREATE INDEX container_file_page ON container_file (container, id);

-- +goose Down
DROP TABLE container_file;
DROP TABLE container;
