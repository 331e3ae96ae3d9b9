package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// row is one line of the table at the end: a container before and after, and how it came there.
type row struct {
	workload, pod, how string
	before, after      size
	// pod and container are the same as before
	note string
}

func table(rows []row) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WORKLOAD\tPOD\tHOW\tCPU REQUEST\tCPU LIMIT\tMEMORY REQUEST\tMEMORY LIMIT\tSEEN")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.workload, r.pod, r.how,
			change(milli(r.before.cpu), milli(r.after.cpu)), change(milli(r.before.cpuLimit), milli(r.after.cpuLimit)),
			change(mib(r.before.memory), mib(r.after.memory)), change(mib(r.before.memoryLimit), mib(r.after.memoryLimit)), r.note)
	}
	_ = w.Flush() // into memory
	return b.String()
}

func change(before, after string) string {
	if before == after {
		return before
	}
	return before + " -> " + after
}
