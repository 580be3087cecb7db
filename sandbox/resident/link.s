// The compiler takes a function without a body only where there is assembly: idle_linux.go has one.
