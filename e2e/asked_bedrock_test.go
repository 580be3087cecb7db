package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
)

func said(role types.ConversationRole, blocks ...types.ContentBlock) types.Message {
	return types.Message{Role: role, Content: blocks}
}

func text(text string) types.ContentBlock { return &types.ContentBlockMemberText{Value: text} }

func use(id string, arguments map[string]any) types.ContentBlock {
	return &types.ContentBlockMemberToolUse{Value: types.ToolUseBlock{ToolUseId: aws.String(id), Name: aws.String("shell"), Input: document.NewLazyDocument(arguments)}}
}

func result(id, text string) types.ContentBlock {
	return &types.ContentBlockMemberToolResult{Value: types.ToolResultBlock{ToolUseId: aws.String(id), Status: types.ToolResultStatusSuccess,
		Content: []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberText{Value: text}}}}
}

func file(name string, format types.DocumentFormat, bytes string) types.ContentBlock {
	return &types.ContentBlockMemberDocument{Value: types.DocumentBlock{Format: format, Name: aws.String(name), Source: &types.DocumentSourceMemberBytes{Value: []byte(bytes)}}}
}

func cached(ttl types.CacheTTL) types.ContentBlock {
	return &types.ContentBlockMemberCachePoint{Value: types.CachePointBlock{Type: types.CachePointTypeDefault, Ttl: ttl}}
}

func reasoned(block types.ReasoningContentBlock) types.ContentBlock {
	return &types.ContentBlockMemberReasoningContent{Value: block}
}

func shell(description string, properties map[string]any, choice types.ToolChoice) *types.ToolConfiguration {
	spec := types.ToolSpecification{Name: aws.String("shell"), InputSchema: &types.ToolInputSchemaMemberJson{
		Value: document.NewLazyDocument(map[string]any{"type": "object", "properties": properties})}}
	if description != "" {
		spec.Description = aws.String(description)
	}
	return &types.ToolConfiguration{ToolChoice: choice, Tools: []types.Tool{&types.ToolMemberToolSpec{Value: spec}}}
}

// TestBedrockIsAskedAsItsOwnClientAsks sends the conversations of golden requests by the vendor's client: the same is on
// the wire.
func TestBedrockIsAskedAsItsOwnClientAsks(t *testing.T) {
	user, model := types.ConversationRoleUser, types.ConversationRoleAssistant
	ls := map[string]any{"commands": []string{"ls"}}
	commands := map[string]any{"commands": map[string]any{"type": "array"}}
	for golden, ask := range map[string]bedrockruntime.ConverseInput{
		"calls_and_outputs_in_turns": {
			Messages: []types.Message{said(user, text("a")), said(model, use("c1", ls)), said(user, result("c1", "one")),
				said(model, use("c2", ls)), said(user, result("c2", "two"))},
			ToolConfig: shell("d", commands, nil),
		},
		"sampling": {
			Messages:        []types.Message{said(user, text("a"))},
			InferenceConfig: &types.InferenceConfiguration{MaxTokens: aws.Int32(77), Temperature: aws.Float32(0.2), TopP: aws.Float32(1)},
		},
		"choice_required_one_at_a_time": {
			Messages:   []types.Message{said(user, text("a"))},
			ToolConfig: shell("d", commands, &types.ToolChoiceMemberAny{}),
		},
		"thinking_goes_back": {
			Messages: []types.Message{said(user, text("a")), said(model,
				reasoned(&types.ReasoningContentBlockMemberReasoningText{Value: types.ReasoningTextBlock{Text: aws.String("hm"), Signature: aws.String("s1")}}),
				reasoned(&types.ReasoningContentBlockMemberRedactedContent{Value: []byte{0, 0, 0}}), use("c1", map[string]any{})),
				said(user, result("c1", "(no output)"))},
			ToolConfig: shell("", map[string]any{}, nil),
		},
		"system_from_everywhere": {
			System: []types.SystemContentBlock{&types.SystemContentBlockMemberText{Value: "Be exact."}, &types.SystemContentBlockMemberText{Value: "one"},
				&types.SystemContentBlockMemberText{Value: "two"}, &types.SystemContentBlockMemberText{Value: "three"}},
			Messages: []types.Message{said(user, text("hi")), said(model, text("hello")), said(user, text("go on"))},
		},
		"cache_control_is_passed_on": {
			Messages: []types.Message{said(user, text("a"), cached(""), text("b"), cached(types.CacheTTLOneHour)), said(model, use("c1", ls)),
				said(user, result("c1", "x"), cached(""))},
			ToolConfig: shell("d", commands, nil),
		},
		"images_and_files": {
			Messages: []types.Message{said(user, text("see"), &types.ContentBlockMemberImage{Value: types.ImageBlock{Format: types.ImageFormatJpeg,
				Source: &types.ImageSourceMemberBytes{Value: []byte{0, 0, 0}}}},
				file("a [1]", types.DocumentFormatPdf, "%PDF-"), file("a [2]", types.DocumentFormatTxt, "hello"))},
		},
	} {
		t.Run(golden, func(t *testing.T) {
			r := recording(t, "bedrock", "whole")
			ask.ModelId = aws.String("anthropic.claude-sonnet-4-5-v1:0")
			if _, err := bedrock(r).Converse(t.Context(), &ask); err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile("../internal/llm/bedrock/testdata/requests/" + golden + ".out.json")
			if err != nil {
				t.Fatal(err)
			}
			var theirs, ours any
			if err := errors.Join(json.Unmarshal(r.sent, &theirs), json.Unmarshal(want, &ours)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(theirs, ours) {
				t.Errorf("the vendor's client sends\n%s\nwe send\n%s", r.sent, want)
			}
			if !strings.HasPrefix(r.path, "/model/anthropic.claude-sonnet-4-5-v1%3A0/converse") {
				t.Errorf("it is sent to %s", r.path)
			}
		})
	}
}
