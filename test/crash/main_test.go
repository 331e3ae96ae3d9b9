// Package killed runs the operator as users do, as a process, against a real API server with played nodes,
// and ends it with SIGKILL. What it shows in real time, test/loops shows at every single call, with a
// clock that is moved: there a killed operator is one whose calls are refused from a moment on and whose
// memory is thrown away. That leaves out what only a process has: informers that lag, queues, several
// workers, a start from nothing.
package crash

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

// program is the operator.
var program string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "killed:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	// All of them at once: what they do is wait.
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		return 1, err
	}
	project, err := cluster.ProjectDir()
	if err != nil {
		return 1, err
	}
	dir, err := os.MkdirTemp("", "attune-killed-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "attune")
	if err := deploy.Binary(context.Background(), project, "./cmd/attune", program); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
