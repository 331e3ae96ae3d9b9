// Package explain writes down what a container is recommended and why, for programs and for people. It
// decides nothing: every amount and every sentence comes from the recommender.
package explain

import (
	"cmp"
	"slices"

	"attune.io/attune/internal/display"
	"attune.io/attune/recommender"
)

// Explanation is the answer of kubectl attune explain; its JSON is a contract.
type Explanation struct {
	// Workload is nil where files were explained.
	Workload   *Workload   `json:"workload,omitempty"`
	Containers []Container `json:"containers"`
}

// Workload says whose containers are explained, and under what.
type Workload struct {
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Policy    string `json:"policy"`
	Mode      string `json:"mode"`
}

// Container is one container's recommendation and how it came about.
type Container struct {
	Name string `json:"name"`
	// Confidence from 0 to 1.
	Confidence float64 `json:"confidence"`
	// DataPoints are the steps of history with data.
	DataPoints int `json:"dataPoints"`
	// Current is what the container has, Target where it is heading, Next what would be applied now.
	Current Amounts `json:"current"`
	Target  Amounts `json:"target"`
	Next    Amounts `json:"next"`
	Holds   []Hold  `json:"holds"`
	Steps   []Step  `json:"steps"`
	// Pods are those that run, each with its own next step; none where files were explained.
	Pods []Pod `json:"pods,omitempty"`
}

// Pod is one running pod's step towards the target.
type Pod struct {
	Name    string  `json:"name"`
	Current Amounts `json:"current"`
	Next    Amounts `json:"next"`
	Holds   []Hold  `json:"holds"`
}

// Amounts and Step are shown as everywhere.
type (
	Amounts = display.Amounts
	Step    = display.Step
)

// Hold says why a resource has no target or is left as it is.
type Hold struct {
	// Resource: cpu or memory.
	Resource string `json:"resource"`
	// Reason is the word it is known by, Message one sentence with the figures.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// holdsOf writes the recommender's holds.
func holdsOf(holds []recommender.Hold) []Hold {
	written := []Hold{}
	for _, hold := range holds {
		written = append(written, Hold{Resource: hold.Resource.String(), Reason: string(hold.Reason), Message: hold.Message})
	}
	return written
}

// stepsOf writes the recommender's steps.
func stepsOf(steps []recommender.Step) []Step {
	written := []Step{}
	for _, step := range steps {
		written = append(written, display.StepOf(step))
	}
	return written
}

// joinHolds puts lists of holds into one, each once, CPU first.
func joinHolds(lists ...[]Hold) []Hold {
	joined := []Hold{}
	for _, hold := range slices.Concat(lists...) {
		if !slices.Contains(joined, hold) {
			joined = append(joined, hold)
		}
	}
	slices.SortStableFunc(joined, func(a, b Hold) int { return cmp.Compare(a.Resource, b.Resource) })
	return joined
}

// joinSteps appends what a pod's change adds to the stored trace: CPU first, each resource's steps in
// the order of the chain.
func joinSteps(trace, change []Step) []Step {
	joined := slices.Clone(trace)
	for _, step := range change {
		if !slices.ContainsFunc(trace, func(s Step) bool { return s.Resource == step.Resource && s.Name == step.Name }) {
			joined = append(joined, step)
		}
	}
	slices.SortStableFunc(joined, func(a, b Step) int { return cmp.Compare(a.Resource, b.Resource) })
	return joined
}
