-- +goose Up

-- Ids begin with their time, so that the responses in whose life an item was made are found by its id alone (item.go).
CREATE INDEX response_span ON response (org, id, completed);

-- +goose Down
DROP INDEX response_span;
