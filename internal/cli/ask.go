package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/telemetry"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

type askCommand struct {
	globals
	Model    string   `short:"m" help:"provider/model, an alias, or a name that only one provider has. scripted is built in and needs no key: it runs the prompt's lines that begin with '$ '."`
	File     []string `short:"f" sep:"none" placeholder:"FILE" help:"Put a file into the shell's folder, /mnt/data. Repeat for more."`
	URL      string   `name:"url" placeholder:"URL" help:"Ask this server (default: the one that runs on the data folder, else one for this turn only)."`
	Previous string   `placeholder:"ID" help:"Go on from an earlier response: same conversation, same container."`
	Out      string   `short:"o" placeholder:"DIR" help:"Save the files that the commands produced into this folder; nothing there is overwritten."`
	JSON     bool     `help:"Print the finished response as JSON on stdout."`
	Prompt   []string `arg:"" optional:"" help:"What to ask; - or nothing reads it from stdin."`
}

func (askCommand) Help() string {
	return `The model's text is stdout; its commands, what they print, a receipt for each (exit, time, sandbox, bytes) and the
files produced are told on stderr. Exit code 0: completed; 1: failed or incomplete; 2: wrong usage.

Example:

  hardshell ask --model scripted --file sales.csv '$ sort -t, -k2 sales.csv | head -3'
`
}

// Run asks once.
func (c askCommand) Run(ctx context.Context, p *program) error {
	prompt, err := c.prompt(p)
	if err != nil {
		return err
	}
	files, err := readFiles(c.File)
	if err != nil {
		return err
	}
	if err := checkOut(c.Out); err != nil {
		return err
	}
	loaded, err := p.load(c.globals)
	if err != nil {
		return err
	}
	api, close, err := c.server(ctx, p, loaded.Config)
	if err != nil {
		return err
	}
	defer close()
	model, err := chooseModel(ctx, p, api, c.Model, loaded.Config.Models.Default)
	if err != nil {
		return err
	}
	answer, err := api.post(ctx, "/v1/responses", request(model, prompt, files, c.Previous))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	v := newView(p, c.JSON)
	if err := v.watch(ctx, answer.Body); err != nil {
		return err
	}
	v.listFiles(api, c.Out)
	saved := c.save(ctx, api, v)
	if v.id != "" {
		v.say("go on    --previous " + v.id + "\n")
	}
	if c.JSON {
		if err := writeJSON(p.Out, v.final); err != nil {
			return err
		}
	}
	if saved != nil {
		return saved
	}
	return v.verdict()
}

// prompt joins the words of the command line, or reads stdin.
func (c askCommand) prompt(p *program) (string, error) {
	text := strings.Join(c.Prompt, " ")
	if text == "-" || text == "" && !terminal(p.In) {
		raw, err := io.ReadAll(io.LimitReader(p.In, maxPrompt+1))
		if err != nil {
			return "", fmt.Errorf("read the prompt: %w", err)
		}
		if len(raw) > maxPrompt {
			return "", usageError{fault.New(fault.TooLarge, "the prompt is larger than %s", bytesText(maxPrompt)).WithTry("--file FILE")}
		}
		text = string(raw)
	}
	if strings.TrimSpace(text) == "" {
		return "", usageError{fault.New(fault.Invalid, "there is nothing to ask").WithTry("hardshell ask --model scripted '$ ls -la'")}
	}
	return text, nil
}

const (
	maxPrompt = 4 << 20
	// maxFiles bounds what --file sends in one request, which is held in memory and encoded by a third larger.
	maxFiles = 40 << 20
)

// attachment is a file of --file.
type attachment struct{ name, data string }

// readFiles reads the files to send. Two of one name would overwrite each other in the container.
func readFiles(paths []string) ([]attachment, error) {
	var files []attachment
	var total int64
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			return nil, usageError{unread("a file to send", path, err).WithTry("--file FILE, with a file that exists")}
		}
		raw, err := io.ReadAll(io.LimitReader(f, maxFiles+1))
		f.Close()
		if err != nil {
			return nil, usageError{fault.Wrap(fault.Invalid, err, "a file cannot be sent")}
		}
		if total += int64(len(raw)); total > maxFiles {
			return nil, usageError{fault.New(fault.TooLarge, "the files are larger than %s together", bytesText(maxFiles)).
				WithTry("put them into a container with POST /v1/containers/{id}/files")}
		}
		name := filepath.Base(path)
		if slices.ContainsFunc(files, func(a attachment) bool { return a.name == name }) {
			return nil, usageError{fault.New(fault.Invalid, "two files are called %s", name).WithTry("another name for one of them")}
		}
		kind := mime.TypeByExtension(filepath.Ext(name))
		if kind == "" {
			kind = "application/octet-stream"
		}
		files = append(files, attachment{name, "data:" + strings.ReplaceAll(kind, "; ", ";") + ";base64," + base64.StdEncoding.EncodeToString(raw)})
	}
	return files, nil
}

// request writes the body of POST /v1/responses.
func request(model, prompt string, files []attachment, previous string) map[string]any {
	type part map[string]string
	content := []part{}
	for _, f := range files {
		content = append(content, part{"type": "input_file", "filename": f.name, "file_data": f.data})
	}
	content = append(content, part{"type": "input_text", "text": prompt})
	body := map[string]any{"model": model, "stream": true, "tools": []part{{"type": "shell"}},
		"input": []any{map[string]any{"type": "message", "role": "user", "content": content}}}
	if previous != "" {
		body["previous_response_id"] = previous
	}
	return body
}

// server finds whom to ask: --url, the owner of the data folder, or a server of our own for this turn. While another
// `ask` owns the folder there is nobody to ask and no folder to own; it is waited for.
func (c askCommand) server(ctx context.Context, p *program, conf config.Config) (*asked, func(), error) {
	if c.URL != "" {
		key, err := p.apiKey(c.URL, conf.Storage.Data)
		if err != nil {
			return nil, nil, err
		}
		return &asked{client: newClient(c.URL, key, "")}, func() {}, nil
	}
	conf.Server.Listen, conf.Server.TLS, conf.Server.AllowedHosts = "127.0.0.1:0", config.TLS{}, nil
	conf = config.WithFound(ctx, conf, p.environ)
	said := false
	for {
		s, err := openServer(ctx, conf, p.quietLogger(conf), false)
		if err == nil {
			return p.own(s)
		}
		if fault.KindOf(err) != fault.Conflict {
			return nil, nil, err
		}
		api, ok, err := p.connect(ctx, conf.Storage.Data)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			return &asked{client: api}, func() {}, nil
		}
		if !said {
			fmt.Fprintf(p.Err, "waiting for process %d, which uses %s\n", owner(conf.Storage.Data), p.tilde(conf.Storage.Data))
			said = true
		}
		select {
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		case <-time.After(ownerPause):
		}
	}
}

// asked is the server that is asked, and whether it ends with this turn.
type asked struct {
	*client
	own bool
}

// own serves in this process until the returned function is called.
func (p *program) own(s *server) (*asked, func(), error) {
	served, stop := context.WithCancel(context.Background()) // it outlives a signal, so that the run it cancels can end honestly
	ended := make(chan error, 1)
	go func() { ended <- s.serve(served) }()
	close := func() {
		stop()
		if err := <-ended; err != nil {
			s.logger.Error("stop", "error", err)
		}
	}
	if text, remedy := shellLine(s); s.app.shell.Available != nil && !p.local {
		fmt.Fprintf(p.Err, "shell    %s\n         try: %s\n", text, remedy)
	}
	key, err := p.apiKey(s.url, s.config.Storage.Data)
	if p.getenv("HARDSHELL_API_KEY") != "" {
		if _, wrong := s.app.tenants.Authenticate(served, key); wrong != nil {
			err = wrong
		}
	}
	if err != nil {
		close()
		return nil, nil, err
	}
	return &asked{client: newClient(s.url, key, ""), own: true}, close, nil
}

// quietLogger is the logger of a server that serves one turn: what it warns of matters, the rest is told by the view.
func (p *program) quietLogger(conf config.Config) *slog.Logger {
	level := conf.Log.Level
	if level == "info" {
		level = "error"
	}
	logger, err := telemetry.New(p.Err, telemetry.Options{Level: level, Format: "text"})
	if err != nil {
		return telemetry.Discard()
	}
	return logger
}

// chooseModel takes --model, else models.default, else the only sensible one, and says so when it is no model at all.
func chooseModel(ctx context.Context, p *program, api *asked, wanted, fallback string) (string, error) {
	model := wanted
	if model == "" {
		model = fallback
	}
	if model == "" {
		var list openai.List[openai.Model]
		if err := api.get(ctx, "/v1/models", &list); err != nil {
			return "", err
		}
		var real []string
		for _, m := range list.Data {
			if m.OwnedBy != config.ProviderScripted && !isScripted(m.ID) {
				real = append(real, m.ID)
			}
		}
		switch {
		case len(real) == 1:
			model = real[0]
		case len(real) == 0:
			model = config.ProviderScripted
		default:
			shown := real[:min(len(real), 6)]
			return "", usageError{fault.New(fault.Invalid, "there are %d models and no default", len(real)).
				WithTry("--model %s, or models.default in the configuration", strings.Join(shown, " | "))}
		}
	}
	if isScripted(model) {
		fmt.Fprintln(p.Err, "model    scripted: built in, no language model; it runs the lines that begin with '$ '")
	} else if wanted == "" {
		fmt.Fprintf(p.Err, "model    %s\n", visible(model))
	}
	return model, nil
}

// isScripted says whether a name means the built-in model.
func isScripted(model string) bool {
	return model == config.ProviderScripted || strings.HasPrefix(model, config.ProviderScripted+"/")
}

// verdict is the exit code of a finished response.
func (v *view) verdict() error {
	switch {
	case v.final == nil:
		return fault.New(fault.Unavailable, "the answer broke off before its end").WithTry("the same again, or GET /v1/responses/%s", v.id)
	case v.final.Status == openai.Completed && slices.ContainsFunc(v.final.Output, v.unanswered):
		return fault.New(fault.Unsupported, "the model wants a command run, and this server leaves that to its clients; ask runs nothing").
			WithTry(`features.shell.type = "jail" on the server`)
	case v.final.Status == openai.Completed:
		return nil
	case v.final.Error != nil:
		return fault.New(fault.Upstream, "the response %s: %s", v.final.Status, visible(v.final.Error.Message))
	case v.final.IncompleteDetails != nil && v.final.IncompleteDetails.Reason != "":
		return fault.New(fault.Upstream, "the response is %s: %s", v.final.Status, v.final.IncompleteDetails.Reason)
	}
	return fault.New(fault.Upstream, "the response is %s", v.final.Status)
}

// unanswered says whether an item is a call of the shell that nobody has run.
func (v *view) unanswered(i openai.Item) bool {
	return i.Type == openai.TypeShellCall && !slices.ContainsFunc(v.final.Output, func(o openai.Item) bool {
		return o.Type == openai.TypeShellCallOutput && o.CallID == i.CallID
	})
}
