package cluster

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// run runs cmd; an error holds what it printed.
func run(cmd *exec.Cmd) error {
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, strings.TrimSpace(string(output)))
	}
	return nil
}
