package container

import (
	"bytes"
	"encoding/json"
	"math"
	"time"
	"unicode/utf8"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	maxName    = 255 // characters of a container's name
	maxFileIDs = 100 // uploaded files that a request puts into a container
)

// ReadRequest checks what can be checked of the wire's request for a container without knowing the limits, which
// [Service.Create] checks. Params are relative to the request, so that a caller can put its own path in front.
func ReadRequest(r openai.ContainerRequest) (CreateSpec, error) {
	spec := CreateSpec{Name: r.Name}
	if r.MemoryLimit != nil {
		if spec.MemoryLimit = *r.MemoryLimit; spec.MemoryLimit == "" {
			spec.MemoryLimit = " " // given and empty is not a size; "" would read as not given
		}
	}
	if r.ExpiresAfter != nil {
		if r.ExpiresAfter.Anchor != "last_active_at" {
			return CreateSpec{}, fault.New(fault.Invalid, "expires_after.anchor must be \"last_active_at\".").
				WithCode("invalid_expires_after").WithParam("expires_after.anchor")
		}
		minutes := r.ExpiresAfter.Minutes
		if minutes < 1 {
			return CreateSpec{}, fault.New(fault.Invalid, "expires_after.minutes must be at least 1.").
				WithCode("invalid_expires_after").WithParam("expires_after.minutes")
		}
		spec.IdleTTL = time.Duration(min(minutes, math.MaxInt64/int64(time.Minute))) * time.Minute
	}
	if len(r.FileIDs) > maxFileIDs {
		return CreateSpec{}, fault.New(fault.Invalid, "file_ids has %d entries; %d are allowed.", len(r.FileIDs), maxFileIDs).
			WithCode("invalid_file_id").WithParam("file_ids")
	}
	spec.FileIDs = r.FileIDs
	var err error
	if spec.Skills, err = readSkills(r.Skills); err != nil {
		return CreateSpec{}, err
	}
	if spec.Network, spec.Secrets, err = ReadNetwork(r.NetworkPolicy); err != nil {
		return CreateSpec{}, rejected(err)
	}
	return spec, nil
}

// given says whether a raw field holds more than nothing, null or an empty list.
func given(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "[]":
		return false
	}
	return true
}

// check holds a new container against the limits and fills in what was not asked for.
func (l Limits) check(spec CreateSpec) (CreateSpec, error) {
	if utf8.RuneCountInString(spec.Name) > maxName {
		return spec, fault.New(fault.Invalid, "name has more than %d characters.", maxName).
			WithCode("name_too_long").WithParam("name")
	}
	if !utf8.ValidString(spec.Name) {
		return spec, fault.New(fault.Invalid, "name is not valid UTF-8.").WithParam("name")
	}
	if spec.MemoryLimit == "" {
		spec.MemoryLimit = formatMemory(l.DefaultMemoryBytes)
	} else {
		bytes, err := ParseMemory(spec.MemoryLimit)
		if err != nil {
			return spec, err
		}
		if l.MaxMemoryBytes > 0 && bytes > l.MaxMemoryBytes {
			return spec, fault.New(fault.Invalid, "memory_limit %s is more than the %s that are allowed here.",
				spec.MemoryLimit, formatMemory(l.MaxMemoryBytes)).
				WithCode("memory_limit_exceeds_cap").WithParam("memory_limit")
		}
	}
	switch {
	case spec.IdleTTL < 0:
		return spec, fault.New(fault.Invalid, "An idle time is not negative.").
			WithCode("invalid_expires_after").WithParam("expires_after.minutes")
	case spec.IdleTTL == 0:
		spec.IdleTTL = l.DefaultIdleTTL
	case spec.IdleTTL > l.MaxIdleTTL:
		return spec, fault.New(fault.Invalid, "expires_after is more than the %d minutes that are allowed here.",
			l.MaxIdleTTL/time.Minute).WithCode("expires_after_exceeds_cap").WithParam("expires_after.minutes")
	}
	return spec, nil
}
