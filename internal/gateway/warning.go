package gateway

import "net/http"

// WarningHeader tells what of a request is done otherwise than it says, a line each.
const WarningHeader = "X-Hardshell-Warning"

// Warn tells it in the head of the answer.
func Warn(w http.ResponseWriter, lines []string) {
	for _, line := range lines {
		w.Header().Add(WarningHeader, line)
	}
}
