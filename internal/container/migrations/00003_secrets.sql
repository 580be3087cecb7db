-- +goose Up
-- The secrets of a container's network policy, sealed under the key in the containers' folder, while it is active.
ALTER TABLE container ADD COLUMN secrets TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE container DROP COLUMN secrets;
