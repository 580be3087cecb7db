// Package house holds the tests that keep the house as its plan draws it: which room may import which, what a public
// signature may name, that every room says what it is for, and that no file outgrows a reader. It has no code.
package house
