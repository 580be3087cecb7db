//go:build !profile

package main

func profiled() (stop func()) { return func() {} }
