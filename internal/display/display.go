// Package display is how amounts and the steps of a computation are written for people and scripts; its JSON is a contract.
package display

import (
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// Amounts are requests and limits as Kubernetes quantities; nil (null) is none, or not known.
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

// Step is one rule at work.
type Step = v1alpha1.Step

// AmountsOf writes a size as quantities.
func AmountsOf(size recommender.Size) Amounts {
	const cpu, memory = recommender.CPU, recommender.Memory
	return Amounts{
		CPURequest: quantity(cpu, size[cpu].Request), CPULimit: quantity(cpu, size[cpu].Limit),
		MemoryRequest: quantity(memory, size[memory].Request), MemoryLimit: quantity(memory, size[memory].Limit),
	}
}

// quantity is nil for an amount that is not set.
func quantity(r recommender.Resource, amount recommender.Amount) *string {
	if amount == 0 {
		return nil
	}
	text := recommender.Format(r, amount)
	return &text
}

// StepOf writes a step of the recommender's.
func StepOf(s recommender.Step) Step {
	return Step{
		Resource: s.Resource.String(), Name: s.Name, Before: recommender.Format(s.Resource, s.Before), After: recommender.Format(s.Resource, s.After), Reason: s.Reason,
	}
}

// InLine puts spaces in the place of what would end a line or a cell of a table, in a text that others may have written: it
// makes no lines.
func InLine(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("\t\n\v\f\r", r) {
			return ' '
		}
		return r
	}, text)
}
