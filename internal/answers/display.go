package answers

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

// Amounts are requests and limits as Kubernetes quantities; nil (null) means not set or not known.
type Amounts struct {
	CPURequest    *string `json:"cpuRequest"`
	CPULimit      *string `json:"cpuLimit"`
	MemoryRequest *string `json:"memoryRequest"`
	MemoryLimit   *string `json:"memoryLimit"`
}

// Of returns the request and the limit of a resource.
func (a Amounts) Of(r recommender.Resource) (request, limit *string) {
	if r == recommender.Memory {
		return a.MemoryRequest, a.MemoryLimit
	}
	return a.CPURequest, a.CPULimit
}

// Quantities has one quantity per resource; nil (null) means not known or not measured.
type Quantities struct {
	CPU    *string `json:"cpu"`
	Memory *string `json:"memory"`
}

// QuantitiesOf formats the known amounts and leaves the others nil.
func QuantitiesOf(a [2]recommender.Amount, known [2]bool) (p Quantities) {
	for r, to := range [2]**string{recommender.CPU: &p.CPU, recommender.Memory: &p.Memory} {
		if known[r] {
			*to = new(recommender.Format(recommender.Resource(r), a[r]))
		}
	}
	return p
}

// Step is one rule that the recommender applied, with the amounts before and after it.
type Step = v1alpha1.Step

// AmountsOf formats a size as quantities.
func AmountsOf(size recommender.Size) Amounts {
	const cpu, memory = recommender.CPU, recommender.Memory
	return Amounts{
		CPURequest: quantity(cpu, size[cpu].Request), CPULimit: quantity(cpu, size[cpu].Limit),
		MemoryRequest: quantity(memory, size[memory].Request), MemoryLimit: quantity(memory, size[memory].Limit),
	}
}

// quantity returns nil for an amount that is not set.
func quantity(r recommender.Resource, amount recommender.Amount) *string {
	if amount == 0 {
		return nil
	}
	return new(recommender.Format(r, amount))
}

// StepOf formats a step of the recommender.
func StepOf(s recommender.Step) Step {
	return Step{
		Resource: s.Resource.String(), Name: s.Name, Before: recommender.Format(s.Resource, s.Before), After: recommender.Format(s.Resource, s.After), Reason: s.Reason,
	}
}

// InLine replaces tabs and line breaks by spaces, so that a text from the cluster cannot add lines or cells to a table.
func InLine(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("\t\n\v\f\r", r) {
			return ' '
		}
		return r
	}, text)
}

// Table has rows under a header. A cell is empty if there is no value to show.
type Table struct {
	// Header has the names of the columns, in capitals.
	Header []string
	// Rows are in display order. Each has as many cells as the header.
	Rows [][]string
	// OnlyWide are the columns that only -o wide shows.
	OnlyWide []string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Narrow returns the table without the OnlyWide columns.
func (t Table) Narrow() Table {
	out := Table{Rows: make([][]string, len(t.Rows))}
	for i, name := range t.Header {
		if slices.Contains(t.OnlyWide, name) {
			continue
		}
		out.Header = append(out.Header, name)
		for r, row := range t.Rows {
			out.Rows[r] = append(out.Rows[r], row[i])
		}
	}
	return out
}

// Readable rounds a quantity for display: memory to a tenth of its unit. CPU stays exact. A text that is not a quantity
// is returned unchanged.
func Readable(r recommender.Resource, exact string) string {
	quantity, err := workload.ParseQuantity(exact)
	if err != nil || r != recommender.Memory {
		return exact
	}
	bytes := float64(quantity.Value())
	if bytes < 0 {
		return "-" + readableBytes(-bytes)
	}
	return readableBytes(bytes)
}

// Cell returns a readable amount, or an empty string for nil.
func Cell(r recommender.Resource, exact *string) string {
	if exact == nil {
		return ""
	}
	return Readable(r, *exact)
}

// OrNone returns a readable amount, or "none" for nil.
func OrNone(r recommender.Resource, exact *string) string {
	return cmp.Or(Cell(r, exact), "none")
}

// units are the binary suffixes of Kubernetes quantities, each 1024 times the one before.
var units = [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}

// readableBytes formats bytes with one decimal, such as 1.5Gi.
func readableBytes(bytes float64) string {
	unit := 0
	for bytes >= 1024 && unit < len(units)-1 {
		bytes /= 1024
		unit++
	}
	return strconv.FormatFloat(float64(int64(bytes*10+0.5))/10, 'f', -1, 64) + units[unit]
}
