// Package gemini holds the JSON shapes of Google's generateContent and streamGenerateContent, as far as a gateway sends
// and reads them. The Gemini API and Vertex AI have the same.
//
// It translates nothing. The shapes are those of the vendor's SDK (google.golang.org/genai v1.77.0); bytes are base64.
package gemini

import "encoding/json"

// Request is the body of both calls. The model stands in the path.
type Request struct {
	Contents    []Content   `json:"contents"`
	System      *Content    `json:"systemInstruction,omitempty"`
	Tools       []Tool      `json:"tools,omitempty"`
	ToolConfig  *ToolConfig `json:"toolConfig,omitempty"`
	Generation  *Generation `json:"generationConfig,omitempty"`
	ServiceTier string      `json:"serviceTier,omitempty"` // standard, flex or priority
}

// Content is what the role user or model says. A system instruction has no role.
type Content struct {
	Role  string `json:"role,omitempty"`
	Parts []Part `json:"parts"`
}

// Part is a union of all but its last two fields. Text may be empty where a signature came alone. A signature means
// something on the very part that it came on.
type Part struct {
	Text             *string           `json:"text,omitempty"`
	InlineData       *Blob             `json:"inlineData,omitempty"`
	FileData         *FileData         `json:"fileData,omitempty"`
	FunctionCall     *FunctionCall     `json:"functionCall,omitempty"`
	FunctionResponse *FunctionResponse `json:"functionResponse,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	Signature        string            `json:"thoughtSignature,omitempty"`
}

// Blob is bytes as base64.
type Blob struct {
	MIMEType string `json:"mimeType"`
	Data     string `json:"data"`
}

// FileData is bytes by their address.
type FileData struct {
	MIMEType string `json:"mimeType,omitempty"`
	URI      string `json:"fileUri"`
}

// FunctionCall is a call. Many models give it no id.
type FunctionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"` // an object
}

// FunctionResponse answers a call.
type FunctionResponse struct {
	ID       string   `json:"id,omitempty"`
	Name     string   `json:"name"`
	Response Response `json:"response"`
	Parts    []Part   `json:"parts,omitempty"` // inlineData; of models from Gemini 3 on
}

// Response is the object that a function's answer must be: one of its fields is set.
type Response struct {
	Output *string `json:"output,omitempty"`
	Error  *string `json:"error,omitempty"`
}

// Tool is a union; of it only functions are used.
type Tool struct {
	Functions []Function `json:"functionDeclarations"`
}

// Function declares one. The name begins with a letter or _, and has up to 64 letters, digits, _, ., : and -.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

// ToolConfig says which functions may be called.
type ToolConfig struct {
	Calling Calling `json:"functionCallingConfig"`
}

// Calling is AUTO, ANY or NONE; Allowed goes with ANY alone.
type Calling struct {
	Mode    string   `json:"mode"`
	Allowed []string `json:"allowedFunctionNames,omitempty"`
}

// Modes of function calling.
const (
	ModeAuto = "AUTO"
	ModeAny  = "ANY"
	ModeNone = "NONE"
)

// Generation is how the answer is wanted.
type Generation struct {
	MaxOutputTokens *int64          `json:"maxOutputTokens,omitempty"`
	Temperature     *float64        `json:"temperature,omitempty"`
	TopP            *float64        `json:"topP,omitempty"`
	MIMEType        string          `json:"responseMimeType,omitempty"`
	Schema          json.RawMessage `json:"responseJsonSchema,omitempty"`
	Thinking        *Thinking       `json:"thinkingConfig,omitempty"`
}

// Thinking has a level (MINIMAL, LOW, MEDIUM, HIGH) or a budget in tokens, never both.
type Thinking struct {
	Include bool   `json:"includeThoughts,omitempty"`
	Budget  *int64 `json:"thinkingBudget,omitempty"`
	Level   string `json:"thinkingLevel,omitempty"`
}

// Answer is a whole answer, or a piece of a streamed one. Error is set in what is none.
type Answer struct {
	Candidates []Candidate     `json:"candidates"`
	Feedback   *Feedback       `json:"promptFeedback"`
	Usage      *Usage          `json:"usageMetadata"` // of all so far: the last one counts
	Error      json.RawMessage `json:"error"`
}

// Candidate is an answer; we ask for one.
type Candidate struct {
	Content       Content `json:"content"`
	FinishReason  string  `json:"finishReason"`
	FinishMessage string  `json:"finishMessage"`
}

// Feedback says why a prompt was not answered at all.
type Feedback struct {
	BlockReason string `json:"blockReason"`
}

// Usage counts tokens. Prompt counts what came from a cache too.
type Usage struct {
	Prompt     int64 `json:"promptTokenCount"`
	ToolUse    int64 `json:"toolUsePromptTokenCount"`
	Cached     int64 `json:"cachedContentTokenCount"`
	Candidates int64 `json:"candidatesTokenCount"`
	Thoughts   int64 `json:"thoughtsTokenCount"`
}

// Finish reasons. A call of a function ends as STOP too.
const (
	FinishUnspecified     = "FINISH_REASON_UNSPECIFIED"
	FinishStop            = "STOP"
	FinishMaxTokens       = "MAX_TOKENS"
	FinishSafety          = "SAFETY"
	FinishRecitation      = "RECITATION"
	FinishLanguage        = "LANGUAGE"
	FinishOther           = "OTHER"
	FinishBlocklist       = "BLOCKLIST"
	FinishProhibited      = "PROHIBITED_CONTENT"
	FinishSPII            = "SPII"
	FinishMalformedCall   = "MALFORMED_FUNCTION_CALL"
	FinishUnexpectedCall  = "UNEXPECTED_TOOL_CALL"
	FinishTooManyCalls    = "TOO_MANY_TOOL_CALLS"
	FinishContinuation    = "CONTINUATION"
	FinishImageSafety     = "IMAGE_SAFETY"
	FinishImageProhibited = "IMAGE_PROHIBITED_CONTENT"
	FinishImageRecitation = "IMAGE_RECITATION"
)

// Models is a page of a list of models: the Gemini API's, or Vertex AI's.
type Models struct {
	Models          []Model `json:"models"`
	PublisherModels []Model `json:"publisherModels"`
	Next            string  `json:"nextPageToken"`
}

// Model is one of them; its name has a path before it.
type Model struct {
	Name    string   `json:"name"`
	Methods []string `json:"supportedGenerationMethods"`
}

// Text makes a part of words.
func Text(s string) Part { return Part{Text: &s} }
