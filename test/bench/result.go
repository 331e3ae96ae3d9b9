package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
)

// result is one benchmark's line.
type result struct {
	// name without the prefix Benchmark and the number of processors.
	name string
	// units in the order of the line, and their values.
	units  []string
	values map[string]float64
}

// processors is the number of them at the end of a benchmark's name.
var processors = regexp.MustCompile(`-[0-9]+$`)

// parse reads a line of go test -bench; false: it is another line.
func parse(line string) (result, bool) {
	fields := strings.Fields(line)
	name, ok := strings.CutPrefix(line, "Benchmark")
	if !ok || len(fields) < 4 {
		return result{}, false
	}
	name, _, _ = strings.Cut(name, "\t")
	// The testing package writes spaces in names as underscores.
	name = strings.ReplaceAll(processors.ReplaceAllString(strings.TrimSpace(name), ""), "_", " ")
	r := result{name: name, values: map[string]float64{}}
	pairs := fields[2:]
	for i := 0; i+1 < len(pairs); i += 2 {
		value, err := strconv.ParseFloat(pairs[i], 64)
		if err != nil {
			return result{}, false
		}
		r.units, r.values[pairs[i+1]] = append(r.units, pairs[i+1]), value
	}
	return r, true
}

// measure runs the benchmarks of packages in a module. Their lines go to stderr as they come.
func measure(ctx context.Context, module, last string, more ...string) ([]result, error) {
	args := append([]string{"test", "-run", "^$", "-bench", ".", "-benchmem", "-benchtime", last, "-timeout", "1h"}, more...)
	return goTest(ctx, os.Stderr, module, args...)
}

func goTest(ctx context.Context, progress io.Writer, module string, args ...string) ([]result, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = module
	var out bytes.Buffer
	command.Stdout, command.Stderr = io.MultiWriter(&out, progress), progress
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), module, err, out.String())
	}
	return parseAll(out.String()), nil
}

func parseAll(text string) (all []result) {
	for line := range strings.Lines(text) {
		if r, ok := parse(strings.TrimRight(line, "\n")); ok {
			all = append(all, r)
		}
	}
	return all
}
