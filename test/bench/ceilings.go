package main

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ceilingsText says what benchmarks may cost.
//
//go:embed ceilings.txt
var ceilingsText string

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

// readCeilings from their text.
func readCeilings(text string) ([]ceiling, error) {
	var all []ceiling
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		c, err := ceilingOf(strings.Split(line, "|"))
		if err != nil {
			return nil, fmt.Errorf("ceilings.txt:%d: %w", n+1, err)
		}
		all = append(all, c)
	}
	return all, nil
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
