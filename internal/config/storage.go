package config

import (
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// ContainerFiles says where the bytes of uploaded files and of expired containers are kept. Each file remembers its
// place, so that a change is for new ones only; the old place must stay configured for as long as it is needed.
type ContainerFiles struct {
	// Backend is disk (a folder of the data folder; filesystem means the same), database, or s3.
	Backend string `toml:"backend"`
	S3      S3     `toml:"s3"`
}

// S3 is a bucket of Amazon's or of a server that speaks its protocol.
type S3 struct {
	// Endpoint is the server: https://s3.eu-central-1.amazonaws.com.
	Endpoint string `toml:"endpoint"`
	// Region is the region that requests are signed for.
	Region string `toml:"region"`
	// Bucket is the bucket, which must be there.
	Bucket string `toml:"bucket"`
	// Prefix begins every key, so that a bucket can be shared: "hardshell/".
	Prefix string `toml:"prefix"`
	// AccessKeyID is the name of the key.
	AccessKeyID string `toml:"access_key_id"`
	// SecretAccessKey is the key. Write env:NAME or file:PATH.
	SecretAccessKey Secret `toml:"secret_access_key"`
	// PathStyle puts the bucket into the path and not in front of the host name, as most servers beside Amazon's want.
	PathStyle bool `toml:"path_style"`
	// SSE asks the server to encrypt what it stores: AES256 or aws:kms. Empty asks for nothing.
	SSE string `toml:"sse"`
}

// The values of storage.container_files.backend.
const (
	BackendDisk       = "disk"
	BackendFilesystem = "filesystem" // Hadrian's word for disk
	BackendDatabase   = "database"
	BackendS3         = "s3"
)

func (l *Loaded) checkStorage() (string, *fault.Error) {
	const key = "storage.container_files."
	c := &l.Config.Storage.ContainerFiles
	if err := oneOf(c.Backend, BackendDisk, BackendFilesystem, BackendDatabase, BackendS3); err != nil {
		return key + "backend", err
	}
	if c.S3.SSE != "" {
		if err := oneOf(c.S3.SSE, "AES256", "aws:kms"); err != nil {
			return key + "s3.sse", err
		}
	}
	if strings.HasPrefix(c.S3.Prefix, "/") || strings.ContainsAny(c.S3.Prefix, " ?#%") {
		return key + "s3.prefix", invalid("%q cannot begin a key", c.S3.Prefix).WithTry(`letters, digits and slashes, such as "hardshell/"`)
	}
	if c.S3.Endpoint != "" {
		if err := checkURL(c.S3.Endpoint); err != nil {
			return key + "s3.endpoint", err.WithTry("https://s3.example.com")
		}
	}
	if c.Backend != BackendS3 {
		return "", nil
	}
	for _, needed := range []struct{ name, value string }{{"endpoint", c.S3.Endpoint}, {"bucket", c.S3.Bucket},
		{"access_key_id", c.S3.AccessKeyID}, {"secret_access_key", c.S3.SecretAccessKey.Reveal()}} {
		if needed.value == "" {
			return key + "s3." + needed.name, invalid("the backend s3 needs it").WithTry("set it, or backend = \"disk\"")
		}
	}
	return "", nil
}

// checkLimits holds the limits of containers, files and commands against what makes sense.
func (f Features) checkLimits() (string, *fault.Error) {
	limits := f.ServerTools.ShellLimits
	for _, n := range []struct {
		key              string
		value, low, high int
	}{
		{"features.server_tools.shell_limits.max_pids", limits.MaxPids, 16, 1 << 22},
		{"features.shell.memory_mb", f.Shell.MemoryMB, 0, 1 << 24},
		{"features.containers.keep_expired_secs", f.Containers.KeepExpiredSecs, 1, 1 << 30},
		{"features.containers.max_file_mb", f.Containers.MaxFileMB, 1, 1 << 24},
		{"features.containers.disk_mb", f.Containers.DiskMB, 0, 1 << 30},
		{"features.containers.reserve_disk_mb", f.Containers.ReserveDiskMB, 1, 1 << 24},
		{"features.containers.max_per_org", f.Containers.MaxPerOrg, 0, 1 << 24},
		{"features.containers.max_org_mb", f.Containers.MaxOrgMB, 0, 1 << 30},
		{"features.files.max_file_mb", f.Files.MaxFileMB, 1, 1 << 24},
		{"features.files.max_org_mb", f.Files.MaxOrgMB, 0, 1 << 30},
	} {
		if n.value < n.low || n.value > n.high {
			return n.key, invalid("%d is out of bounds", n.value).WithTry("a number from %d to %d", n.low, n.high)
		}
	}
	for key, n := range map[string]float64{"features.shell.cpus": f.Shell.CPUs, "features.server_tools.shell_limits.default_cpu_limit": limits.DefaultCPULimit} {
		if n != 0 && !(n >= 0.01 && n <= 4096) {
			return key, invalid("%v is out of bounds", n).WithTry("0, or a number from 0.01 to 4096")
		}
	}
	if limits.MaxMemLimitMB > 0 && f.Shell.MemoryMB > limits.MaxMemLimitMB {
		return "features.shell.memory_mb",
			invalid("the default of %d MB is above the ceiling of %d MB", f.Shell.MemoryMB, limits.MaxMemLimitMB).WithTry("raise max_mem_limit_mb")
	}
	return "", nil
}
