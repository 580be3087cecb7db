-- +goose Up
CREATE TABLE blob (
    key     TEXT PRIMARY KEY,
    version TEXT NOT NULL UNIQUE,
    size    BIGINT NOT NULL
);
CREATE TABLE blob_piece (
    version TEXT NOT NULL,
    piece   BIGINT NOT NULL,
    data    BLOB NOT NULL,
    PRIMARY KEY (version, piece)
);

-- +goose Down
DROP TABLE blob_piece;
DROP TABLE blob;
