package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/config"
	"github.com/hardshell-dev/hardshell/internal/llm/cassette"
)

type recordCommand struct {
	globals
	Upstream string   `required:"" placeholder:"URL" help:"The provider's base URL, such as https://api.openai.com/v1."`
	Out      string   `required:"" placeholder:"FILE" help:"The cassette to write. It must not be there yet."`
	Listen   string   `default:"127.0.0.1:0" placeholder:"ADDR" help:"Address and port of this machine for clients (default: a free port of 127.0.0.1)."`
	About    string   `placeholder:"TEXT" help:"What the cassette shows, for people."`
	Secret   []string `placeholder:"REF" sep:"none" help:"A further secret to scrub: env:NAME or file:PATH. May be given more than once."`
	Command  []string `arg:"" optional:"" passthrough:"partial" name:"command" help:"A command, after --: record while it runs, with HARDSHELL_UPSTREAM set to the recorder's address. Nothing confines it."`
}

func (recordCommand) Help() string {
	return `Clients use the address that is printed in place of the provider's base URL, with their own key. Answers pass through
live; what is written has no key, no cookie, no id of an organisation, project or request and no address of mail in it. What
cannot be scrubbed is left out and told, with exit code 1. Questions and answers stay as they are: read a cassette before
you share it. Ctrl-C ends it; the file is a cassette at any moment.

Example:

  hardshell record --upstream https://api.openai.com/v1 --out turns.jsonl
  hardshell record --upstream https://api.anthropic.com --out turns.jsonl -- npm test
`
}

// Run records until a signal, or while its command runs.
func (c recordCommand) Run(ctx context.Context, p *program) error {
	at, err := upstreamOf(c.Upstream)
	if err != nil {
		return err
	}
	secrets, err := c.secrets(p)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(c.Out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fault.New(fault.Conflict, "%s is there already", c.Out).WithTry("another --out, or remove it")
	}
	if err != nil {
		return fmt.Errorf("make the cassette: %w", err)
	}
	defer out.Close()
	var mu sync.Mutex
	kept, left := 0, 0
	recorder, err := cassette.NewRecorder(cassette.RecordOptions{Upstream: at, Out: out, Scrub: cassette.NewScrubber(secrets...),
		About: c.About, By: "hardshell " + readBuild().Version, Told: func(x cassette.Exchange, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				left++
				fmt.Fprintf(p.Err, "left out  %s: %v\n", visible(x.Describe()), err)
				return
			}
			kept++
			fmt.Fprintf(p.Err, "recorded  %s\n", visible(x.Describe()))
		}})
	if err != nil {
		return err
	}
	err = p.stand(ctx, c.Listen, recorder, c.Command)
	recorder.Wait()
	fmt.Fprintf(p.Err, "cassette  %s, %s\n", c.Out, plural(kept, "exchange"))
	if closed := out.Close(); closed != nil && err == nil {
		err = fmt.Errorf("write the cassette: %w", closed)
	}
	if err == nil && left > 0 {
		return fault.New(fault.Upstream, "%s could not be recorded", plural(left, "exchange"))
	}
	return err
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// upstreamOf reads a provider's base URL. What may hold a secret is refused, and so is a way on which keys travel readable.
func upstreamOf(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, usageError{fault.New(fault.Invalid, "--upstream is no URL of a server").WithTry("--upstream https://api.openai.com/v1")}
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, usageError{fault.New(fault.Invalid, "--upstream is a URL without a password, a query and a fragment").
			WithTry("--upstream https://api.openai.com/v1; the client sends its key itself")}
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, usageError{fault.New(fault.Invalid, "keys would travel readable to %s", u.Hostname()).WithTry("--upstream https://%s", u.Host)}
	}
	return u, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// secrets are those that the configuration holds, those that the environment seems to, and those that are named.
func (c recordCommand) secrets(p *program) ([]string, error) {
	loaded, err := p.load(c.globals)
	if err != nil {
		return nil, err
	}
	all := secretsIn(reflect.ValueOf(loaded.Config))
	for _, pair := range p.environ {
		name, value, _ := strings.Cut(pair, "=")
		name = strings.ToUpper(name)
		for _, word := range []string{"KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL"} {
			if strings.Contains(name, word) && !strings.HasSuffix(name, "_FILE") && !strings.HasSuffix(name, "_PATH") && len(value) >= 8 {
				all = append(all, value)
				break
			}
		}
	}
	for _, ref := range c.Secret {
		value, err := p.secret(ref)
		if err != nil {
			return nil, err
		}
		all = append(all, value)
	}
	return all, nil
}

// secret follows env:NAME and file:PATH.
func (p *program) secret(ref string) (string, error) {
	value := ""
	if name, ok := strings.CutPrefix(ref, "env:"); ok {
		value = p.getenv(name)
	} else if path, ok := strings.CutPrefix(ref, "file:"); ok {
		raw, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("read a secret: %w", err)
		}
		value = string(raw)
	} else {
		return "", usageError{fault.New(fault.Invalid, "--secret is not the secret itself, which others could see in the list of processes").WithTry("--secret env:NAME or --secret file:PATH")}
	}
	if value = strings.TrimSpace(value); len(value) < 6 {
		return "", usageError{fault.New(fault.Invalid, "what %s names is shorter than 6 characters, and would be taken out of every sentence", ref)}
	}
	return value, nil
}

// secretsIn finds the secrets in a value, wherever they are.
func secretsIn(v reflect.Value) (all []string) {
	if secret, ok := v.Interface().(config.Secret); ok {
		if secret.Empty() {
			return nil
		}
		return []string{secret.Reveal()}
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				all = append(all, secretsIn(v.Field(i))...)
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			all = append(all, secretsIn(v.MapIndex(key))...)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			all = append(all, secretsIn(v.Index(i))...)
		}
	}
	return all
}
