package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Release is one release: what is built, where to, and with which programs.
type Release struct {
	Version, Ref, Project, Out string
	Registry, URL              string
	Helm, Cosign, Key          string
	// Platforms are those of the plugin; the Linux ones have an image.
	Platforms platforms

	// Commit and Time are those of Ref. Time is the only time in what is built, so that a second build is equal.
	Commit string
	Time   time.Time
}

// platforms are a flag: linux/amd64,linux/arm64.
type platforms []platform

func (p *platforms) String() string { return "" }

// Set implements flag.Value.
func (p *platforms) Set(text string) error {
	*p = nil
	for of := range strings.SplitSeq(text, ",") {
		i := slices.IndexFunc(supported, func(s platform) bool { return s.OS+"/"+s.Arch == of })
		if i < 0 {
			return fmt.Errorf("a release has no platform %q", of)
		}
		*p = append(*p, supported[i])
	}
	return nil
}

var versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// registries are names of a registry, with a path or without. GitHub accepts no capital letters, but owners may have some.
var registries = regexp.MustCompile(`^[a-z0-9.-]+(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

// complete checks the flags, and finds the commit.
func (r *Release) complete(ctx context.Context) error {
	if !versions.MatchString(r.Version) {
		return fmt.Errorf("version %q is not valid: write e.g. v0.1.0", r.Version)
	}
	if !strings.HasPrefix(r.URL, "https://") {
		return fmt.Errorf("address %q is not valid: it begins with https://", r.URL)
	}
	if !registries.MatchString(r.Registry) {
		return fmt.Errorf("registry %q is not valid: write e.g. ghcr.io/owner, in lower case", r.Registry)
	}
	if r.Out == "" {
		return fmt.Errorf("set --out to a directory for the files")
	}
	var err error
	if r.Out, err = filepath.Abs(r.Out); err != nil {
		return err
	}
	text, err := output(ctx, r.Project, nil, "git", "log", "-1", "--format=%H %ct", r.Ref)
	if err != nil {
		return err
	}
	var seconds int64
	if _, err := fmt.Sscanf(text, "%s %d", &r.Commit, &seconds); err != nil {
		return fmt.Errorf("commit of %s: %w", r.Ref, err)
	}
	r.Time = time.Unix(seconds, 0).UTC()
	return nil
}

// number is the version as charts have it, without v.
func (r Release) number() string { return strings.TrimPrefix(r.Version, "v") }

// downloads is the address below which users find the files.
func (r Release) downloads() string {
	return strings.TrimSuffix(r.URL, "/") + "/releases/download/" + r.Version
}

func (r Release) image() string { return r.Registry + "/attune" }
func (r Release) chart() string { return r.Registry + "/charts/attune" }

// export copies the files of the commit. What is not committed is not in a release.
func (r Release) export(ctx context.Context, dir string) error {
	archive := exec.CommandContext(ctx, "git", "archive", r.Commit)
	archive.Dir, archive.Stderr = r.Project, os.Stderr
	stream, err := archive.StdoutPipe()
	if err != nil {
		return err
	}
	extract := exec.CommandContext(ctx, "tar", "-x", "-C", dir)
	extract.Stdin, extract.Stderr = stream, os.Stderr
	if err := archive.Start(); err != nil {
		return err
	}
	if err := extract.Run(); err != nil {
		return fmt.Errorf("extracting commit %s: %w", r.Commit, err)
	}
	return archive.Wait()
}

// goBuild builds one program, equal in every directory.
func (r Release) goBuild(ctx context.Context, source, pkg, out string, on platform) error {
	const answers = "attune.io/attune/internal/answers"
	flags := fmt.Sprintf("-s -w -X %[1]s.version=%[2]s -X %[1]s.commit=%[3]s", answers, r.Version, r.Commit)
	_, err := output(ctx, source, on.environment(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", out, pkg)
	return err
}

// output runs a program and returns what it writes; an error has what it complains about.
func output(ctx context.Context, dir string, environment []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, complaints bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, append(os.Environ(), environment...), &out, &complaints
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), args[0], err, strings.TrimSpace(complaints.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

const checksums = "checksums.txt"

// writeChecksums writes the sums of all files as sha256sum does. The layout has its own, and signatures come later.
func (r Release) writeChecksums() error {
	entries, err := os.ReadDir(r.Out)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, entry := range entries {
		if !entry.Type().IsRegular() || entry.Name() == checksums {
			continue
		}
		sum, err := sumOf(filepath.Join(r.Out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%s  %s\n", sum, entry.Name())
	}
	return os.WriteFile(filepath.Join(r.Out, checksums), []byte(text.String()), 0o644)
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
