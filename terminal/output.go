package terminal

import "strings"

// ToolOutput is what a tool answers: [FunctionOutput] or [McpOutput].
type ToolOutput interface {
	output()
	// Text is what the model reads.
	Text() string
}

// FunctionOutput answers a function call, a custom call or a local shell call.
type FunctionOutput struct {
	Content      string
	ContentItems []ContentItem
	Success      *bool // nil is not known

	Result *ExecResult // everything behind the content, of the command tools
}

// McpOutput answers an MCP call. Err is set when the call itself could not be served.
type McpOutput struct {
	Result CallToolResult
	Err    string
}

// CallToolResult is an MCP result.
type CallToolResult struct {
	Content           []ContentItem `json:"content"`
	StructuredContent any           `json:"structuredContent,omitempty"`
	IsError           bool          `json:"isError,omitempty"`
}

// ContentItem is one piece of content. Command tools give text.
type ContentItem struct {
	Type string `json:"type"` // "text"
	Text string `json:"text"`
}

func (FunctionOutput) output() {}
func (McpOutput) output()      {}

// Text is the content.
func (o FunctionOutput) Text() string { return o.Content }

// Text is the content's text.
func (o McpOutput) Text() string {
	var text strings.Builder
	text.WriteString(o.Err)
	for _, item := range o.Result.Content {
		text.WriteString(item.Text)
	}
	return text.String()
}

// answer makes the output that a payload is answered with.
func answer(i ToolInvocation, content string, success bool, result *ExecResult) ToolOutput {
	items := []ContentItem{{Type: "text", Text: content}}
	if _, ok := i.Payload.(McpPayload); ok {
		mcp := McpOutput{Result: CallToolResult{Content: items, IsError: !success}}
		if result != nil {
			mcp.Result.StructuredContent = *result
		}
		return mcp
	}
	return FunctionOutput{Content: content, ContentItems: items, Success: &success, Result: result}
}
