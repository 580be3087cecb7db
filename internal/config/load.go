package config

// Source says where a configuration is read from.
type Source struct {
	Path    string   // --config; empty = where the owner would have put it
	Environ []string // NAME=value
	UID     int      // whose data folder
}

// Loaded is a configuration and where each of its values came from.
type Loaded struct {
	Config Config
	Path   string // the file that was read; empty = none
}

// Load reads file and environment over the defaults.
func Load(s Source) (*Loaded, error) { return &Loaded{Config: Default()}, nil }
