package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// lowest is the percentage below which a package is named.
const lowest = 60

// share counts statements.
type share struct{ covered, all int }

func (s share) percent() float64 { return 100 * float64(s.covered) / float64(max(s.all, 1)) }

// coverage is the share of each package's statements that its own tests execute.
type coverage map[string]share

// readCoverage of the packages that the folder's file product names, from the folder's profiles.
func readCoverage(folder string) (coverage, error) {
	packages, err := os.ReadFile(filepath.Join(folder, "product"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	files, globErr := filepath.Glob(filepath.Join(folder, "*.cover"))
	c := coverage{}
	for _, file := range files {
		profile, readErr := os.ReadFile(file)
		err = errors.Join(err, readErr, c.add(string(profile), strings.Fields(string(packages))))
	}
	return c, errors.Join(err, globErr)
}

// add a profile. Its lines are name.go:line.column,line.column statements count. Generated code does not count.
func (c coverage) add(profile string, packages []string) error {
	for line := range strings.Lines(profile) {
		if strings.HasPrefix(line, "mode:") {
			continue
		}
		file, block, found := strings.Cut(line, ":")
		var span string
		var statements, count int
		if _, err := fmt.Sscan(block, &span, &statements, &count); err != nil || !found {
			return fmt.Errorf("%q is not a line of a coverage profile: %w", line, err)
		}
		name := path.Dir(file)
		if strings.HasPrefix(path.Base(file), "zz_generated") || !slices.Contains(packages, name) {
			continue
		}
		s := c[name]
		s.all += statements
		if count > 0 {
			s.covered += statements
		}
		c[name] = s
	}
	return nil
}

func (c coverage) lines() []string {
	if len(c) == 0 {
		return nil
	}
	var total share
	var low []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		total.covered, total.all = total.covered+c[name].covered, total.all+c[name].all
		if c[name].percent() < lowest {
			low = append(low, fmt.Sprintf("%s %.0f%%", strings.TrimPrefix(name, "attune.io/attune/"), c[name].percent()))
		}
	}
	text := fmt.Sprintf("Coverage: each package's own tests execute %.1f%% of the product's statements", total.percent())
	if len(low) > 0 {
		text += fmt.Sprintf(". Below %d%%: %s", lowest, strings.Join(low, ", "))
	}
	return []string{text}
}
