package openai

import (
	"encoding/json"

	"github.com/hardshell-dev/hardshell/fault"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

const (
	eventCreate = "response.create"
	eventSteer  = "response.steer"

	maxLane = 256 // characters of a stream_id
	maxSaid = 64  // characters that are repeated of a type that nobody knows
)

// readEvent reads a client's message: the body of a create request with a type. It is streamed, whatever it says of that:
// there is no other way here. lane is its stream_id, which a refusal repeats so that it reaches who waits for it.
func readEvent(text []byte) (req *wire.CreateRequest, lane string, err error) {
	var head struct {
		Type *string         `json:"type"`
		Lane json.RawMessage `json:"stream_id"`
	}
	if err := parseObject(text, &head); err != nil {
		return nil, "", err
	}
	if json.Unmarshal(head.Lane, &lane) != nil || len(lane) > maxLane {
		lane = ""
	}
	bad := func(code, param, format string, args ...any) *fault.Error {
		return fault.New(fault.Invalid, format, args...).WithCode(code).WithParam(param)
	}
	switch {
	case head.Type == nil:
		return nil, lane, bad("missing_required_parameter", "type", "A message needs a type; %q asks for a response.", eventCreate)
	case *head.Type == eventSteer:
		return nil, lane, bad("steering_not_supported", "type", "Responses are not steered here: send %q when this one has ended.", eventCreate)
	case *head.Type != eventCreate:
		said := []rune(*head.Type)
		return nil, lane, bad("unknown_event_type", "type", "There is no event %q; %q asks for a response.", string(said[:min(len(said), maxSaid)]), eventCreate)
	case len(head.Lane) > 0 && string(head.Lane) != "null":
		return nil, lane, bad("unsupported_parameter", "stream_id", "A connection has one response at a time here: there are no streams to name.").
			WithTry("another connection")
	}
	req = &wire.CreateRequest{}
	if err := parseObject(text, req); err != nil {
		return nil, lane, err
	}
	stream := true
	req.Stream, req.Raw = &stream, text
	return req, lane, nil
}
