// Command karpenter makes the folder OUT with the source of one version of Karpenter, which asks for no newer Go than the
// tests have: its releases ask for the newest patch of Go, of which the code has no need.
//
//	karpenter VERSION OUT
package main

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const module = "sigs.k8s.io/karpenter"

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: karpenter VERSION OUT")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "karpenter:", err)
		os.Exit(1)
	}
}

// asks is what a go.mod says about Go.
var asks = regexp.MustCompile(`(?m)^(go|toolchain) .*$`)

func run(version, out string) error {
	// The go command downloads and verifies the module, and fails then for the version of Go.
	answer, failed := exec.Command("go", "mod", "download", "-json", module+"@"+version).Output()
	var found struct{ Zip, Error string }
	if err := json.Unmarshal(answer, &found); err != nil || found.Zip == "" {
		return fmt.Errorf("downloading %s %s: %s", module, version, errors.Join(failed, err, errors.New(found.Error)))
	}
	archive, err := zip.OpenReader(found.Zip)
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for _, file := range archive.File {
		name, ok := strings.CutPrefix(file.Name, module+"@"+version+"/")
		if !ok || !filepath.IsLocal(name) || !strings.HasPrefix(name, "pkg/") && name != "go.sum" && name != "LICENSE" {
			continue
		}
		if err := unpack(file, filepath.Join(out, name)); err != nil {
			return err
		}
	}
	return writeModule(&archive.Reader, version, out)
}

// writeModule writes go.mod last: where it is, the rest is.
func writeModule(archive *zip.Reader, version, out string) error {
	file, err := archive.Open(module + "@" + version + "/go.mod")
	if err != nil {
		return err
	}
	defer file.Close()
	text, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	text = asks.ReplaceAllFunc(text, func(line []byte) []byte {
		if line[0] == 't' {
			return nil
		}
		return []byte("go 1.26.0")
	})
	return os.WriteFile(filepath.Join(out, "go.mod"), text, 0o600)
}

func unpack(file *zip.File, to string) error {
	from, err := file.Open()
	if err != nil {
		return err
	}
	defer from.Close()
	text, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o600)
}
