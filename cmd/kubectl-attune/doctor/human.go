package doctor

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// width of the answer for people, in columns. Commands are longer where they have to be, so that they can be copied.
const width = 100

// indent is where sentences and commands begin: behind the result and the check.
const indent = 23

// Human writes a result in each paragraph, the command that mends it below, and at last how many there are of each kind.
// wide changes nothing.
func (a Answer) Human(w io.Writer, _ bool) error {
	for _, r := range a.Checks {
		for i, line := range wrapped(r.Sentence, width-indent) {
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

// wrapped breaks a sentence into lines of at most so many characters. A word that is longer has a line of its own.
func wrapped(text string, most int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > most:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
