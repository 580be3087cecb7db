package passthrough

import (
	"context"
	"database/sql"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/id"
	"github.com/hardshell-dev/hardshell/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

const columns = `id, org, provider, theirs, name, memory_limit, network, asked, idle, status, created, active`

func scan(row store.Scanner) (Container, error) {
	var c Container
	var network string
	var idle, created, active int64
	if err := row.Scan(&c.ID, &c.Org, &c.Provider, &c.Theirs, &c.Name, &c.MemoryLimit, &network, &c.Asked, &idle, &c.Status, &created, &active); err != nil {
		return Container{}, err
	}
	c.IdleTTL, c.Created, c.LastActive = time.Duration(idle)*time.Millisecond, time.UnixMilli(created), time.UnixMilli(active)
	if network != "" {
		if err := json.Unmarshal([]byte(network), &c.Network); err != nil {
			return Container{}, fmt.Errorf("network of %s: %w", c.ID, err)
		}
	}
	return c, nil
}

func (c Container) network() string {
	if c.Network == nil {
		return ""
	}
	raw, err := json.Marshal(c.Network)
	if err != nil { // strings always marshal
		return ""
	}
	return string(raw)
}

// absent is the answer for a container that is not there, or another organisation's.
func absent(containerID string) error {
	return fault.New(fault.NotFound, "Container with id '%s' not found.", containerID).WithCode("container_not_found")
}

// find reads a container, and says where its vendor is asked. Of one that is over there is nobody to ask.
func (s *Service) find(ctx context.Context, org, containerID string) (Container, Upstream, error) {
	if !id.Valid(id.Container, containerID) {
		return Container{}, nil, absent(containerID)
	}
	c, err := scan(s.db.Read().QueryRowContext(ctx, `SELECT `+columns+` FROM vendor_container WHERE id = $1 AND org = $2`, containerID, org))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return Container{}, nil, absent(containerID)
	case err != nil:
		return Container{}, nil, fmt.Errorf("read container: %w", err)
	case c.Status != container.Active:
		c.Ended = c.LastActive.Add(c.IdleTTL)
		return c, nil, nil
	}
	up, err := s.upstream(c.Provider)
	return c, up, err
}

// list returns a page of an organisation's containers as they were last heard of. One whose idle time is over since is
// shown as what it must be.
func (s *Service) list(ctx context.Context, org string, page container.Page) ([]Container, bool, error) {
	k, err := store.Page{Limit: page.Limit, After: page.After, Order: page.Order}.Keyset(id.Container, defaultPage, maxPage)
	if err != nil {
		return nil, false, err
	}
	rows, err := store.All(ctx, s.db.Read(), scan, fmt.Sprintf(`SELECT `+columns+` FROM vendor_container WHERE org = $1
		AND ($2 = '' OR name = $2) AND ($3 = '' OR id %s $3) ORDER BY id %s LIMIT $4`, k.Compare, k.Order), org, page.Name, page.After, k.Limit+1)
	if err != nil {
		return nil, false, fmt.Errorf("containers: %w", err)
	}
	rows, more := store.Cut(rows, k.Limit)
	for i := range rows {
		if over := rows[i].LastActive.Add(rows[i].IdleTTL); rows[i].Status != container.Active || s.now().After(over) {
			rows[i].Status, rows[i].Ended = container.Expired, over
		}
	}
	return rows, more, nil
}

func (s *Service) write(ctx context.Context, what string, fn func(tx *sql.Tx) error) error {
	if err := s.db.Write(ctx, fn); err != nil {
		if _, ok := fault.As(err); ok {
			return err
		}
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// insert notes a container. Those that nobody has used for long are forgotten on the way.
func (s *Service) insert(ctx context.Context, c Container) error {
	return s.write(ctx, "note container", func(tx *sql.Tx) error {
		if _, err := tx.Exec(`DELETE FROM vendor_container WHERE active < $1`, s.now().Add(-keepRows).UnixMilli()); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO vendor_container (`+columns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
			c.ID, c.Org, c.Provider, c.Theirs, c.Name, c.MemoryLimit, c.network(), c.Asked, c.IdleTTL.Milliseconds(), c.Status,
			c.Created.UnixMilli(), c.LastActive.UnixMilli())
		return err
	})
}

// met is the row of a container that a vendor has named, which is in use now. Another organisation's is nobody's here.
func (s *Service) met(ctx context.Context, c Container) (Container, error) {
	known, err := scan(s.db.Read().QueryRowContext(ctx, `SELECT `+columns+` FROM vendor_container WHERE provider = $1 AND theirs = $2`, c.Provider, c.Theirs))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if err := s.insert(ctx, c); err != nil {
			return Container{}, err
		}
		return c, nil
	case err != nil:
		return Container{}, fmt.Errorf("read container: %w", err)
	case known.Org != c.Org:
		return Container{}, fault.New(fault.Upstream, "The provider %q used a container that is not this organisation's.", c.Provider).WithCode("server_error")
	}
	if c.LastActive.Sub(known.LastActive) < time.Minute && known.Status == container.Active {
		return known, nil
	}
	known.Status, known.LastActive = container.Active, c.LastActive
	return known, s.note(ctx, known)
}

// note keeps what was heard of a container.
func (s *Service) note(ctx context.Context, c Container) error {
	return s.write(ctx, "note container", func(tx *sql.Tx) error {
		_, err := tx.Exec(`UPDATE vendor_container SET memory_limit = $1, network = $2, idle = $3, status = $4, created = $5, active = $6 WHERE id = $7`,
			c.MemoryLimit, c.network(), c.IdleTTL.Milliseconds(), c.Status, c.Created.UnixMilli(), c.LastActive.UnixMilli(), c.ID)
		return err
	})
}

func (s *Service) forget(ctx context.Context, containerID string) error {
	return s.write(ctx, "forget container", func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM vendor_container WHERE id = $1`, containerID)
		return err
	})
}

// mint gives files of a container our ids, the same each time.
func (s *Service) mint(ctx context.Context, containerID string, theirs ...string) (map[string]string, error) {
	ids := make(map[string]string, len(theirs))
	var missing []string
	for _, t := range theirs {
		var own string
		err := s.db.Read().QueryRowContext(ctx, `SELECT id FROM vendor_file WHERE container_id = $1 AND theirs = $2`, containerID, t).Scan(&own)
		switch {
		case err == nil:
			ids[t] = own
		case errors.Is(err, sql.ErrNoRows):
			missing = append(missing, t)
		default:
			return nil, fmt.Errorf("read file: %w", err)
		}
	}
	if len(missing) == 0 {
		return ids, nil
	}
	err := s.write(ctx, "note file", func(tx *sql.Tx) error {
		for _, t := range missing {
			var own string // another request may have been first
			if err := tx.QueryRow(`INSERT INTO vendor_file (id, container_id, theirs) VALUES ($1, $2, $3)
				ON CONFLICT (container_id, theirs) DO UPDATE SET theirs = excluded.theirs RETURNING id`, id.New(id.ContainerFile), containerID, t).Scan(&own); err != nil {
				return err
			}
			ids[t] = own
		}
		return nil
	})
	return ids, err
}

// theirFile is the vendor's id of a file.
func (s *Service) theirFile(ctx context.Context, containerID, fileID string) (theirs string, err error) {
	err = s.db.Read().QueryRowContext(ctx, `SELECT theirs FROM vendor_file WHERE container_id = $1 AND id = $2`, containerID, fileID).Scan(&theirs)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", noFile(fileID)
	case err != nil:
		return "", fmt.Errorf("read file: %w", err)
	}
	return theirs, nil
}

func noFile(fileID string) error {
	return fault.New(fault.NotFound, "Container file with id '%s' not found.", fileID).WithCode("file_not_found")
}

func (s *Service) dropFile(ctx context.Context, fileID string) error {
	return s.write(ctx, "forget file", func(tx *sql.Tx) error {
		_, err := tx.Exec(`DELETE FROM vendor_file WHERE id = $1`, fileID)
		return err
	})
}
