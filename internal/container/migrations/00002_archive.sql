-- +goose Up
-- Once its idle time is over a container's workspace is moved into one blob, from which its files are read by offset
-- and the whole can be brought back. used is what it took of the disk when it was last counted.
ALTER TABLE container ADD COLUMN archive TEXT NOT NULL DEFAULT '';
ALTER TABLE container ADD COLUMN backend TEXT NOT NULL DEFAULT '';
ALTER TABLE container ADD COLUMN used BIGINT NOT NULL DEFAULT 0;

-- Where a file's bytes begin in the archive; null: it is not in one; -1: it was deleted there.
ALTER TABLE container_file ADD COLUMN at BIGINT;
ALTER TABLE container_file ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0;

-- Blobs that no row needs: half-written ones, and those of what is gone. They are removed and then forgotten.
CREATE TABLE container_garbage (
    backend TEXT NOT NULL,
    key     TEXT NOT NULL,
    PRIMARY KEY (backend, key)
);

-- +goose Down
DROP TABLE container_garbage;
ALTER TABLE container_file DROP COLUMN bytes;
ALTER TABLE container_file DROP COLUMN at;
ALTER TABLE container DROP COLUMN used;
ALTER TABLE container DROP COLUMN backend;
ALTER TABLE container DROP COLUMN archive;
