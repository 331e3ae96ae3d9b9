// Command tally ends a test run with what each failed test complained of first, and one line: how many tests passed and
// failed, and which were skipped and why. It reads what `go test -json` wrote, from the files in a folder.
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
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: tally FOLDER")
		os.Exit(2)
	}
	t := tally{}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "*.json"))
	for _, file := range files {
		err = errors.Join(err, t.addFile(file))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tally:", err)
		os.Exit(1)
	}
	for _, text := range t.complaints {
		fmt.Println(text)
	}
	fmt.Println(t.line())
}

// event is one line of `go test -json` (cmd/test2json).
type event struct {
	Action, Package, Test, Output string
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
	}
	switch {
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
