// Package e2e drives the built binary with the official Go SDK. It is a module of its own, so that the SDK stays out
// of the product's build. Its sibling npm/ does the same with the official JavaScript SDK.
//
// HARDSHELL_BIN names the binary; `make e2e` builds it and sets that.
package e2e
