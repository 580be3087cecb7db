package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/hardshell-dev/hardshell/fault"
)

// prefix begins the variable of every key: server.tls.cert is HARDSHELL_SERVER__TLS__CERT.
const prefix = "HARDSHELL_"

// anyName stands for a name that the user chooses, in the list of keys.
const anyName = "NAME"

var secretType = reflect.TypeFor[Secret]()

// Key is one leaf of the configuration.
type Key struct {
	Name     string // providers.openai.base_url
	Variable string // HARDSHELL_PROVIDERS__OPENAI__BASE_URL
	Value    string // as TOML would show it; a secret is masked
	Source   string // default, the file with its line, or the variable
}

// variable returns the name of a key's variable.
func variable(key string) string {
	return prefix + strings.ToUpper(strings.NewReplacer(".", "__", "-", "_").Replace(key))
}

// leaf says whether a type is written as one value.
func leaf(t reflect.Type) bool {
	return t == secretType || t.Kind() != reflect.Struct && t.Kind() != reflect.Map
}

// fields returns the tagged fields of a struct type, in order.
func fields(t reflect.Type) (names []string, types []reflect.Type) {
	for f := range t.Fields() {
		if tag := f.Tag.Get("toml"); tag != "" && tag != "-" {
			names, types = append(names, tag), append(types, f.Type)
		}
	}
	return names, types
}

// schema lists every key of a type under a path, tables included, with NAME for what the user names.
func schema(t reflect.Type, path string) []string {
	var keys []string
	if path != "" {
		keys = append(keys, path)
		path += "."
	}
	switch {
	case leaf(t):
	case t.Kind() == reflect.Map:
		keys = append(keys, schema(t.Elem(), path+anyName)...)
	default:
		names, types := fields(t)
		for i, name := range names {
			keys = append(keys, schema(types[i], path+name)...)
		}
	}
	return keys
}

// walk calls do for every leaf of a value, in the order of the struct and by name in maps.
func walk(v reflect.Value, path string, do func(key string, v reflect.Value)) {
	join := func(name string) string {
		if path == "" {
			return name
		}
		return path + "." + name
	}
	switch t := v.Type(); {
	case leaf(t):
		do(path, v)
	case t.Kind() == reflect.Map:
		names := make([]string, 0, v.Len())
		for _, k := range v.MapKeys() {
			names = append(names, k.String())
		}
		slices.Sort(names)
		for _, name := range names {
			walk(v.MapIndex(reflect.ValueOf(name)), join(name), do)
		}
	default:
		for i := range t.NumField() {
			if tag := t.Field(i).Tag.Get("toml"); tag != "" && tag != "-" {
				walk(v.Field(i), join(tag), do)
			}
		}
	}
}

// assign sets the leaf under path to a text, and returns the key's full name. Path elements are matched without
// regard to case, and "-" in a user's name matches "_", because they come from a variable.
func assign(v reflect.Value, path []string, text string) (string, error) {
	t := v.Type()
	switch {
	case leaf(t):
		if len(path) > 0 {
			return "", errNoKey
		}
		return "", parse(v, text)
	case len(path) == 0:
		return "", errNoKey
	case t.Kind() == reflect.Map:
		name := userName(v, path[0], t.Elem() == secretType)
		elem := reflect.New(t.Elem()).Elem()
		if old := v.MapIndex(reflect.ValueOf(name)); old.IsValid() {
			elem.Set(old)
		}
		rest, err := assign(elem, path[1:], text)
		if err != nil {
			return "", err
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(t))
		}
		v.SetMapIndex(reflect.ValueOf(name), elem)
		return dotted(name, rest), nil
	}
	for i := range t.NumField() {
		tag := t.Field(i).Tag.Get("toml")
		if tag != "" && tag != "-" && strings.EqualFold(tag, path[0]) {
			rest, err := assign(v.Field(i), path[1:], text)
			return dotted(tag, rest), err
		}
	}
	return "", errNoKey
}

var errNoKey = fault.New(fault.Invalid, "there is no such key")

func dotted(name, rest string) string {
	if rest == "" {
		return name
	}
	return name + "." + rest
}

// userName finds the entry that a variable's element means, or makes its name: lower case, and with hyphens for HTTP
// headers.
func userName(m reflect.Value, element string, header bool) string {
	fold := strings.NewReplacer("-", "_")
	for _, k := range m.MapKeys() {
		if strings.EqualFold(fold.Replace(k.String()), element) {
			return k.String()
		}
	}
	name := strings.ToLower(element)
	if header {
		name = strings.ReplaceAll(name, "_", "-")
	}
	return name
}

// parse sets a leaf from the text of a variable.
func parse(v reflect.Value, text string) error {
	if v.Type() == secretType {
		v.Set(reflect.ValueOf(NewSecret(text)))
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fault.New(fault.Invalid, "%q is not true or false", text)
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, v.Type().Bits())
		if err != nil {
			return fault.New(fault.Invalid, "%q is not a whole number", text)
		}
		v.SetInt(n)
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fault.New(fault.Invalid, "%q is not a number", text)
		}
		v.SetFloat(n)
	case reflect.Slice:
		list := []string{}
		for part := range strings.SplitSeq(text, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
		v.Set(reflect.ValueOf(list))
	default:
		return fmt.Errorf("read a %s from a variable: no rule", v.Type())
	}
	return nil
}

// show writes a leaf as TOML does. A secret is masked.
func show(v reflect.Value) string {
	if s, ok := v.Interface().(Secret); ok {
		return strconv.Quote(s.String())
	}
	switch v.Kind() {
	case reflect.String:
		return strconv.Quote(v.String())
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = show(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v.Interface())
}

// suggest returns the key that an unknown one was probably meant to be, or "". Tables and leaves are candidates; a
// leaf written in the wrong table finds its own.
func suggest(unknown string) string {
	parts := strings.Split(unknown, ".")
	last := parts[len(parts)-1]
	best, least := "", 1+len(unknown)/4
	for _, key := range schema(reflect.TypeFor[Config](), "") {
		named := withNames(key, parts)
		if d := distance(unknown, named); d < least || d == least && best == "" {
			best, least = named, d
		}
	}
	if best != "" {
		return best
	}
	for _, key := range schema(reflect.TypeFor[Config](), "") {
		if strings.HasSuffix(key, "."+last) {
			return key
		}
	}
	return ""
}

// withNames puts the user's own names where a key of the schema says NAME.
func withNames(key string, parts []string) string {
	names := strings.Split(key, ".")
	for i := range names {
		if names[i] == anyName && i < len(parts) && slices.Equal(names[:i], parts[:i]) {
			names[i] = parts[i]
		}
	}
	return strings.Join(names, ".")
}

// distance is the number of single-character edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
