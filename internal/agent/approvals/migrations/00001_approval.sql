-- +goose Up
-- Times are Unix milliseconds. digest names exactly what was asked about, parts the digests of the commands that asked.
-- settled says that the response has taken note of the answer, or that there is nobody who could.
CREATE TABLE approval (
    id           TEXT PRIMARY KEY,
    org          TEXT NOT NULL,
    key_id       TEXT NOT NULL,
    response_id  TEXT NOT NULL,
    item_id      TEXT NOT NULL,
    call_id      TEXT NOT NULL,
    container_id TEXT NOT NULL,
    digest       TEXT NOT NULL,
    parts        TEXT NOT NULL,
    question     TEXT NOT NULL,
    status       TEXT NOT NULL,
    scope        TEXT NOT NULL,
    reason       TEXT NOT NULL,
    decided_by   TEXT NOT NULL,
    created      BIGINT NOT NULL,
    expires      BIGINT NOT NULL,
    decided      BIGINT,
    settled      BIGINT NOT NULL
);
CREATE INDEX approval_org ON approval (org, id);
CREATE INDEX approval_response ON approval (response_id);
CREATE INDEX approval_pending ON approval (expires) WHERE status = 'pending';
CREATE INDEX approval_unsettled ON approval (response_id) WHERE settled = 0 AND status <> 'pending';
CREATE INDEX approval_decided ON approval (decided) WHERE settled = 1;

-- What was approved for a container: exactly these commands, in that container only.
CREATE TABLE approval_grant (
    org          TEXT NOT NULL,
    container_id TEXT NOT NULL,
    digest       TEXT NOT NULL,
    approval_id  TEXT NOT NULL,
    granted_by   TEXT NOT NULL,
    expires      BIGINT NOT NULL,
    PRIMARY KEY (org, container_id, digest)
);

-- +goose Down
DROP TABLE approval_grant;
DROP TABLE approval;
