-- +goose Up
-- Files that requests have brought into a workspace. key is made of where a file came from and of its bytes; what has one
-- is put there once, and never over what commands have made of it since.
CREATE TABLE container_input (
    container TEXT NOT NULL,
    key       TEXT NOT NULL,
    name      TEXT NOT NULL,
    PRIMARY KEY (container, key)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE container_input;
