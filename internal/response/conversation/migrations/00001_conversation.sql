-- +goose Up

-- A conversation is a list of items under an id. revision moves with every change of the list: who continues it says
-- which list was read. container_id is the one that its latest response used.
CREATE TABLE conversation (
    id           TEXT PRIMARY KEY,
    org          TEXT NOT NULL,
    created      BIGINT NOT NULL,
    metadata     TEXT NOT NULL,
    container_id TEXT NOT NULL,
    next_place   BIGINT NOT NULL,
    items        BIGINT NOT NULL,
    revision     BIGINT NOT NULL
) WITHOUT ROWID;

CREATE TABLE conversation_item (
    conversation_id TEXT NOT NULL REFERENCES conversation (id) ON DELETE CASCADE,
    place           BIGINT NOT NULL,
    id              TEXT NOT NULL,
    item            TEXT NOT NULL,
    PRIMARY KEY (conversation_id, place)
) WITHOUT ROWID;
CREATE UNIQUE INDEX conversation_item_id ON conversation_item (id, conversation_id);

-- The response that runs on a conversation: one at a time. The row goes in the transaction that ends the response, which
-- adds its items; so they are added once. It goes with either of the two as well.
CREATE TABLE conversation_turn (
    conversation_id TEXT PRIMARY KEY REFERENCES conversation (id) ON DELETE CASCADE,
    response_id     TEXT NOT NULL REFERENCES response (id) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE UNIQUE INDEX conversation_turn_response ON conversation_turn (response_id);

-- +goose Down
DROP TABLE conversation_turn;
DROP TABLE conversation_item;
DROP TABLE conversation;
