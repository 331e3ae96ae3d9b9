package output_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/cmd/kubectl-attune/output"
	"attune.io/attune/internal/answers"
)

// A table that is too wide gets its sentences under the rows, then headers in two lines, then a smaller gap. A table
// that fits, or that may be wide, does not change.
func TestTablesFit(t *testing.T) {
	sentence := "quota requests of namespace shop has no room for 200m more, and nothing that could be lowered makes room for it"
	of := answers.Table{Header: []string{"POLICY", "REASON", "WHY"}}
	of.Add("shop/api", "Quota", sentence)
	of.Add("shop/web", "NoData", "")
	assert.Equal(t, `POLICY     REASON
shop/api   Quota
    quota requests of namespace shop has no room for 200m more, and nothing that could be lowered
    makes room for it
shop/web   NoData
    -
`, output.Text(of, false))
	assert.Contains(t, output.Text(of, true), "Quota    "+sentence)
	of.Rows = [][]string{{"shop/api", "Quota", "no room"}}
	assert.Equal(t, "POLICY     REASON   WHY\nshop/api   Quota    no room\n", output.Text(of, false))

	of.OnlyWide = []string{"REASON"}
	assert.Equal(t, "POLICY     WHY\nshop/api   no room\n", output.Text(of, false), "a column of -o wide")
	assert.Equal(t, "POLICY     REASON   WHY\nshop/api   Quota    no room\n", output.Text(of, true))

	of = answers.Table{Header: []string{"POD", "CPU PEAK", "AS IT IS", "OTHER"}}
	of.Add(strings.Repeat("p", 65), "800m", "-", "1234567890")
	head, _, _ := strings.Cut(output.Text(of, false), strings.Repeat("p", 65))
	assert.Equal(t, "POD"+strings.Repeat(" ", 65)+"CPU PEAK   AS IT IS   OTHER\n", head, "it fits")
	of.Rows[0][0] = strings.Repeat("p", 75)
	head, _, _ = strings.Cut(output.Text(of, false), of.Rows[0][0])
	assert.Equal(t, []string{"POD CPU AS OTHER", "PEAK IT IS", ""}, squeezed(head))
	of.Rows[0][0] = strings.Repeat("p", 200)
	assert.Contains(t, output.Text(of, false), of.Rows[0][0]+"  800m", "what cannot fit is written with less room")
}

func squeezed(text string) (lines []string) {
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

func TestWrapped(t *testing.T) {
	for _, most := range []int{1, 5, 20, 96} {
		text := "ein Wort, übergroß, and a word that is longer"
		lines := output.Wrapped(text, most)
		assert.Equal(t, text, strings.Join(lines, " "))
		for _, line := range lines {
			assert.True(t, utf8.RuneCountInString(line) <= most || !strings.Contains(line, " "), line)
		}
	}
}
