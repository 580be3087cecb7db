//go:build !linux

package container

import (
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"
)

// notifier watches nothing on this system: lists of changed files are partial, and say so.
type notifier struct{ mu sync.Mutex }

func newNotifier(*slog.Logger) *notifier { return &notifier{} }

func (n *notifier) close()                                {}
func (n *notifier) add(string) *tree                      { return nil }
func (n *notifier) remove(*tree)                          {}
func (n *notifier) drain() bool                           { return false }
func (n *notifier) background(*tree)                      {}
func (n *notifier) queue(*tree)                           {}
func (n *notifier) watchDir(*tree, *os.File, string) bool { return false }
func changeTime(info fs.FileInfo) time.Time               { return info.ModTime() }
