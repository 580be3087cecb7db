package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// workdir is the container's folder whose files can be downloaded.
const workdir = "/mnt/data/"

// produced lists the files that the commands wrote, the last state of each.
func (v *view) produced() []openai.OutputFile {
	var list []openai.OutputFile
	at := map[string]int{}
	for _, f := range v.files {
		if f.Source == "user" {
			continue
		}
		key := f.ContainerID + " " + f.Path
		if i, ok := at[key]; ok {
			list[i] = f
			continue
		}
		at[key] = len(list)
		list = append(list, f)
	}
	return list
}

// checkOut sees to it that --out can be used before a model is paid.
func checkOut(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usageError{fault.Wrap(fault.Invalid, err, "--out cannot be used").WithTry("--out DIR, with a folder that you may write")}
	}
	return nil
}

// save downloads every produced file into --out. All are tried; the errors come together.
func (c askCommand) save(ctx context.Context, api *asked, v *view) error {
	if c.Out == "" {
		return nil
	}
	root, err := os.OpenRoot(c.Out)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "--out cannot be used")
	}
	defer root.Close()
	var failed []error
	for _, f := range v.produced() {
		n, err := saveFile(ctx, api.client, root, f)
		if err != nil {
			failed = append(failed, fmt.Errorf("save %s: %w", visible(f.Path), err))
			continue
		}
		v.say(fmt.Sprintf("saved    %s · %s\n", visible(path.Join(c.Out, strings.TrimPrefix(f.Path, workdir))), bytesText(n)))
	}
	return errors.Join(failed...)
}

// saveFile downloads one file. It is whole when its size is the one that the server states now: commands that came
// later may have changed what the call reported. A name that would leave the folder is refused by the root, a file
// that is there by O_EXCL.
func saveFile(ctx context.Context, api *client, root *os.Root, f openai.OutputFile) (int64, error) {
	name, ok := strings.CutPrefix(f.Path, workdir)
	if !ok || name == "" {
		return 0, fault.New(fault.Invalid, "it is not under %s", workdir)
	}
	at := "/v1/containers/" + f.ContainerID + "/files/" + f.FileID
	var stated openai.ContainerFile
	if err := api.get(ctx, at, &stated); err != nil {
		return 0, err
	}
	answer, err := api.do(ctx, http.MethodGet, at+"/content", "", nil)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return 0, err
		}
	}
	to, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return 0, fault.New(fault.Conflict, "it is there already, and nothing is overwritten").WithTry("another --out DIR")
	}
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(to, answer.Body)
	err = errors.Join(err, to.Close())
	if err == nil && n != stated.Bytes {
		err = fault.New(fault.Unavailable, "it has %d bytes and %d came", stated.Bytes, n)
	}
	if err != nil {
		root.Remove(name) // half a file must not look like a whole one
		return 0, err
	}
	return n, nil
}

// listFiles says what was produced and where to get it.
func (v *view) listFiles(api *asked, out string) {
	files := v.produced()
	for _, f := range files {
		v.say(fmt.Sprintf("file     %s · %s · %s\n", visible(f.Path), bytesText(f.Bytes), f.FileID))
	}
	if len(files) == 0 || out != "" {
		return
	}
	at := fmt.Sprintf("/v1/containers/%s/files/FILE_ID/content", files[0].ContainerID)
	if api.own {
		v.say("         --out DIR saves them; or hardshell serve, then GET " + at + "\n")
		return
	}
	v.say("         GET " + api.base + at + "\n")
}
