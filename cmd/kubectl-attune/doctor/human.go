package doctor

import (
	"fmt"
	"io"

	"attune.io/attune/cmd/kubectl-attune/answers"
)

// indent is where sentences and commands begin: behind the result and the check.
const indent = 23

// Human writes a result in each paragraph, the command that mends it below, and at last how many there are of each kind.
// Commands are wider than a table where they have to be, so that they can be copied. wide changes nothing.
func (a Answer) Human(w io.Writer, _ bool) error {
	for _, r := range a.Checks {
		for i, line := range answers.Wrapped(r.Sentence, answers.MostColumns-indent) {
			head := ""
			if i == 0 {
				head = fmt.Sprintf("%-8s %-12s", r.Result, r.Check)
			}
			fmt.Fprintf(w, "%-*s%s\n", indent, head, line)
		}
		if r.Command != "" {
			fmt.Fprintf(w, "%*s$ %s\n", indent, "", r.Command)
		}
	}
	_, err := fmt.Fprintf(w, "\n%d ok, %d warning%s, %d problem%s, %d unknown\n", a.OK, a.Warnings, plural(a.Warnings), a.Problems, plural(a.Problems), a.Unknown)
	return err
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}
