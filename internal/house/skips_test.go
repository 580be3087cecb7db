package house

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// skipsAllowed are the files that may skip a test without a name, and why.
var skipsAllowed = map[string]string{
	"internal/require/require.go":                 "it gives the names",
	"sandbox/rung_stage_linux_test.go":            "it says again what was skipped by name on another stage",
	"e2e/feature_test.go":                         "it gives the names where internal/require cannot be had",
	"internal/container/jail/egress_kill_test.go": "it is the process that another test starts and kills",
}

// TestSkipsHaveNames holds every skip to require.Feature, so that HARDSHELL_REQUIRE can turn it into a failure.
func TestSkipsHaveNames(t *testing.T) {
	used := map[string]bool{}
	for path, f := range goFiles(t) {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !skips(fn) {
				continue
			}
			if used[path] = true; skipsAllowed[path] == "" {
				t.Errorf("%s: %s skips a test without a name: say it with require.Feature", path, fn.Name.Name)
			}
		}
	}
	for path := range skipsAllowed {
		if !used[path] {
			t.Errorf("%s skips nothing: take it off the list", path)
		}
	}
}

// demanded are the names in what CI demands.
var demanded = regexp.MustCompile(`(?m)^(?:everybody|root)=([a-z0-9,-]+)$|everybody\+=,([a-z0-9-]+)|for program in ([a-z0-9 -]+);`)

// TestWhatCIDemandsIsNeeded: a name that no test and no check can be skipped under demands nothing.
func TestWhatCIDemandsIsNeeded(t *testing.T) {
	needed := map[string]bool{"root": true} // require.Root's
	for _, f := range goFiles(t) {
		if !slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return strings.HasSuffix(i.Path.Value, `internal/require"`) }) {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool { // a name may come by way of a table or a function of the test's own
			if text, ok := n.(*ast.BasicLit); ok {
				needed[strings.Trim(text.Value, "\"")] = true
			}
			return true
		})
	}
	needed["e2e"] = strings.Contains(text(t, "tools/check/e2e"), "skip e2e ")
	ci := text(t, ".ci/run")
	seen := 0
	for _, found := range demanded.FindAllStringSubmatch(ci, -1) {
		for name := range strings.FieldsFuncSeq(strings.Join(found[1:], " "), func(r rune) bool { return r == ',' || r == ' ' }) {
			if seen++; !needed[name] {
				t.Errorf(".ci/run demands %q, under which nothing can be skipped", name)
			}
		}
	}
	if seen < 15 {
		t.Errorf("only %d names found in .ci/run", seen)
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// skips says whether a function calls Skip of something that it, or a function in it, has as a test.
func skips(fn *ast.FuncDecl) bool {
	var tests []string
	ast.Inspect(fn, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncType); ok && f.Params != nil {
			for _, p := range f.Params.List {
				if isTest(p.Type) {
					for _, name := range p.Names {
						tests = append(tests, name.Name)
					}
				}
			}
		}
		return true
	})
	found := false
	ast.Inspect(fn, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			x, ok := s.X.(*ast.Ident)
			found = found || ok && strings.HasPrefix(s.Sel.Name, "Skip") && slices.Contains(tests, x.Name)
		}
		return !found
	})
	return found
}

// isTest says whether a type is testing.T, B, F or TB.
func isTest(e ast.Expr) bool {
	if star, ok := e.(*ast.StarExpr); ok {
		e = star.X
	}
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "testing" && slices.Contains([]string{"T", "B", "F", "TB"}, s.Sel.Name)
}
