package agent

import (
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/internal/container"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// TestKeysOfAnOutput: what stands on a shell_call_output beside the vendor's keys, and only where there is something to say.
func TestKeysOfAnOutput(t *testing.T) {
	w := newWorld(t, runs("many"), runs("none"), says("ok"))
	w.commands["none"] = printed("", "", 0)
	many := printed("", "", 0)
	many.result.Changed = []container.File{{ID: "cfile_1", ContainerID: "cntr_1", Path: "/mnt/data/out/a.csv", Bytes: 3, ContentType: "text/csv", Source: container.SourceAssistant}}
	many.result.ChangedMore, many.result.ChangedPartial = 5, true
	w.commands["many"] = many
	_, o := w.run(plainShell)
	var outputs []string
	for _, i := range o.Output {
		if i.Type == openai.TypeShellCallOutput {
			outputs = append(outputs, string(i.Raw))
		}
	}
	if len(outputs) != 2 {
		t.Fatalf("%d outputs", len(outputs))
	}
	for _, part := range []string{`"environment":{"type":"container_reference","container_id":"cntr_`, `"output_files_more":5`, `"output_files_partial":true`,
		`"file_id":"cfile_1","filename":"a.csv","path":"/mnt/data/out/a.csv","bytes":3,"content_type":"text/csv","source":"assistant"`} {
		if !strings.Contains(outputs[0], part) {
			t.Errorf("no %s in %s", part, outputs[0])
		}
	}
	if strings.Contains(outputs[1], "output_files") || !strings.Contains(outputs[1], `"environment"`) {
		t.Errorf("a command that made nothing: %s", outputs[1])
	}
}
