package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
	"github.com/hardshell-dev/hardshell/internal/gateway"
	wire "github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// readJSON reads a body that must be one JSON object into v and returns its bytes. Unknown fields are ignored, as
// clients run ahead of servers; a known field of the wrong type is refused by name.
func readJSON(r *http.Request, v any) ([]byte, error) {
	raw, err := gateway.ReadBody(r)
	if err != nil {
		return nil, err
	}
	return raw, parseObject(raw, v)
}

// parseObject reads what must be one JSON object into v, as readJSON does.
func parseObject(raw []byte, v any) error {
	body := bytes.TrimLeft(raw, " \t\r\n")
	if len(body) == 0 {
		return fault.New(fault.Invalid, "The request has no body; it must be one JSON object.").WithCode("invalid_body")
	}
	if body[0] != '{' {
		return fault.New(fault.Invalid, "The request body must be one JSON object.").WithCode("invalid_body")
	}
	if err := json.Unmarshal(body, v); err != nil {
		return jsonFault(body, err)
	}
	return nil
}

// jsonFault says which field of a body has the wrong type, or where the body stops being JSON.
func jsonFault(body []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fault.Wrap(fault.Invalid, err, "The request body is not valid JSON: %s (at byte %d).", syntax.Error(), syntax.Offset).
			WithCode("invalid_body")
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		param := fieldPath(body, mismatch.Field)
		what, _, _ := strings.Cut(mismatch.Value, " ") // "number 1.5" would show the value
		return fault.Wrap(fault.Invalid, err, "%s must be %s, not %s.", subject(param), goTypeWord(mismatch), what).
			WithCode("invalid_type").WithParam(param)
	}
	return fault.Wrap(fault.Invalid, err, "The request body could not be read: %s.", err).WithCode("invalid_body")
}

func subject(param string) string {
	if param == "" {
		return "The request body"
	}
	return "The field " + param
}

// goTypeWord names the wanted type as JSON does.
func goTypeWord(e *json.UnmarshalTypeError) string {
	if e.Type == nil {
		return "something else"
	}
	switch k := e.Type.Kind().String(); {
	case k == "string" || k == "map" || k == "struct" || k == "slice":
		return map[string]string{"string": "a string", "map": "an object", "struct": "an object", "slice": "an array"}[k]
	case k == "bool":
		return "a boolean"
	case strings.HasPrefix(k, "int") || strings.HasPrefix(k, "uint"):
		return "an integer"
	case strings.HasPrefix(k, "float"):
		return "a number"
	}
	return e.Type.String()
}

// elements are the request's arrays whose elements have a shape of their own.
var elements = map[string]func() any{
	"input": func() any { return new(wire.Item) },
	"items": func() any { return new(wire.Item) },
	"tools": func() any { return new(wire.Tool) },
}

// fieldPath puts the index of the first bad element into a path such as "tools.type", which encoding/json gives
// without one.
func fieldPath(body []byte, field string) string {
	first, _, _ := strings.Cut(field, ".")
	element, ok := elements[first]
	if !ok {
		return field
	}
	var object map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(body, &object) != nil || json.Unmarshal(object[first], &list) != nil {
		return field
	}
	for i, raw := range list {
		var mismatch *json.UnmarshalTypeError
		if errors.As(json.Unmarshal(raw, element()), &mismatch) {
			return strings.TrimSuffix(fmt.Sprintf("%s[%d].%s", first, i, mismatch.Field), ".")
		}
	}
	return field
}

// page is a listing's query.
type page struct {
	limit int
	after string
	order string // asc | desc
}

func readPage(q url.Values) (page, error) {
	p := page{limit: 20, after: q.Get("after"), order: "desc"}
	if s := q.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > 100 {
			return p, fault.New(fault.Invalid, "limit must be a whole number from 1 to 100.").WithCode("invalid_value").WithParam("limit")
		}
		p.limit = n
	}
	if s := q.Get("order"); s != "" {
		if s != "asc" && s != "desc" {
			return p, fault.New(fault.Invalid, "order must be asc or desc.").WithCode("invalid_value").WithParam("order")
		}
		p.order = s
	}
	return p, nil
}

// queryBool reads a flag of the query; absent is false.
func queryBool(q url.Values, name string) (bool, error) {
	switch q.Get(name) {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, fault.New(fault.Invalid, "%s must be true or false.", name).WithCode("invalid_value").WithParam(name)
}
