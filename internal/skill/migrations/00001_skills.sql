-- +goose Up
-- Times are Unix milliseconds. A version is writing until its bytes are whole and deleted until they are gone; only kept
-- ones are seen. latest counts up and is never given twice; default_version is 0 while there is no version.
CREATE TABLE skill (
    id               TEXT PRIMARY KEY,
    org              TEXT NOT NULL,
    created          BIGINT NOT NULL,
    default_version  BIGINT NOT NULL,
    latest           BIGINT NOT NULL
);
CREATE INDEX skill_org ON skill (org, id);
CREATE TABLE skill_version (
    id           TEXT PRIMARY KEY,
    skill_id     TEXT NOT NULL,
    number       BIGINT NOT NULL,
    name         TEXT NOT NULL,
    description  TEXT NOT NULL,
    bytes        BIGINT NOT NULL,
    created      BIGINT NOT NULL,
    status       TEXT NOT NULL,
    backend      TEXT NOT NULL
);
CREATE UNIQUE INDEX skill_version_number ON skill_version (skill_id, number) WHERE status = 'kept';
CREATE INDEX skill_version_status ON skill_version (status);

-- +goose Down
DROP TABLE skill_version;
DROP TABLE skill;
