// Package config is the program's one configuration: a struct whose field comments are its reference, read from
// hardshell.toml and from HARDSHELL_SECTION__KEY variables.
//
// It decides nothing and starts nothing. What holds: without a file and without a variable every value works; a key
// that is not in the struct is an error with its place and a suggestion, never ignored; a variable wins over the file,
// the file over the default; a [Secret] cannot be printed. The file is taken from where its owner put it (--config,
// HARDSHELL_CONFIG, the user's configuration folder, /etc), never from the working directory: a workspace that an
// agent writes must not configure its own sandbox.
package config

// Config is the whole of it. Keys that Hadrian documents keep their names and meaning.
type Config struct {
	Server    Server              `toml:"server"`
	Storage   Storage             `toml:"storage"`
	Features  Features            `toml:"features"`
	Providers map[string]Provider `toml:"providers"`
	Models    Models              `toml:"models"`
	Log       Log                 `toml:"log"`
	Telemetry Telemetry           `toml:"telemetry"`
}

// Server is where the API listens and whom it answers.
type Server struct {
	// Listen is the address and port of the API. Port 0 takes a free one.
	Listen string `toml:"listen"`
	// AllowedHosts are further names under which clients may address the server (the Host header), beside loopback
	// and the listening address. Everything else is refused, so that a web page cannot reach the API by rebinding.
	AllowedHosts []string `toml:"allowed_hosts"`
	// MaxBodyBytes bounds every request's body; one that uploads a file may be as large as files may. Beyond it a request
	// is answered 413.
	MaxBodyBytes int64 `toml:"max_body_bytes"`
	// AllowPublic lets the server listen on an address that is not loopback without TLS. Keys then travel readable.
	AllowPublic bool `toml:"allow_public"`
	TLS         TLS  `toml:"tls"`
}

// TLS names the server's certificate. Both or neither.
type TLS struct {
	// Cert is the path of the certificate chain, PEM.
	Cert string `toml:"cert"`
	// Key is the path of its private key, PEM.
	Key string `toml:"key"`
}

// Storage is where things are kept.
type Storage struct {
	// Data is the data folder: database, workspaces, admin.key. Empty means HARDSHELL_DATA, else
	// XDG_DATA_HOME/hardshell, else /var/lib/hardshell for root and ~/.local/share/hardshell for everybody else.
	Data string `toml:"data"`
	// ContainerFiles is where the bytes of uploaded files and of expired containers are kept.
	ContainerFiles ContainerFiles `toml:"container_files"`
}

// Features are the parts of the product.
type Features struct {
	Shell       Shell       `toml:"shell"`
	ServerTools ServerTools `toml:"server_tools"`
	Containers  Containers  `toml:"containers"`
	Files       Files       `toml:"files"`
	Responses   Responses   `toml:"responses"`
}

// Shell says who runs shell calls.
type Shell struct {
	// Type says who runs the calls of a shell tool: jail (this server, by Linux namespaces, Landlock and seccomp on this
	// machine), client_passthrough (every client its own; nothing is run here), passthrough_openai (the upstream, in its own
	// containers; providers of type openai only) or none. An environment of type local is the client's with each of them.
	Type string `toml:"type"`
	// DefaultEnvironment is what a shell tool without an environment means: container_auto (hosted here) or local
	// (the client runs the calls).
	DefaultEnvironment string `toml:"default_environment"`
	// CPUs is how many processors' worth of time a container gets where shell_limits.default_cpu_limit is not set. 0 sets
	// no limit.
	CPUs float64 `toml:"cpus"`
	// MemoryMB is the memory of a container where neither the request nor shell_limits.default_mem_limit_mb says. 0 sets
	// no limit.
	MemoryMB int      `toml:"memory_mb"`
	Approval Approval `toml:"approval"`
}

// ServerTools bounds the tools that the server runs.
type ServerTools struct {
	// MaxIterations is how many times a model may be asked for one response. On the last its tools are taken away.
	MaxIterations int         `toml:"max_iterations"`
	ShellLimits   ShellLimits `toml:"shell_limits"`
}

// ShellLimits bounds every hosted command. A request may ask for less, never for more.
type ShellLimits struct {
	// CommandTimeoutSecs is the longest that a command may run; a request that asks for more gets this.
	CommandTimeoutSecs int `toml:"command_timeout_secs"`
	// DefaultCommandTimeoutSecs is for a command that asks for nothing. It is never more than CommandTimeoutSecs.
	DefaultCommandTimeoutSecs int `toml:"default_command_timeout_secs"`
	// MaxOutputChars is how many characters of a stream the model sees, head and tail, unless the call asks for less.
	MaxOutputChars int `toml:"max_output_chars"`
	// DefaultMemLimitMB is the memory of a container that asks for none. 0 sets no limit.
	DefaultMemLimitMB int `toml:"default_mem_limit_mb"`
	// MaxMemLimitMB is the most memory that a request may ask for. 0 sets no ceiling.
	MaxMemLimitMB int `toml:"max_mem_limit_mb"`
	// AllowedEgressHosts is the most that a network policy may open: "example.com", "*.example.com", either with ":PORT",
	// or "bundle:NAME". Unset or empty lets nothing be opened; ["*"] alone sets no ceiling.
	AllowedEgressHosts []string `toml:"allowed_egress_hosts"`
	// AllowedEgressRanges are private address ranges that an allowed name may lead to all the same: 10.1.0.0/16.
	AllowedEgressRanges []string `toml:"allowed_egress_ranges"`
	// EgressBundles are lists of hosts under a name, for "bundle:NAME". npm, pip, go, cargo and apt have the hosts that those
	// tools ask by default; a row replaces them, and an empty one takes the bundle away.
	EgressBundles map[string][]string `toml:"egress_bundles"`
	// AllowedDomainSecrets are secrets that requests may name, by the variable in which a command finds the placeholder.
	AllowedDomainSecrets map[string]DomainSecret `toml:"allowed_domain_secrets"`
	// InputFileURLs says which addresses a file_url may have: https, http (both) or off.
	InputFileURLs string `toml:"input_file_urls"`
	// InputFileURLRanges are private address ranges that the name in a file_url may lead to all the same: 10.1.0.0/16.
	InputFileURLRanges []string `toml:"input_file_url_ranges"`
	// InputFileURLTimeoutSecs is how long the fetching of one file_url may take.
	InputFileURLTimeoutSecs int `toml:"input_file_url_timeout_secs"`
	// DefaultCPULimit is how many processors' worth of time a container gets. 0 leaves it to features.shell.cpus.
	DefaultCPULimit float64 `toml:"default_cpu_limit"`
	// MaxPids is how many processes and threads a container may have.
	MaxPids int `toml:"max_pids"`
	// CommandsInOrder runs the commands of one call one after the other. Otherwise they run at the same time.
	CommandsInOrder bool `toml:"commands_in_order"`
	// EnvironmentDescription is told to the model with the shell tool: what is installed, what is expected.
	EnvironmentDescription string `toml:"environment_description"`
}

// Containers is the life of a container.
type Containers struct {
	// DefaultIdleTTLSecs is how long an idle container lives when a request does not say.
	DefaultIdleTTLSecs int `toml:"default_idle_ttl_secs"`
	// MaxIdleTTLSecs is the longest idle life that a request may ask for.
	MaxIdleTTLSecs int `toml:"max_idle_ttl_secs"`
	// KeepExpiredSecs is how long the files of an expired container can be downloaded, and brought back with it.
	KeepExpiredSecs int `toml:"keep_expired_secs"`
	// MaxFileMB is the largest file that may be uploaded into a container.
	MaxFileMB int `toml:"max_file_mb"`
	// DiskMB is what the files of a container may take of the disk. 0 sets no limit.
	DiskMB int `toml:"disk_mb"`
	// ReserveDiskMB is what containers leave free on their disk, a twentieth of it at most. 0 lets them fill it.
	ReserveDiskMB int `toml:"reserve_disk_mb"`
	// MaxPerOrg is how many active containers an organisation may have. 0 sets no limit.
	MaxPerOrg int `toml:"max_per_org"`
	// MaxOrgMB is what the containers of an organisation may take of the disk, as it was counted last. 0 sets no limit.
	MaxOrgMB int `toml:"max_org_mb"`
}

// Files is what clients may upload to /v1/files.
type Files struct {
	// MaxFileMB is the largest file.
	MaxFileMB int `toml:"max_file_mb"`
	// MaxOrgMB is what all files of an organisation may take. 0 sets no limit.
	MaxOrgMB int `toml:"max_org_mb"`
}

// Responses is what is kept of a response.
type Responses struct {
	// RetentionSecs is how long a finished response stays readable. 0 keeps it for ever.
	RetentionSecs int `toml:"retention_secs"`
	// BackgroundWorkers is how many responses in the background run at once; the rest wait for their turn.
	BackgroundWorkers int `toml:"background_workers"`
	// MaxBytes is how large the database may be before the oldest finished responses go. 0 is no bound.
	MaxBytes int64 `toml:"max_bytes"`
	// Compaction makes room in conversations whose requests ask for it.
	Compaction Compaction `toml:"compaction"`
}

// Compaction is what a request's context_management means where the provider does not compact by itself.
type Compaction struct {
	// Enabled serves it. Otherwise it is ignored, which a header of the answer says.
	Enabled bool `toml:"enabled"`
	// DefaultStrategy is for a request that names none: truncate (outputs are shortened, then the oldest parts are left
	// out) or llm (the same model writes a summary of them).
	DefaultStrategy string `toml:"default_strategy"`
	// DefaultThresholdTokens is how long a conversation may be where the request does not say.
	DefaultThresholdTokens int `toml:"default_threshold_tokens"`
	// KeepRecentItems is how many of the latest items stay.
	KeepRecentItems int `toml:"keep_recent_items"`
	// DefaultPrompt asks for the summary where the request has no prompt. Empty is one of ours.
	DefaultPrompt string `toml:"default_prompt"`
}

// Models is how names of models are read.
type Models struct {
	// Default is the model of `ask` without --model, and of a request that names none.
	Default string `toml:"default"`
	// Aliases are short names: fast = "openai/gpt-5-mini".
	Aliases map[string]string `toml:"aliases"`
	// Fallbacks are names that stand for several models, the first of which that begins to answer does:
	// steady = ["openai/gpt-5.2", "anthropic/claude-opus-5"].
	Fallbacks map[string][]string `toml:"fallbacks"`
	// Allowed are the models that an organisation may use: "provider/model", or the beginning of one and "*". The
	// organisation "*" is every one that is not named. One that is in no list may use all.
	Allowed map[string][]string `toml:"allowed"`
}

// Log is what the server tells its operator, on stderr.
type Log struct {
	// Level is the least level that is written: debug, info, warn or error.
	Level string `toml:"level"`
	// Format is auto (text on a terminal, JSON elsewhere), text or json.
	Format string `toml:"format"`
}

// Default returns the configuration of a machine that has none.
func Default() Config {
	return Config{
		Server:  Server{Listen: "127.0.0.1:7070", AllowedHosts: []string{}, MaxBodyBytes: 64 << 20},
		Storage: Storage{ContainerFiles: ContainerFiles{Backend: BackendDisk, S3: S3{Region: "us-east-1"}}},
		Features: Features{
			Shell: Shell{Type: ShellJail, DefaultEnvironment: EnvironmentAuto, Approval: Approval{Policy: "never", ExpiresSecs: 3600}},
			ServerTools: ServerTools{MaxIterations: 10,
				ShellLimits: ShellLimits{CommandTimeoutSecs: 1800, DefaultCommandTimeoutSecs: 300, MaxOutputChars: 8000, MaxPids: 2048,
					InputFileURLs: URLsHTTPS, InputFileURLTimeoutSecs: 30}},
			Containers: Containers{DefaultIdleTTLSecs: 20 * 60, MaxIdleTTLSecs: 60 * 24 * 3600, KeepExpiredSecs: 24 * 3600,
				MaxFileMB: 512, DiskMB: 10 << 10, ReserveDiskMB: 512},
			Files: Files{MaxFileMB: 512},
			Responses: Responses{RetentionSecs: 30 * 24 * 3600, BackgroundWorkers: 128,
				Compaction: Compaction{DefaultStrategy: StrategyTruncate, DefaultThresholdTokens: 12_000, KeepRecentItems: 6}},
		},
		Providers: map[string]Provider{},
		Models:    Models{Aliases: map[string]string{}},
		Log:       Log{Level: "info", Format: "auto"},
		Telemetry: Telemetry{Metrics: true, OTLP: OTLP{Service: "hardshell", IntervalSecs: 60}},
	}
}

// The values of features.shell.type, features.shell.default_environment and features.responses.compaction.default_strategy
// that this version serves.
const (
	ShellJail        = "jail"
	ShellNone        = "none"
	ShellClient      = "client_passthrough"
	ShellVendor      = "passthrough_openai"
	EnvironmentAuto  = "container_auto"
	EnvironmentLocal = "local"
	StrategyTruncate = "truncate"
	StrategyLLM      = "llm"
)

// The values of features.server_tools.shell_limits.input_file_urls.
const (
	URLsHTTPS = "https"
	URLsHTTP  = "http"
	URLsOff   = "off"
)
