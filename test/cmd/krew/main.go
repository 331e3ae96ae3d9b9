// Command krew fills the template of the krew manifest: krew TEMPLATE VERSION URL ARCHIVE... writes to stdout. Archives are named
// kubectl-attune_OS_ARCH.tar.gz, and are found by users below the URL.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"text/template"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "krew:", err)
		os.Exit(1)
	}
}

// platform is one archive.
type platform struct{ OS, Arch, URI, SHA256 string }

var (
	version = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)
	archive = regexp.MustCompile(`^kubectl-attune_([a-z]+)_([a-z0-9]+)\.tar\.gz$`)
)

func run(out io.Writer, args []string) error {
	if len(args) < 4 {
		return errors.New("usage: krew TEMPLATE VERSION URL ARCHIVE...")
	}
	manifest := struct {
		Version   string
		Platforms []platform
	}{Version: args[1]}
	if !version.MatchString(manifest.Version) {
		return fmt.Errorf("version %q is none that krew takes: write e.g. v1.2.3", manifest.Version)
	}
	if !strings.HasPrefix(args[2], "https://") {
		return fmt.Errorf("%q is no address for downloads: it begins with https://", args[2])
	}
	for _, path := range args[3:] {
		name := archive.FindStringSubmatch(filepath.Base(path))
		if name == nil {
			return fmt.Errorf("%s is not named kubectl-attune_OS_ARCH.tar.gz", path)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		manifest.Platforms = append(manifest.Platforms, platform{
			OS: name[1], Arch: name[2], URI: strings.TrimSuffix(args[2], "/") + "/" + name[0], SHA256: hex.EncodeToString(sum[:]),
		})
	}
	text, err := template.ParseFiles(args[0])
	if err != nil {
		return err
	}
	return text.Option("missingkey=error").Execute(out, manifest)
}
