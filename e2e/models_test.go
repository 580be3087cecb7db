package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"go.yaml.in/yaml/v4"
)

// schema is as much of a schema as the descriptions of models use.
type schema struct {
	Ref        string            `yaml:"$ref"`
	Type       any               `yaml:"type"` // a word, or several
	Const      any               `yaml:"const"`
	Required   []string          `yaml:"required"`
	Properties map[string]schema `yaml:"properties"`
	Items      *schema           `yaml:"items"`
	MaxItems   int               `yaml:"maxItems"`
}

// specification reads the schemas of api/openapi.yaml, and which of them GET /v1/models answers with.
func specification(t *testing.T) (schemas map[string]schema, models schema) {
	t.Helper()
	raw, err := os.ReadFile("../api/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]struct {
			Get struct {
				Responses map[string]struct {
					Content map[string]struct{ Schema schema }
				}
			}
		}
		Components struct{ Schemas map[string]schema }
	}
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Components.Schemas, doc.Paths["/v1/models"].Get.Responses["200"].Content["application/json"].Schema
}

// faults says what of a value the schema does not have, or wants otherwise.
func faults(schemas map[string]schema, s schema, v any, at string) (wrong []string) {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		s = schemas[name]
	}
	types, ok := s.Type.([]any)
	if !ok {
		types = []any{s.Type}
	}
	kind := ""
	switch v := v.(type) {
	case nil:
		kind = "null"
	case string:
		kind = "string"
	case bool:
		kind = "boolean"
	case float64:
		kind = "integer"
	case []any:
		kind = "array"
		for _, e := range v {
			wrong = append(wrong, faults(schemas, *s.Items, e, at+"[]")...)
		}
	case map[string]any:
		kind = "object"
		for _, name := range s.Required {
			if _, ok := v[name]; !ok {
				wrong = append(wrong, at+"."+name+" is missing")
			}
		}
		for name, value := range v {
			p, ok := s.Properties[name]
			if !ok {
				wrong = append(wrong, at+"."+name+" is not described")
				continue
			}
			wrong = append(wrong, faults(schemas, p, value, at+"."+name)...)
		}
	}
	if s.Const != nil && !reflect.DeepEqual(s.Const, v) || s.Const == nil && !slices.Contains(types, any(kind)) {
		wrong = append(wrong, at+" is otherwise")
	}
	return wrong
}

// TestModelsAreServedAsTheyAreDescribed: the list is api/openapi.yaml's, the official client pages through it, and what is
// configured stands beside what the upstream lists.
func TestModelsAreServedAsTheyAreDescribed(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"object":"list","data":[{"id":"listed","object":"model","created":1700000000,"owned_by":"them"}]}`))
	}))
	defer upstream.Close()
	s := startWith(t, "[providers.own]\ntype = \"chat\"\nbase_url = \""+upstream.URL+"/v1\"\nmodels = [\"configured\"]\n"+
		"[providers.asked]\ntype = \"chat\"\nbase_url = \""+upstream.URL+"/v1\"\n", "OLLAMA_HOST=127.0.0.1:1") // nobody is there
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	schemas, list := specification(t)
	for path, want := range map[string]schema{"/v1/models": list, "/v1/models/asked/listed": {Ref: "#/components/schemas/Model"}} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+s.Key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var got any
		err = json.NewDecoder(res.Body).Decode(&got)
		res.Body.Close()
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, res.Status, err)
		}
		if wrong := faults(schemas, want, got, ""); len(wrong) > 0 {
			t.Errorf("%s answers %v: %q", path, got, wrong)
		}
	}
	var names []string
	pages := s.Client.Models.ListAutoPaging(ctx)
	for pages.Next() {
		names = append(names, pages.Current().ID)
	}
	slices.Sort(names)
	if want := []string{"asked/listed", "own/configured", "scripted/scripted"}; pages.Err() != nil || !slices.Equal(names, want) {
		t.Errorf("the client lists %q, %v; want %q", names, pages.Err(), want)
	}
	if one, err := s.Client.Models.Get(ctx, "scripted"); err != nil || one.ID != "scripted/scripted" {
		t.Errorf("one model: %+v, %v", one, err)
	}
	// As many stand-ins as described are taken, and one more is refused by name.
	most := schemas["CreateResponse"].Properties["models"].MaxItems
	for _, n := range []int{most, most + 1} {
		r := request("$ echo done")
		r.SetExtraFields(map[string]any{"models": slices.Repeat([]string{"scripted"}, n)})
		_, err := s.Client.Responses.New(ctx, r)
		var refused *openai.Error
		if n <= most && err != nil || n > most && (!errors.As(err, &refused) || refused.Param != "models") {
			t.Errorf("%d models beside the first: %v", n, err)
		}
	}
}
