package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	maxLines = 500 // a file holds one noun and fits a sitting
	root     = "../.."
)

// initAllowed names the rooms with an init function: the resident must take over before heavy packages start, and that
// of a cold run be begun.
var initAllowed = []string{"sandbox/resident/", "internal/cli/ahead/"}

// forbidden are words that say nothing about what a file or folder holds.
var forbidden = []string{"util", "utils", "common", "helper", "helpers", "misc", "manager", "impl", "base"}

func goFiles(t *testing.T) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && (name == "node_modules" || name == ".git" || name == "bin" || name == "dist") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files[filepath.ToSlash(rel)] = f
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 20 {
		t.Fatalf("only %d Go files found", len(files))
	}
	return files
}

func TestNoFileOutgrowsAReader(t *testing.T) {
	for path := range goFiles(t) {
		data, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(data, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, over %d: split it by noun", path, n, maxLines)
		}
	}
}

func TestNamesSaySomething(t *testing.T) {
	for path := range goFiles(t) {
		for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '_' || r == '.' }) {
			for _, word := range forbidden {
				if part == word {
					t.Errorf("%s: %q names nothing", path, word)
				}
			}
		}
	}
}

func TestNoInitButTheResidents(t *testing.T) {
	for path, f := range goFiles(t) {
		if slices.ContainsFunc(initAllowed, func(room string) bool { return strings.HasPrefix(path, room) }) {
			continue
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
				t.Errorf("%s has an init function: wire it in assemble.go", path)
			}
		}
	}
}

// TestPublicSignaturesNameNoInternalType walks the exported declarations of the public rooms and looks for
// selectors into packages under internal/.
func TestPublicSignaturesNameNoInternalType(t *testing.T) {
	public := 0
	for path, f := range goFiles(t) {
		if strings.HasSuffix(path, "_test.go") || !isPublic(path) {
			continue
		}
		public++
		internal := map[string]string{}
		for _, imp := range f.Imports {
			p := strings.Trim(imp.Path.Value, `"`)
			if !strings.HasPrefix(p, module+"/internal/") {
				continue
			}
			name := p[strings.LastIndex(p, "/")+1:]
			if imp.Name != nil {
				name = imp.Name.Name
			}
			internal[name] = p
		}
		for _, decl := range f.Decls {
			for _, node := range exportedTypes(decl) {
				ast.Inspect(node, func(n ast.Node) bool {
					if s, ok := n.(*ast.SelectorExpr); ok {
						if x, ok := s.X.(*ast.Ident); ok && internal[x.Name] != "" {
							t.Errorf("%s: an exported signature names %s.%s of %s", path, x.Name, s.Sel.Name, internal[x.Name])
						}
					}
					return true
				})
			}
		}
	}
	if public < 3 {
		t.Fatalf("only %d public files seen", public)
	}
}

func isPublic(path string) bool {
	for _, p := range []string{"sandbox/", "terminal/", "shellcall/", "fault/"} {
		if strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}

// exportedTypes returns the type expressions that a declaration shows to importers: parameters and results of
// exported functions and methods, exported fields, and exported variables and types.
func exportedTypes(decl ast.Decl) []ast.Node {
	var nodes []ast.Node
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() {
			nodes = append(nodes, d.Type)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if !s.Name.IsExported() {
					continue
				}
				st, ok := s.Type.(*ast.StructType)
				if !ok {
					nodes = append(nodes, s.Type)
					continue
				}
				for _, field := range st.Fields.List {
					if len(field.Names) == 0 || field.Names[0].IsExported() {
						nodes = append(nodes, field.Type)
					}
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && s.Type != nil {
					nodes = append(nodes, s.Type)
				}
			}
		}
	}
	return nodes
}
