package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/hardshell-dev/hardshell/internal/id"
)

const (
	// maxChanged is how many files a command's result names. The rest is counted.
	maxChanged = 64
	// maxKnown bounds the files of a workspace that get an id. A tree of a million files is listed in part.
	maxKnown = 100_000
	// maxGone is how many rows of files that are gone are passed over for a page, before such rows are removed.
	maxGone = 4_096
)

// Files returns a page of the workspace's regular files, as they are now, and whether more follow. What happened since
// the last look is known from the watch. Where that does not know it all, a large tree is looked through behind the
// request; until then, and where there are more files than maxKnown, [Service.Partial] says so.
func (s *Service) Files(ctx context.Context, org, containerID string, page Page) ([]File, bool, error) {
	if _, err := page.keyset(id.ContainerFile); err != nil {
		return nil, false, err
	}
	r, err := s.settled(ctx, org, containerID)
	if err != nil {
		return nil, false, err
	}
	if r.slot.Valid {
		p, ws, err := s.prepare(ctx, containerID)
		if err != nil {
			return nil, false, err
		}
		root, err := os.OpenRoot(ws.Dir)
		if err != nil {
			return nil, false, fmt.Errorf("open workspace: %w", err)
		}
		defer root.Close()
		if err := s.catchUp(ctx, p, root); err != nil {
			return nil, false, err
		}
	}
	return s.page(ctx, r, page)
}

// page is a page of the files that rows name and that exist, in the workspace or in an archive. Without both there are
// none any more.
func (s *Service) page(ctx context.Context, r row, page Page) ([]File, bool, error) {
	k, err := page.keyset(id.ContainerFile)
	if err != nil {
		return nil, false, err
	}
	exists := func(f fileRow) (File, bool) { return archivedFile(r.ID, f), f.at.Valid && f.at.Int64 >= 0 }
	switch {
	case r.slot.Valid:
		_, ws, err := s.prepare(ctx, r.ID)
		if err != nil {
			return nil, false, err
		}
		root, err := os.OpenRoot(ws.Dir)
		if err != nil {
			return nil, false, fmt.Errorf("open workspace: %w", err)
		}
		defer root.Close()
		exists = func(f fileRow) (File, bool) {
			info, ok := regular(root, f.path)
			if !ok {
				return File{}, false
			}
			return fileOf(r.ID, f, info), true
		}
	case r.archive == "":
		return nil, false, nil
	}
	out, gone := make([]File, 0, k.Limit), 0
	for after := page.After; ; {
		rows, err := s.fileRows(ctx, fmt.Sprintf(`container = $1 AND ($2 = '' OR id %s $2) ORDER BY id %s LIMIT %d`,
			k.Compare, k.Order, pathBatch), r.ID, after)
		if err != nil {
			return nil, false, err
		}
		for _, row := range rows {
			f, ok := exists(row)
			if !ok {
				if gone++; gone == maxGone {
					s.tidyBehind(r.ID)
				}
				continue
			}
			if len(out) == k.Limit {
				return out, true, nil
			}
			out = append(out, f)
		}
		if len(rows) < pathBatch {
			return out, false, nil
		}
		after = rows[len(rows)-1].id
	}
}

// changed turns the paths that a command touched into the files that exist at its end: at most maxChanged of them, the
// shallow ones first (what a person asked for is rarely deep), and how many more there are.
func (s *Service) changed(ctx context.Context, containerID string, ws Workspace, paths []string) ([]File, int, error) {
	if len(paths) == 0 {
		return nil, 0, nil
	}
	root, err := os.OpenRoot(ws.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil // deleted with its container
	}
	if err != nil {
		return nil, 0, fmt.Errorf("open workspace: %w", err)
	}
	defer root.Close()
	slices.SortFunc(paths, func(a, b string) int {
		return cmp.Or(strings.Count(a, "/")-strings.Count(b, "/"), strings.Compare(a, b))
	})
	infos := map[string]fs.FileInfo{}
	var named []string
	more := 0
	for _, rel := range paths {
		info, ok := regular(root, rel)
		switch {
		case !ok:
		case len(named) == maxChanged:
			more++
		default:
			named = append(named, rel)
			infos[rel] = info
		}
	}
	rows, err := s.mint(ctx, containerID, named, SourceAssistant)
	if err != nil {
		return nil, len(named) + more, err
	}
	files := make([]File, 0, len(named))
	for _, rel := range named {
		files = append(files, fileOf(containerID, rows[rel], infos[rel]))
	}
	return files, more, nil
}
