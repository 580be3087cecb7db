-- +goose Up
-- Skills that a container has mounted. key names the very files; inline holds those that came with a request, so that a
-- container that is restored has them again; of the others skill_id and version say where they are.
CREATE TABLE container_skill (
    container    TEXT NOT NULL,
    name         TEXT NOT NULL,
    description  TEXT NOT NULL,
    key          TEXT NOT NULL,
    skill_id     TEXT NOT NULL,
    version      BIGINT NOT NULL,
    inline       BLOB,
    PRIMARY KEY (container, name)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE container_skill;
