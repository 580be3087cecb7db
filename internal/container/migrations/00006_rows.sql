-- +goose Up
-- What has nothing left but its row goes too, a while later. due said so of no such row until now.
UPDATE container SET due = COALESCE(ended, created) + 2592000000 WHERE due IS NULL AND slot IS NULL AND archive = '';

-- +goose Down
UPDATE container SET due = NULL WHERE slot IS NULL AND archive = '';
