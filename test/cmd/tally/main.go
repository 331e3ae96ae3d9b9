// Command tally ends a test run. It prints the first errors of each failed test, the coverage of the product by the unit
// tests if it was measured, the minutes of each tier and the slowest tests. The last line says how many tests passed and failed, and which were
// skipped and why. With compatibility, it writes what the tests on real kubelets have shown for versions of Kubernetes into a
// page of the documentation. It reads a folder that the Makefile fills:
//
//   - *.json: the output of `go test -json`
//   - *.cover: profiles of `go test -coverprofile`, and product: the packages that count, one in a line
//   - seconds: lines of a tier's name and its seconds
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) == 6 && os.Args[1] == "compatibility" {
		if err := compatibility(os.Args[2], os.Args[3], os.Args[4], os.Args[5]); err != nil {
			fmt.Fprintln(os.Stderr, "tally:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: tally FOLDER, or tally compatibility FOLDER VERSION RECORD PAGE")
		os.Exit(2)
	}
	t := tally{}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.json"))
	for _, file := range files {
		err = errors.Join(err, t.addFile(file))
	}
	covered, coverErr := readCoverage(os.Args[1])
	minutes, minutesErr := readMinutes(filepath.Join(os.Args[1], "seconds"))
	if err := errors.Join(err, coverErr, minutesErr); err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	for _, text := range slices.Concat(t.complaints, covered.lines(), minutes, t.slowest()) {
		fmt.Println(text)
	}
	fmt.Println(t.line())
}

// event is one line of `go test -json` (cmd/test2json).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// tally of the tests of all packages; subtests count, too.
type tally struct {
	passed int
	failed []string
	// complaints are what each failed test complained of first.
	complaints []string
	// failedIn are the packages of failed tests.
	failedIn map[string]bool
	// skipped tests by the reason that they gave.
	skipped map[string][]string
	// said is what each test that runs has printed.
	said map[string][]string
	// took are the seconds of tests by their package. Subtests are part of their test.
	took map[string][]timed
	// cached are the packages whose results are those of an earlier run.
	cached map[string]bool
}

// timed is a test and its seconds.
type timed struct {
	test    string
	seconds float64
}

func (t *tally) addFile(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	return t.add(file)
}

func (t *tally) add(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if err := json.Unmarshal(line, &e); err != nil {
				return fmt.Errorf("no line of go test -json: %q: %w", line, err)
			}
			t.note(e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (t *tally) note(e event) {
	name := e.Package + "." + e.Test
	if t.said == nil {
		t.said, t.skipped, t.failedIn = map[string][]string{}, map[string][]string{}, map[string]bool{}
		t.took, t.cached = map[string][]timed{}, map[string]bool{}
	}
	if (e.Action == "pass" || e.Action == "fail") && e.Test != "" && !strings.Contains(e.Test, "/") {
		t.took[e.Package] = append(t.took[e.Package], timed{e.Test, e.Elapsed})
	}
	switch {
	case e.Action == "output" && e.Test == "" && strings.HasPrefix(e.Output, "ok") && strings.Contains(e.Output, "(cached)"):
		t.cached[e.Package] = true
	case e.Action == "fail" && e.Test == "" && !t.failedIn[e.Package]:
		t.failed = append(t.failed, e.Package) // none of its tests: it could not be built, or ended early
	case e.Test == "":
	case e.Action == "output":
		t.said[name] = append(t.said[name], e.Output)
		return
	case e.Action == "pass":
		t.passed++
	case e.Action == "fail":
		t.failed, t.failedIn[e.Package] = append(t.failed, e.Test), true
		if text := complaint(t.said[name]); text != "" {
			t.complaints = append(t.complaints, e.Test+" failed:\n"+text)
		}
	case e.Action == "skip":
		why := reason(t.said[name])
		t.skipped[why] = append(t.skipped[why], e.Test)
	default:
		return
	}
	delete(t.said, name)
}

// reason is what a skipped test said last, without the place in its source.
func reason(said []string) string {
	why := "no reason given"
	for _, line := range said {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") || line == "" {
			continue
		}
		if _, after, found := strings.Cut(line, ".go:"); found {
			if _, text, found := strings.Cut(after, ": "); found {
				line = text
			}
		}
		why = line
	}
	return why
}

const (
	// mostComplaints bounds the lines that a failed test is quoted with, longestComplaint each of them, in bytes: the log of
	// the test itself has the rest.
	mostComplaints, longestComplaint = 24, 300
)

// complaint is what a failed test complained of first: the blocks of testify from Error to Test, and panics. Empty: the test
// said nothing of that kind, as one does whose subtests failed.
func complaint(said []string) string {
	var lines []string
	within := false
	for _, line := range said {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "Error:"), strings.HasPrefix(text, "panic:"), strings.HasPrefix(text, "Messages:"):
			within = !strings.HasPrefix(text, "Messages:")
			lines = append(lines, text)
		case strings.HasPrefix(text, "Test:"):
			within = false
		case within && text != "":
			lines = append(lines, text)
		}
		if len(lines) == mostComplaints {
			break
		}
	}
	for i, line := range lines {
		lines[i] = "    " + line[:min(len(line), longestComplaint)]
	}
	return strings.Join(lines, "\n")
}

// line sums up.
func (t *tally) line() string {
	n := 0
	var why []string
	for _, reason := range slices.Sorted(maps.Keys(t.skipped)) {
		tests := t.skipped[reason]
		n += len(tests)
		why = append(why, fmt.Sprintf("%s (%s)", strings.Join(tests, ", "), reason))
	}
	text := fmt.Sprintf("%d passed, %d failed, %d skipped", t.passed, len(t.failed), n)
	if len(t.failed) > 0 {
		text += "; failed: " + strings.Join(t.failed, ", ")
	}
	if n > 0 {
		text += "; skipped: " + strings.Join(why, "; ")
	}
	return text
}
