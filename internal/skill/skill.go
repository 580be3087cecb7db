// Package skill keeps skills: bundles of files with a SKILL.md that says what they are for, in numbered versions that
// never change, and the form in which a container sees them.
//
// It knows no container and no request; whoever mounts a bundle asks for its files. What holds: a bundle that was taken
// in holds regular files under plain relative names and nothing else, within stated bounds, however its zip was made; a
// version is there whole or not at all; a skill of another organisation looks absent.
package skill

import (
	"time"

	"github.com/hardshell-dev/hardshell/internal/store"
)

// Skill is a named line of versions.
type Skill struct {
	ID      string
	Org     string
	Created time.Time
	Default Version // what a reference without a version means
	Latest  int64   // the highest number there is
}

// Version is one bundle of a skill. Numbers count from 1 and are never used twice.
type Version struct {
	ID      string
	SkillID string
	Number  int64
	Manifest
	Bytes   int64 // of the files together
	Created time.Time

	backend string
}

// Manifest is what a skill says of itself, and all of it that a model is told before it reads on.
type Manifest struct {
	Name        string // a-z 0-9 and single hyphens; at most 64 characters
	Description string // at most 1,024 characters
}

// Limits bound bundles. A zero field takes the default that its comment names.
type Limits struct {
	MaxArchive int64 // bytes of a zip as it comes; 50 MiB, the vendor's
	MaxBytes   int64 // of the files together; 100 MiB
	MaxFile    int64 // of one file; 25 MiB, the vendor's
	MaxFiles   int   // 500, the vendor's
	MaxSkills  int   // of an organisation; 5,000
}

func (l Limits) filled() Limits {
	fill := func(v *int64, def int64) {
		if *v <= 0 {
			*v = def
		}
	}
	fill(&l.MaxArchive, 50<<20)
	fill(&l.MaxBytes, 100<<20)
	fill(&l.MaxFile, 25<<20)
	if l.MaxFiles <= 0 {
		l.MaxFiles = 500
	}
	if l.MaxSkills <= 0 {
		l.MaxSkills = 5000
	}
	return l
}

// Page asks for a part of a list. The zero value is the newest 20.
type Page = store.Page
