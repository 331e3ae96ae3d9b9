package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

// mostSlow bounds the tests that are named as slow.
const mostSlow = 10

// slowest names the tests that took longest in this run. Packages with cached results have not run.
func (t *tally) slowest() []string {
	var tests []timed
	for _, of := range slices.Sorted(maps.Keys(t.took)) {
		if t.cached[of] {
			continue
		}
		for _, test := range t.took[of] {
			tests = append(tests, timed{strings.TrimPrefix(of, "attune.io/attune/") + "." + test.test, test.seconds})
		}
	}
	slices.SortStableFunc(tests, func(a, b timed) int { return cmp.Compare(b.seconds, a.seconds) })
	lines := []string{fmt.Sprintf("Slowest tests (%d packages cached):", len(t.cached))}
	for _, test := range tests[:min(len(tests), mostSlow)] {
		lines = append(lines, fmt.Sprintf("    %6.1fs %s", test.seconds, test.test))
	}
	return lines
}

// readMinutes of each tier, in the order in which the tiers ended.
func readMinutes(path string) ([]string, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var tiers []string
	for line := range strings.Lines(string(raw)) {
		var name string
		var seconds float64
		if _, err := fmt.Sscanf(line, "%s %f", &name, &seconds); err != nil {
			return nil, fmt.Errorf("%s: %q is not a name and seconds: %w", path, line, err)
		}
		tiers = append(tiers, fmt.Sprintf("%s %.1f", name, seconds/60))
	}
	return []string{"Minutes: " + strings.Join(tiers, ", ")}, nil
}
