// Command scoreboard prints what every algorithm that sizes containers does on every trace of a folder: make backtest.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	folder := flag.String("traces", "", "folder with traces, NAME.csv.gz; without it, or where it is absent, a trace of the project's own")
	only := flag.Bool("profiles", false, "print only the table of the profiles")
	flag.Parse()
	if err := run(*folder, *only); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(folder string, onlyProfiles bool) error {
	empty, write := newBoard, (*board).write
	if onlyProfiles {
		empty, write = profileBoard, (*board).profiles
	}
	traces, err := filepath.Glob(filepath.Join(folder, "*.csv.gz"))
	if err != nil {
		return err
	}
	if folder == "" || len(traces) == 0 {
		fmt.Printf("No traces in %q: this is the trace of the project's own, which proves nothing but that the program runs.\n", folder)
		b, err := empty("synthetic")
		if err != nil {
			return err
		}
		for _, s := range synthetic(40) {
			b.play(s)
		}
		return write(b, os.Stdout)
	}
	for _, trace := range traces {
		b, err := boardOf(trace, empty)
		if err != nil {
			return err
		}
		if err := write(b, os.Stdout); err != nil {
			return err
		}
	}
	return nil
}
