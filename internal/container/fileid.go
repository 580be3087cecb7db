package container

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/id"
)

// FileByID finds a file of an organisation's containers by its id alone. Whose it is not, and what is not there, look the
// same.
func (s *Service) FileByID(ctx context.Context, org, fileID string) (File, error) {
	absent := fault.New(fault.NotFound, "File %q was not found.", fileID).WithCode("file_not_found")
	if !id.Valid(id.ContainerFile, fileID) {
		return File{}, absent
	}
	var containerID string
	err := s.db.Read().QueryRowContext(ctx, `SELECT container FROM container_file WHERE id = $1`, fileID).Scan(&containerID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return File{}, absent
	case err != nil:
		return File{}, fmt.Errorf("find file: %w", err)
	}
	f, err := s.File(ctx, org, containerID, fileID)
	if fault.KindOf(err) == fault.NotFound {
		return File{}, absent
	}
	return f, err
}
