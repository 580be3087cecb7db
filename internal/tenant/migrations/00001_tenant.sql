-- +goose Up
CREATE TABLE organisation (
    id      TEXT PRIMARY KEY,
    created BIGINT NOT NULL
);

-- hash is the SHA-256 of the secret part; the secret itself is shown once and kept nowhere.
CREATE TABLE api_key (
    id      TEXT PRIMARY KEY,
    org     TEXT NOT NULL REFERENCES organisation (id),
    name    TEXT NOT NULL,
    scopes  TEXT NOT NULL,
    hash    BLOB NOT NULL,
    created BIGINT NOT NULL,
    revoked BIGINT
);
CREATE INDEX api_key_org ON api_key (org);

-- +goose Down
DROP TABLE api_key;
DROP TABLE organisation;
