package gemini

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/llm"
	"github.com/hardshell-dev/hardshell/internal/llm/dialect"
	"github.com/hardshell-dev/hardshell/internal/llm/providertest"
	"github.com/hardshell-dev/hardshell/internal/llm/scripted"
	"github.com/hardshell-dev/hardshell/internal/llm/upstream"
	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// answers records what is asked, and answers nothing of use.
type answers struct{ asked []*http.Request }

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked = append(a.asked, r)
	return &http.Response{StatusCode: http.StatusBadRequest, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
}

// TestPlaces holds where each configuration asks, and with what.
func TestPlaces(t *testing.T) {
	const gone = "" // nothing may be asked
	token := Static{Value: "tok", Project: "own", Quota: "pays"}
	for _, tt := range []struct {
		name  string
		o     Options
		model string
		want  string
	}{
		{"a key", Options{}, "gemini-x", "generativelanguage.googleapis.com/v1beta/models/gemini-x key"},
		{"a model by its full name", Options{}, "models/gemini-x", "generativelanguage.googleapis.com/v1beta/models/gemini-x key"},
		{"a tuned model", Options{}, "tunedModels/x", "generativelanguage.googleapis.com/v1beta/tunedModels/x key"},
		{"another method", Options{}, "x:countTokens?", "generativelanguage.googleapis.com/v1beta/models/x%3AcountTokens%3F key"},
		{"another path", Options{}, "../files", "generativelanguage.googleapis.com/v1beta/models/..%2Ffiles key"},
		{"dots", Options{}, "..", gone},
		{"no name", Options{}, "", gone},
		{"express mode", Options{Location: "global"}, "gemini-x", "aiplatform.googleapis.com/v1beta1/publishers/google/models/gemini-x key"},
		{"a key and a project", Options{Project: "p", Location: "eu"}, "gemini-x", "aiplatform.eu.rep.googleapis.com/v1beta1/projects/p/locations/eu/publishers/google/models/gemini-x key"},
		{"credentials", Options{Source: token}, "gemini-x", "aiplatform.googleapis.com/v1beta1/projects/own/locations/global/publishers/google/models/gemini-x token of pays"},
		{"credentials and a project", Options{Source: token, Project: "p", Location: "us-central1"}, "gemini-x",
			"us-central1-aiplatform.googleapis.com/v1beta1/projects/p/locations/us-central1/publishers/google/models/gemini-x token of pays"},
		{"credentials without a project", Options{Source: Static{Value: "tok"}}, "gemini-x", gone},
		{"a model of another publisher", Options{Source: token}, "meta/llama", "aiplatform.googleapis.com/v1beta1/projects/own/locations/global/publishers/meta/models/llama token of pays"},
		{"a model of the own project", Options{Source: token}, "projects/own/locations/global/endpoints/7", "aiplatform.googleapis.com/v1beta1/projects/own/locations/global/endpoints/7 token of pays"},
		{"a model of another project", Options{Source: token}, "projects/theirs/locations/global/endpoints/7", gone},
		{"a way to another project", Options{Source: token}, "endpoints/../../../theirs", gone},
		{"dots in a publisher", Options{Source: token}, "../x", gone},
		{"an endpoint in express mode", Options{Location: "global"}, "endpoints/7", "aiplatform.googleapis.com/v1beta1/publishers/endpoints/models/7 key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION"} {
				t.Setenv(name, "")
			}
			seen := &answers{}
			tt.o.MaxTries, tt.o.Client = 1, &http.Client{Transport: seen}
			if tt.o.Source == nil {
				tt.o.APIKey = "sk-test"
			}
			p := New(tt.o)
			a := providertest.Collect(t, t.Context(), p, llm.Request{Model: tt.model, Items: []openai.Item{openai.UserText("a")}})
			if a.Err == nil {
				t.Fatal("no error")
			}
			got := ""
			for _, r := range seen.asked {
				got = strings.TrimSuffix(r.URL.Host+r.URL.EscapedPath(), ":streamGenerateContent")
				switch {
				case r.Header.Get("X-Goog-Api-Key") == "sk-test" && r.Header.Get("Authorization") == "":
					got += " key"
				case r.Header.Get("Authorization") == "Bearer tok":
					got += " token of " + r.Header.Get("X-Goog-User-Project")
				}
			}
			if got != tt.want {
				t.Errorf("asked %q, want %q (%v)", got, tt.want, a.Err)
			}
		})
	}
}

func TestPlaceOfTheEnvironment(t *testing.T) {
	t.Setenv("GOOGLE_CLOUD_PROJECT", "env-project")
	t.Setenv("GOOGLE_CLOUD_LOCATION", "europe-west4")
	if p := New(Options{}).place; p != (place{vertex: true, project: "env-project", location: "europe-west4"}) {
		t.Errorf("without a key: %+v", p)
	}
	if p := New(Options{Options: upstream.Options{APIKey: "k"}}).place; p != (place{}) {
		t.Errorf("with a key: %+v", p)
	}
	if p := New(Options{Options: upstream.Options{APIKey: "k"}, Location: "global"}).place; p != (place{vertex: true, location: "global"}) {
		t.Errorf("in express mode: %+v", p)
	}
}

// TestModels reads both kinds of lists, page by page.
func TestModels(t *testing.T) {
	pages := map[string]string{
		"/models?":                    `{"models":[{"name":"models/gemini-a","supportedGenerationMethods":["countTokens","generateContent"]},{"name":"models/embedding","supportedGenerationMethods":["embedContent"]}],"nextPageToken":"a b"}`,
		"/models?a b":                 `{"models":[{"name":"models/gemma-b","supportedGenerationMethods":["generateContent"]}]}`,
		"/publishers/google/models?":  `{"publisherModels":[{"name":"publishers/google/models/gemini-v"},{"name":"publishers/google/models/imagen-1"}],"nextPageToken":"2"}`,
		"/publishers/google/models?2": `{"publisherModels":[{"name":"publishers/google/models/gemini-w"}],"nextPageToken":""}`,
	}
	url := providertest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, pages[r.URL.Path+"?"+r.URL.Query().Get("pageToken")])
	}))
	for want, o := range map[string]Options{
		"gemini-a gemma-b":  {Options: upstream.Options{BaseURL: url, APIKey: "k"}},
		"gemini-v gemini-w": {Options: upstream.Options{BaseURL: url}, Project: "p", Source: Static{Value: "tok"}},
	} {
		models, err := New(o).Models(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range models {
			got = append(got, m.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	endless := providertest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"models":[{"name":"models/x","supportedGenerationMethods":["generateContent"]}],"nextPageToken":"again"}`)
	}))
	if models, err := New(Options{Options: upstream.Options{BaseURL: endless, APIKey: "k"}}).Models(t.Context()); err != nil || len(models) != maxPages {
		t.Errorf("a list without an end: %d models, %v", len(models), err)
	}
}

// TestSignaturesGoBack plays the turns of a model that thinks: the server refuses a signature that is not where it was.
func TestSignaturesGoBack(t *testing.T) {
	fake := &fakeServer{model: scripted.New(scripted.Options{})}
	p := New(Options{Options: upstream.Options{Name: "fake", BaseURL: providertest.Serve(t, fake), APIKey: "sk-test"}})
	t.Cleanup(p.Close)
	r := llm.Request{Model: "think", Items: []openai.Item{openai.UserText("go")}, Tools: []openai.Tool{providertest.Shell}, Shell: "shell"}
	for turn := range 3 {
		a := providertest.Collect(t, t.Context(), p, r)
		if a.Err != nil {
			t.Fatalf("turn %d: %v", turn, a.Err)
		}
		r.Items = append(r.Items, a.Items...)
		for _, c := range a.Calls() {
			r.Items = append(r.Items, openai.NewItem(openai.FunctionCallOutput{Type: openai.TypeFunctionCallOutput, CallID: c.CallID, Output: openai.OutputText("/mnt/data")}))
		}
		if len(a.Calls()) == 0 {
			r.Items = append(r.Items, openai.UserText("and now?"))
		}
	}
	calls, texts := 0, 0
	for _, c := range fake.last.Load().Contents {
		for _, part := range c.Parts {
			switch {
			case part.Signature == unsigned:
				t.Errorf("a call has lost its signature")
			case part.Signature != "" && part.FunctionCall != nil:
				calls++
			case part.Signature != "":
				texts++
			}
		}
	}
	if calls == 0 || texts == 0 {
		t.Errorf("%d calls and %d texts came back with their signatures", calls, texts)
	}
	// Another provider gets none of them.
	other := New(Options{Options: upstream.Options{Name: "other", BaseURL: "http://upstream.example", APIKey: "k"}})
	body, err := other.dialect.Body(r)
	if err != nil || strings.Contains(string(body), signature("text ")) {
		t.Errorf("another provider's signatures are sent on: %s, %v", body, err)
	}
}

// TestMalformedCallIsTriedAgain holds that a call that the model garbled costs another try, as long as nothing was said.
func TestMalformedCallIsTriedAgain(t *testing.T) {
	for said, want := range map[string]int{"": 2, `{"text":"so"}`: 1} {
		tries := 0
		url := providertest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if tries++; tries > 1 {
				providertest.WriteStream(w, `data: {"candidates":[{"content":{"parts":[{"text":"good"}]},"finishReason":"STOP"}]}`+"\n\n")
				return
			}
			providertest.WriteStream(w, `data: {"candidates":[{"content":{"parts":[`+said+`]},"finishReason":"MALFORMED_FUNCTION_CALL"}]}`+"\n\n")
		}))
		a := providertest.Collect(t, t.Context(), New(Options{Options: upstream.Options{BaseURL: url, APIKey: "k"}}), providertest.Hello())
		if tries != want || (a.Err == nil) != (want == 2) || want == 1 && fault.KindOf(a.Err) != fault.Upstream {
			t.Errorf("after %q: %d tries, %v", said, tries, a.Err)
		}
	}
}

// What a model can do is told by its own name, not by those of its publisher and its project.
func TestThinkingByTheModelsOwnName(t *testing.T) {
	for _, tt := range []struct {
		model, effort string
		budget        int64
		level         string
	}{
		{"gemini-2.5-flash", "none", 0, ""},
		{"gemini-2.5-pro", "none", 128, ""},
		{"publishers/google/models/Gemini-2.5-Pro", "none", 128, ""},
		{"projects/our-pro-project/locations/eu/publishers/google/models/gemini-2.5-flash", "none", 0, ""},
		{"gemini-3-flash", "none", 0, "MINIMAL"},
		{"publishers/google/models/GEMINI-3-PRO-preview", "none", 0, "LOW"},
		{"publishers/google/models/GEMINI-3-PRO-preview", "medium", 0, "HIGH"},
		{"projects/our-pro-project/locations/eu/publishers/google/models/gemini-3-flash", "none", 0, "MINIMAL"},
		{"projects/gemini-3-pro/locations/eu/publishers/google/models/gemini-3.1-pro", "medium", 0, "MEDIUM"},
	} {
		got := thinking(tt.model, dialect.Effort{Effort: tt.effort})
		if got.Level != tt.level || tt.level == "" && (got.Budget == nil || *got.Budget != tt.budget) {
			t.Errorf("%s, %s: level %q, budget %v", tt.model, tt.effort, got.Level, got.Budget)
		}
	}
}
