package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ceilingsFile says what benchmarks may cost.
const ceilingsFile = "ceilings.txt"

// ceiling is what a benchmark may cost.
type ceiling struct {
	pkg, name string
	// times that it is run to be held to most of its unit.
	times int
	most  float64
	unit  string
	// promise is what the project says of it.
	promise string
}

// readCeilings reads the file.
func readCeilings(path string) ([]ceiling, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []ceiling
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c, err := ceilingOf(strings.Split(line, "|"))
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		all = append(all, c)
	}
	return all, lines.Err()
}

var errColumns = errors.New("not five columns: package | benchmark | times | at most | promised")

func ceilingOf(columns []string) (ceiling, error) {
	if len(columns) != 5 {
		return ceiling{}, errColumns
	}
	for i := range columns {
		columns[i] = strings.TrimSpace(columns[i])
	}
	c := ceiling{pkg: columns[0], name: columns[1], promise: columns[4]}
	var err error
	if c.times, err = strconv.Atoi(columns[2]); err != nil {
		return c, err
	}
	most, unit, _ := strings.Cut(columns[3], " ")
	c.unit = unit
	c.most, err = strconv.ParseFloat(most, 64)
	return c, err
}
