package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// ran is what one run of the tests on real kubelets has shown for a pair of versions.
type ran struct {
	Server   string `json:"server"`
	Kubelets string `json:"kubelets"`
	Date     string `json:"date"`
	Passed   int    `json:"passed"`
	Failed   int    `json:"failed"`
	Skipped  int    `json:"skipped"`
}

// The lines of a page between which the table is.
const begin, end = "<!-- versions: written by make compatibility -->\n", "<!-- end of versions -->\n"

// compatibility adds the results of a folder to the recorded runs, and writes their table into a page. The files are
// e2e-SERVER:KUBELETS.json of `make test-matrix`, and e2e.json of `make test` with the version plain. Of a pair the newest run
// is kept. A version that was never run is not in the table.
func compatibility(results, plain, record, page string) error {
	runs, err := readRuns(record)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(results, "e2e*.json"))
	if err != nil {
		return err
	}
	for _, file := range files {
		server, kubelets := plain, plain
		if pair, found := strings.CutPrefix(strings.TrimSuffix(filepath.Base(file), ".json"), "e2e-"); found {
			if server, kubelets, found = strings.Cut(pair, ":"); !found {
				continue
			}
		}
		counted, err := count(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		counted.Server, counted.Kubelets = server, kubelets
		if old, found := runs[server+":"+kubelets]; !found || old.Date <= counted.Date {
			runs[server+":"+kubelets] = counted
		}
	}
	recorded := sorted(runs)
	text, err := yaml.Marshal(recorded)
	if err != nil {
		return err
	}
	if err := os.WriteFile(record, text, 0o644); err != nil {
		return err
	}
	return intoPage(page, table(recorded))
}

func sorted(runs map[string]ran) []ran {
	return slices.SortedFunc(maps.Values(runs), func(a, b ran) int {
		return cmp.Or(strings.Compare(a.Server, b.Server), strings.Compare(a.Kubelets, b.Kubelets))
	})
}

func readRuns(record string) (map[string]ran, error) {
	text, err := os.ReadFile(record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var recorded []ran
	if err := yaml.UnmarshalStrict(text, &recorded); err != nil {
		return nil, fmt.Errorf("%s: %w", record, err)
	}
	runs := map[string]ran{}
	for _, run := range recorded {
		runs[run.Server+":"+run.Kubelets] = run
	}
	return runs, nil
}

// count reads the tests of a run, without subtests, and its day.
func count(file string) (ran, error) {
	t := tally{}
	if err := t.addFile(file); err != nil {
		return ran{}, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return ran{}, err
	}
	ended, skipped := 0, 0
	for _, tests := range t.took {
		ended += len(tests) // those that were skipped are not among them
	}
	for _, names := range t.skipped {
		skipped += stories(names)
	}
	failed := stories(t.failed)
	if ended == 0 {
		return ran{}, errors.New("has no test")
	}
	return ran{Date: info.ModTime().UTC().Format("2006-01-02"), Passed: ended - failed, Failed: failed, Skipped: skipped}, nil
}

// stories counts tests, without subtests and packages.
func stories(names []string) (n int) {
	for _, name := range names {
		if strings.HasPrefix(name, "Test") && !strings.Contains(name, "/") {
			n++
		}
	}
	return n
}

// table is Markdown.
func table(runs []ran) string {
	var b strings.Builder
	b.WriteString("| API server | kubelets | stories passed | failed | skipped | run on |\n|---|---|---|---|---|---|\n")
	for _, run := range runs {
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %s |\n", run.Server, run.Kubelets, run.Passed, run.Failed, run.Skipped, run.Date)
	}
	return b.String()
}

func intoPage(page, table string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has not the lines %q and %q", page, begin, end)
	}
	return os.WriteFile(page, []byte(before+begin+table+end+after), 0o644)
}
