package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hardshell-dev/hardshell/internal/agent"
	"github.com/hardshell-dev/hardshell/internal/agent/approvals"
	"github.com/hardshell-dev/hardshell/internal/agent/compact"
	"github.com/hardshell-dev/hardshell/internal/audit"
	"github.com/hardshell-dev/hardshell/internal/blob"
	"github.com/hardshell-dev/hardshell/internal/blob/database"
	"github.com/hardshell-dev/hardshell/internal/blob/disk"
	"github.com/hardshell-dev/hardshell/internal/blob/s3"
	"github.com/hardshell-dev/hardshell/internal/cleanup"
	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/container/jail"
	"github.com/hardshell-dev/hardshell/internal/file"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	messages "github.com/hardshell-dev/hardshell/internal/gateway/anthropic"
	completions "github.com/hardshell-dev/hardshell/internal/gateway/chat"
	"github.com/hardshell-dev/hardshell/internal/gateway/openai"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/anthropic"
	"github.com/hardshell-dev/hardshell/internal/llm/bedrock"
	"github.com/hardshell-dev/hardshell/internal/llm/chat"
	"github.com/hardshell-dev/hardshell/internal/llm/gemini"
	responsesapi "github.com/hardshell-dev/hardshell/internal/llm/openai"
	"github.com/hardshell-dev/hardshell/internal/llm/scripted"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/mcp"
	"github.com/hardshell-dev/hardshell/internal/response"
	"github.com/hardshell-dev/hardshell/internal/skill"
	"github.com/hardshell-dev/hardshell/internal/store"
	"github.com/hardshell-dev/hardshell/internal/telemetry"
	"github.com/hardshell-dev/hardshell/internal/tenant"
	"github.com/hardshell-dev/hardshell/sandbox"
	"github.com/hardshell-dev/hardshell/sandbox/egress"
	tools "github.com/hardshell-dev/hardshell/terminal"
	"github.com/hardshell-dev/hardshell/terminal/approval"
)

// app is the whole server without a listener.
type app struct {
	handler http.Handler
	tenants *tenant.Service
	shell   container.Facts // what hosted commands get; Available says why they get nothing
	drain   func(ctx context.Context) error
	close   func(ctx context.Context, keep bool) error // keep: what was left running in boxes waits for the next start
}

// assemble puts the rooms together. This file alone knows every mechanism: a provider or a runtime is a folder, a
// line here, and its suite. The data folder is ready and belongs to this process from here until close.
func assemble(ctx context.Context, c config.Config, logger *slog.Logger) (*app, error) {
	var undo cleanup.Stack
	defer undo.Run()

	db, err := store.Open(ctx, store.Options{Path: filepath.Join(c.Storage.Data, config.Database)})
	if err != nil {
		return nil, err
	}
	undo.Add(func() { db.Close() })
	stopSpawner := func() {}
	if c.Features.Shell.Type == config.ShellJail && sandbox.Supported(ctx) == nil {
		// Early, while this process is small: namespaces are cloned by a process that stays so.
		if stopSpawner, err = sandbox.StartSpawner(ctx); err != nil {
			return nil, fmt.Errorf("start the spawner: %w", err)
		}
		undo.Add(stopSpawner)
	}
	counts := telemetry.NewMetrics()
	collector, stopExport, err := export(c.Telemetry.OTLP, counts, logger)
	if err != nil {
		return nil, err
	}
	undo.Add(stopExport)
	tenants, err := tenant.New(ctx, db)
	if err != nil {
		return nil, err
	}
	responses, err := response.New(ctx, response.Options{DB: db, Retention: retention(c.Features.Responses.RetentionSecs),
		MaxBytes: c.Features.Responses.MaxBytes, Observer: counts})
	if err != nil {
		return nil, err
	}
	undo.Add(func() { responses.Close(ctx) })
	bytes, closeBytes, err := storesOf(ctx, c, db)
	if err != nil {
		return nil, err
	}
	undo.Add(closeBytes)
	files, err := file.New(ctx, file.Options{DB: db, Blobs: bytes, Logger: logger,
		Limits: file.Limits{MaxBytes: megabytes(c.Features.Files.MaxFileMB), MaxOrgBytes: megabytes(c.Features.Files.MaxOrgMB)}})
	if err != nil {
		return nil, err
	}
	undo.Add(files.Close)
	skills, err := skill.New(ctx, skill.Options{DB: db, Blobs: bytes, Logger: logger})
	if err != nil {
		return nil, err
	}
	limits := c.Features.ServerTools.ShellLimits
	network, err := networkOf(limits, logger)
	if err != nil {
		return nil, err
	}
	downloads, err := downloadsOf(limits)
	if err != nil {
		return nil, err
	}
	containers, err := container.New(ctx, container.Options{Network: network, DB: db, Runtime: runtimeOf(c), Dir: filepath.Join(c.Storage.Data, "containers"),
		Logger: logger, Observer: counts, Blobs: bytes, Uploads: files, Skills: skills, Limits: container.Limits{
			DefaultTimeout: seconds(limits.DefaultCommandTimeoutSecs), MaxTimeout: seconds(limits.CommandTimeoutSecs), MaxOutput: limits.MaxOutputChars,
			DefaultMemoryBytes: megabytes(cmp.Or(limits.DefaultMemLimitMB, c.Features.Shell.MemoryMB)), MaxMemoryBytes: megabytes(limits.MaxMemLimitMB),
			CPUs: cmp.Or(limits.DefaultCPULimit, c.Features.Shell.CPUs), Pids: limits.MaxPids,
			DefaultIdleTTL: seconds(c.Features.Containers.DefaultIdleTTLSecs), MaxIdleTTL: seconds(c.Features.Containers.MaxIdleTTLSecs),
			KeepExpired: seconds(c.Features.Containers.KeepExpiredSecs), MaxFileBytes: megabytes(c.Features.Containers.MaxFileMB),
			DiskBytes: cmp.Or(megabytes(c.Features.Containers.DiskMB), -1), ReserveBytes: cmp.Or(megabytes(c.Features.Containers.ReserveDiskMB), -1),
			MaxOrgContainers: c.Features.Containers.MaxPerOrg, MaxOrgBytes: megabytes(c.Features.Containers.MaxOrgMB)}})
	if err != nil {
		return nil, err
	}
	undo.Add(func() { containers.Close(ctx) })
	counts.Containers(containers.Alive)
	providers := providersOf(c)
	vendors, places, err := vendorsOf(ctx, c, db, providers, containers, files)
	if err != nil {
		return nil, err
	}
	models := llm.NewRouter(llm.Options{Providers: providers, Aliases: c.Models.Aliases, Default: c.Models.Default,
		Fallbacks: c.Models.Fallbacks, Allowed: c.Models.Allowed})
	record, closeRecord := auditOf(c, logger)
	questions, err := questionsOf(ctx, c, db, record, logger)
	if err != nil {
		return nil, err
	}
	sealer, err := compact.OpenSealer(filepath.Join(c.Storage.Data, compact.KeyFile))
	if err != nil {
		return nil, err
	}
	loop := agent.New(responses, containers, models, agent.Options{Approvals: questions, MaxIterations: c.Features.ServerTools.MaxIterations,
		EnvironmentDescription: limits.EnvironmentDescription, DefaultEnvironment: c.Features.Shell.DefaultEnvironment,
		ClientRuns: c.Features.Shell.Type == config.ShellClient, Vendors: vendors, Workers: c.Features.Responses.BackgroundWorkers, InOrder: limits.CommandsInOrder, Uploads: files, Sealer: containers, Downloads: downloads, Compaction: compactionOf(c.Features.Responses.Compaction, sealer), Logger: logger})
	facts := containers.Facts(ctx)
	door := gateway.New(gateway.Options{Tenants: tenants, MaxBody: c.Server.MaxBodyBytes, AllowedHosts: c.Server.AllowedHosts,
		Logger: logger, Health: func() any { return healthOf(facts) }, Metrics: metricsOf(c.Telemetry, counts), Observer: counts})
	rooms := openai.Rooms(loop, responses, places, models)
	rooms.Files, rooms.Skills, rooms.Approvals, rooms.Compaction = files, skills, questions, loop
	openai.Register(door, rooms)
	messages.Register(door, messages.Rooms(loop, containers, models))
	completions.Register(door, completions.Rooms(loop), openai.WriteError)
	hall := hallOf(c, containers, telemetry.Tee(counts, collector), record, logger)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		door.HandleAt(method, "/mcp", tenant.ScopeRun, hall.Serve, nil)
	}

	undo.Release()
	return &app{
		handler: door, tenants: tenants, shell: facts,
		drain: func(ctx context.Context) error {
			sockets := door.CloseSockets()
			return errors.Join(hall.Close(ctx), loop.Close(ctx), responses.Close(ctx), sockets(ctx))
		},
		close: func(ctx context.Context, keep bool) error {
			defer stopSpawner()
			end := containers.Close
			if keep || loop.HandedOver() { // what lives in the boxes goes on, as responses that were handed over do
				end = containers.HandOver
			}
			err := errors.Join(end(ctx), closeRecord())
			stopExport()
			files.Close()
			closeBytes()
			return errors.Join(err, db.Close())
		},
	}, nil
}

// auditOf is the server's audit. It is begun by the first that has something to write.
func auditOf(c config.Config, logger *slog.Logger) (open func() (*audit.Log, error), closeRecord func() error) {
	var opened atomic.Pointer[audit.Log]
	open = sync.OnceValues(func() (*audit.Log, error) {
		record, err := audit.Open(filepath.Join(c.Storage.Data, auditFolder), audit.Options{Writer: "serve", Mask: telemetry.Redact,
			Failed: func(err error) { logger.Error("the audit cannot be written", "error", err) }})
		if err == nil {
			opened.Store(record)
		}
		return record, err
	})
	return open, func() error {
		if record := opened.Load(); record != nil {
			return record.Close()
		}
		return nil
	}
}

// questionsOf keeps what hosted commands ask. Every answer is in the audit.
func questionsOf(ctx context.Context, c config.Config, db *store.DB, record func() (*audit.Log, error), logger *slog.Logger) (*approvals.Service, error) {
	settings := c.Features.Shell.Approval
	policy := func(o config.OrgApproval) (p approvals.Policy, err error) {
		if p.Ask, err = approval.ParseAsk(o.Policy); err == nil && o.Rules != "" {
			p.Rules, err = readRules(o.Rules)
		}
		return p, err
	}
	var err error
	o := approvals.Options{DB: db, Expires: seconds(settings.ExpiresSecs), Policies: approvals.Policies{Orgs: map[string]approvals.Policy{}},
		Decided: func(a approvals.Approval) {
			logger.Info("approval", "id", a.ID, "status", a.Status, "by", a.By, "response", a.Response, "container", a.Container, "org", a.Org)
			log, err := record()
			if err == nil {
				err = log.Append(approvalEntry(a))
			}
			if err != nil {
				logger.Error("the audit cannot be written", "error", err)
			}
		}}
	if o.Policies.Default, err = policy(settings.Of("")); err != nil {
		return nil, err
	}
	for org := range settings.Organisations {
		if o.Policies.Orgs[org], err = policy(settings.Of(org)); err != nil {
			return nil, err
		}
	}
	return approvals.New(ctx, o)
}

// approvalEntry is an answer as the audit keeps it.
func approvalEntry(a approvals.Approval) audit.Entry {
	e := audit.Entry{Time: a.Decided, Kind: audit.KindApproval, Call: a.Call, Tool: "shell", Source: "agent", Cwd: a.Question.Cwd,
		Whose:    audit.Whose{Org: a.Org, Key: a.KeyID, Container: a.Container},
		Decision: &audit.Decision{By: cmp.Or(a.By, "nobody"), Answer: string(a.Status), Why: a.Reason, Digest: a.Digest}, Note: a.ID + " of " + a.Response}
	if a.Scope == "container" {
		e.Decision.Answer += " for the container"
	}
	for _, command := range a.Question.Commands {
		e.Parts = append(e.Parts, command.Command)
	}
	return e
}

// hallOf serves MCP in containers.
func hallOf(c config.Config, containers *container.Service, also tools.Observer, open func() (*audit.Log, error), logger *slog.Logger) *mcp.Hall {
	observe := func(p tenant.Principal, id string) (tools.Observer, error) {
		record, err := open()
		if err != nil {
			return nil, err
		}
		return telemetry.Tee(record.Of(audit.Whose{Org: p.Org, Key: p.KeyID, Container: id}), also), nil
	}
	return mcp.NewHall(mcp.HallConfig{Containers: containers, Observe: observe, Locks: filepath.Join(c.Storage.Data, "locks"),
		Version: readBuild().Version, Logger: logger})
}

// downloadsOf fetches the files that requests name by address.
func downloadsOf(l config.ShellLimits) (*file.Downloader, error) {
	f, key, err := l.Fetching()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return file.NewDownloader(file.DownloadOptions{Schemes: f.Schemes, Timeout: f.Timeout, Egress: egress.Options{Pinned: f.Pinned}}), nil
}

// networkOf is what hosted commands may reach at most. The account of each connection goes to the log: names, verdict and
// bytes.
func networkOf(l config.ShellLimits, logger *slog.Logger) (container.Network, error) {
	o, key, err := l.Outgoing()
	if err != nil {
		return container.Network{}, fmt.Errorf("%s: %w", key, err)
	}
	n := container.Network{Egress: egress.Options{Ceiling: o.Ceiling, Bundles: o.Bundles, Pinned: o.Pinned}, Secrets: map[string]container.OperatorSecret{},
		Observe: func(id string, r egress.Record) {
			logger.Info("egress", "container", id, "client", r.Client, "host", r.Host, "port", r.Port, "verdict", r.Verdict, "reason", r.Reason,
				"carried", r.Carried, "requests", r.Requests, "sent", r.Sent, "received", r.Received, "secrets", r.Secrets, "took", r.Duration)
		}}
	for name, s := range l.AllowedDomainSecrets {
		n.Secrets[name] = container.OperatorSecret{Value: egress.NewValue(s.Value.Reveal()), Hosts: s.AllowedHosts}
	}
	return n, nil
}

// runtimeOf chooses who runs hosted commands.
func runtimeOf(c config.Config) container.Runtime {
	if t := c.Features.Shell.Type; t != config.ShellJail {
		return noShell{t}
	}
	return jail.New(jail.Options{})
}

// storesOf opens the places of bytes. All that can be opened are there, so that what was stored before a change of the
// configuration can still be read.
func storesOf(ctx context.Context, c config.Config, db *store.DB) (stores *blob.Stores, closeAll func(), err error) {
	folder, err := disk.Open(filepath.Join(c.Storage.Data, "files"))
	if err != nil {
		return nil, nil, err
	}
	var undo cleanup.Stack
	defer undo.Run()
	undo.Add(func() { folder.Close() })
	tables, err := database.Open(ctx, db)
	if err != nil {
		return nil, nil, err
	}
	all := map[string]blob.Store{config.BackendDisk: folder, config.BackendDatabase: tables}
	files := c.Storage.ContainerFiles
	if o := files.S3; o.Endpoint != "" && o.Bucket != "" && o.AccessKeyID != "" && !o.SecretAccessKey.Empty() {
		if all[config.BackendS3], err = s3.Open(s3.Options{Endpoint: o.Endpoint, Region: o.Region, Bucket: o.Bucket, Prefix: o.Prefix,
			AccessKey: o.AccessKeyID, SecretKey: o.SecretAccessKey.Reveal(), PathStyle: o.PathStyle, SSE: o.SSE}); err != nil {
			return nil, nil, err
		}
	}
	undo.Release()
	current := files.Backend
	if current == config.BackendFilesystem {
		current = config.BackendDisk
	}
	return blob.NewStores(current, all), func() { folder.Close() }, nil
}

func megabytes(n int) int64 { return int64(n) << 20 }

// providersOf makes the upstreams. The configuration has been checked.
func providersOf(c config.Config) map[string]llm.Provider {
	providers := map[string]llm.Provider{}
	for name, p := range c.Providers {
		if p.Type == config.ProviderScripted {
			own := scripted.Options{}
			if p.Scripts != "" {
				own.Scripts = os.DirFS(p.Scripts)
			}
			providers[name] = scripted.New(own)
			continue
		}
		server := upstream.Options{Name: name, BaseURL: p.BaseURL, APIKey: p.APIKey.Reveal(), Models: p.Models, Headers: map[string]string{},
			ConnectTimeout: seconds(p.ConnectTimeoutSecs), FirstByteTimeout: seconds(p.FirstByteTimeoutSecs), IdleTimeout: seconds(p.IdleTimeoutSecs),
			MaxTries: p.MaxTries, MaxConcurrent: p.MaxConcurrent}
		for header, value := range p.Headers {
			server.Headers[header] = value.Reveal()
		}
		switch p.Type {
		case config.ProviderAnthropic:
			providers[name] = anthropic.New(anthropic.Options{Options: server, MaxTokens: p.MaxTokens, Cache: p.Cache, Version: p.Version})
		case config.ProviderBedrock:
			providers[name] = bedrock.New(bedrock.Options{Options: server, Region: p.Region, Profile: p.Profile, MaxTokens: p.MaxTokens})
		case config.ProviderGemini:
			providers[name] = gemini.New(gemini.Options{Options: server, Project: p.Project, Location: p.Location, Credentials: p.CredentialsFile})
		case config.ProviderOpenAI:
			providers[name] = responsesapi.New(responsesapi.Options{Options: server, APIVersion: p.APIVersion, NativeShell: p.NativeShell})
		default:
			providers[name] = chat.New(chat.Options{Options: server, MaxTokensField: p.MaxTokensField})
		}
	}
	return providers
}

// compactionOf is how conversations are made to fit.
func compactionOf(c config.Compaction, sealer compact.Sealer) agent.Compaction {
	return agent.Compaction{Enabled: c.Enabled, Strategy: c.DefaultStrategy, Threshold: int64(c.DefaultThresholdTokens),
		Keep: c.KeepRecentItems, Prompt: c.DefaultPrompt, Sealer: sealer}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// forever is longer than any row lives.
const forever = 100 * 365 * 24 * time.Hour

// retention reads the setting whose 0 means for ever.
func retention(secs int) time.Duration {
	if secs == 0 {
		return forever
	}
	return seconds(secs)
}
