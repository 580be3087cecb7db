package agent

import (
	"encoding/json"
	"fmt"

	"github.com/hardshell-dev/hardshell/internal/wire/openai"
)

// object is a JSON object that is edited without losing the keys that this program does not know.
type object map[string]json.RawMessage

// readKeys reads an object's keys; anything but an object is an error.
func readKeys(raw json.RawMessage) (object, error) {
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return nil, fmt.Errorf("read JSON object: %w", err)
	}
	if o == nil {
		return nil, fmt.Errorf("read JSON object: null")
	}
	return o, nil
}

// set writes a key. It panics if v cannot be marshalled, which no value of this package does.
func (o object) set(key string, v any) {
	raw, err := openai.Marshal(v)
	if err != nil {
		panic("agent: set " + key + ": " + err.Error())
	}
	o[key] = raw
}

// inside edits the object under a key, if there is one.
func (o object) inside(key string, edit func(object)) {
	inner, err := readKeys(o[key])
	if err != nil {
		return
	}
	edit(inner)
	o[key] = inner.raw()
}

// raw is the object's JSON, with its keys in order.
func (o object) raw() json.RawMessage {
	raw, err := openai.Marshal(map[string]json.RawMessage(o))
	if err != nil {
		panic("agent: write JSON object: " + err.Error())
	}
	return raw
}

// item makes an item of the object.
func (o object) item() (openai.Item, error) {
	var i openai.Item
	err := i.UnmarshalJSON(o.raw())
	return i, err
}

// withKeys returns the item with some keys written anew.
func withKeys(i openai.Item, set map[string]any) (openai.Item, error) {
	o, err := readKeys(i.Raw)
	if err != nil {
		return i, err
	}
	for k, v := range set {
		o.set(k, v)
	}
	return o.item()
}
