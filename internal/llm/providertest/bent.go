package providertest

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
)

// odd are the values that no field expects all of.
var odd = []any{nil, true, -1.5, "", "odd", []any{}, []any{"odd"}, map[string]any{}, map[string]any{"type": "odd"}}

// bent yields the variants of a JSON value that have one thing in them replaced by something odd, or taken away.
func bent(v any) iter.Seq[any] {
	return func(yield func(any) bool) {
		for _, o := range odd {
			if !yield(o) {
				return
			}
		}
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				other := maps.Clone(v)
				delete(other, key)
				if !yield(other) {
					return
				}
				for b := range bent(v[key]) {
					other := maps.Clone(v)
					other[key] = b
					if !yield(other) {
						return
					}
				}
			}
		case []any:
			for i := range v {
				if !yield(slices.Delete(slices.Clone(v), i, i+1)) || !yield(slices.Insert(slices.Clone(v), i, v[i])) {
					return
				}
				for b := range bent(v[i]) {
					other := slices.Clone(v)
					other[i] = b
					if !yield(other) {
						return
					}
				}
			}
		}
	}
}

// bentCases are the cases that a case becomes by one thing in its request that is bent, as far as the door would let
// them through.
func bentCases(raw []byte) iter.Seq2[requestCase, []byte] {
	return func(yield func(requestCase, []byte) bool) {
		var all map[string]json.RawMessage
		var request any
		if json.Unmarshal(raw, &all) != nil || json.Unmarshal(all["request"], &request) != nil {
			return
		}
		for b := range bent(request) {
			text, err := json.Marshal(b)
			if err != nil {
				continue
			}
			all["request"] = text
			whole, err := json.Marshal(all)
			if err != nil {
				continue
			}
			var c requestCase
			if json.Unmarshal(whole, &c) == nil && c.Request.Model != "" && !yield(c, text) {
				return
			}
		}
	}
}
