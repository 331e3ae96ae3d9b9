// Command mutants takes the mends of known findings out of the product, one at a time, and plays the worlds that should
// notice. It prints a table, and fails where a mutant survives or its text is not in the product any more. The tree is
// not touched: the compiler reads the changed files in place of the real ones.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	only := flag.String("run", "", "only the mutants whose finding matches this")
	flag.Parse()
	if err := run(context.Background(), regexp.MustCompile(*only)); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only *regexp.Regexp) error {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	root, err := filepath.Abs("..")
	if err != nil {
		return err
	}
	fmt.Println("| finding | taken out | found by | says |")
	fmt.Println("|---|---|---|---|")
	var wrong error
	if said, err := play(ctx, dir, mutant{}, everyWorld()); err != nil || said != "" {
		wrong = fmt.Errorf("the product as it is: %w: %s", errors.Join(err, errSaid), said)
	}
	for _, m := range mutants {
		if !only.MatchString(m.finding) {
			continue
		}
		said, err := m.survives(ctx, dir, root)
		fmt.Printf("| %s | %s | `%s` | %s |\n", m.finding, m.out, m.world, said)
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("%s: %w", m.finding, err))
		}
	}
	return wrong
}

var errSaid = errors.New("something does not hold")

// everyWorld that a mutant is to be found in.
func everyWorld() string {
	var names []string
	for _, m := range mutants {
		if _, name, world := strings.Cut(m.world, "/"); world && !strings.HasPrefix(m.world, "./") {
			names = append(names, name)
		}
	}
	return "^(TestWorlds|TestHazards|TestFollowing|TestStoppingKeepsTheSafetyNet)$/^(" + strings.Join(names, "|") + ")$"
}

// survives is what the long run says of a mutant, and an error unless it is what the mutant's row expects.
func (m mutant) survives(ctx context.Context, dir, root string) (string, error) {
	if err := m.overlay(dir, root); err != nil {
		return "", err
	}
	said, err := "", error(nil)
	if pkg, test, ofPackage := strings.Cut(m.world, " "); ofPackage {
		said, err = fails(ctx, dir, root, pkg, test)
	} else {
		said, err = play(ctx, dir, m, "^"+strings.ReplaceAll(m.world, "/", "$/^")+"$")
	}
	switch {
	case err != nil:
		return "", err
	case said == "":
		return "**nothing: it survives**", errors.New("it survives")
	case !strings.HasPrefix(said, m.says):
		return said, fmt.Errorf("%q does not say %q", said, m.says)
	}
	return m.says, nil
}

// overlay writes the changed files, and the list of them that the compiler reads.
func (m mutant) overlay(dir, root string) error {
	replace, texts := map[string]string{}, map[string]string{}
	for i, e := range m.edits {
		path := filepath.Join(root, e.file)
		if texts[path] == "" {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			texts[path] = string(raw)
		}
		if n := strings.Count(texts[path], e.old); n != 1 {
			return fmt.Errorf("%s has the text %q %d times, not once", e.file, e.old, n)
		}
		texts[path] = strings.Replace(texts[path], e.old, e.new, 1)
		replace[path] = filepath.Join(dir, fmt.Sprintf("%d.go", i))
		if err := os.WriteFile(replace[path], []byte(texts[path]), 0o600); err != nil {
			return err
		}
	}
	raw, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "overlay.json"), raw, 0o600)
}

// failed is what go test says of a test that ran and failed.
const failed = "FAIL"

// fails runs a test of one package with a mutant, and returns failed where it fails; empty: it passes.
func fails(ctx context.Context, dir, root, pkg, test string) (string, error) {
	run := exec.CommandContext(ctx, "go", "test", "-overlay", filepath.Join(dir, "overlay.json"), "-count=1", "-v", "-run", "^"+test+"$", pkg)
	run.Dir = root
	out, err := run.CombinedOutput()
	switch {
	case strings.Contains(string(out), "--- FAIL: "+test):
		return failed, nil
	case err != nil || !strings.Contains(string(out), "=== RUN   "+test):
		return "", fmt.Errorf("running %s: %w: %s", test, errors.Join(err, errSaid), out)
	}
	return "", nil
}

// violation is how a world's failure begins: its seed, the time and the invariant.
var violation = regexp.MustCompile(`seed \d+: \S+ ([a-z ,]+): (.*)`)

// played: a world was.
var played = regexp.MustCompile(`=== RUN   Test(Worlds|Hazards|Following|StoppingKeepsTheSafetyNet)/`)

// play worlds with a mutant, and return the first thing that does not hold; empty: all holds.
func play(ctx context.Context, dir string, m mutant, worlds string) (string, error) {
	binary := filepath.Join(dir, "sim.test")
	args := []string{"test", "-c", "-o", binary}
	if len(m.edits) > 0 {
		args = append(args, "-overlay", filepath.Join(dir, "overlay.json"))
	}
	if out, err := exec.CommandContext(ctx, "go", append(args, "./sim")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building it: %w: %s", err, out)
	}
	test := exec.CommandContext(ctx, binary, "-test.run", worlds, "-test.v", "-test.timeout", "10m", "-sim.longest", "2m")
	test.Dir = "sim"
	out, err := test.CombinedOutput()
	if !played.Match(out) {
		return "", fmt.Errorf("no world was played: %s", out)
	}
	if found := violation.FindStringSubmatch(string(out)); found != nil {
		return found[1], nil
	}
	if err != nil {
		return "", fmt.Errorf("playing it: %w: %s", err, out)
	}
	return "", nil
}
