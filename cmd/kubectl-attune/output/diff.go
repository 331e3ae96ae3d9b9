package output

import (
	"fmt"
	"slices"
	"strings"

	"attune.io/attune/internal/answers"
)

// Diff is the answer of diff. Its JSON, with -o json:
//
//	{"differences": [{
//	  "namespace": "shop", "kind": "Deployment", "workload": "web",
//	  "container": "app", "field": "requests.cpu",
//	  "current": "500m", "target": "200m"
//	}]}
type Diff struct {
	// Differences are sorted by workload, container and field; never nil.
	Differences []Difference `json:"differences"`
}

// NewDiff returns an answer without differences.
func NewDiff() Diff { return Diff{Differences: []Difference{}} }

// Difference is one value of a template that differs from the recommendation.
type Difference struct {
	// Namespace, Kind and Workload identify the workload.
	Namespace string `json:"namespace"`
	// Kind is a kind such as Deployment.
	Kind string `json:"kind"`
	// Workload is its name.
	Workload string `json:"workload"`
	// Container is its name in the pod template.
	Container string `json:"container"`
	// Field is the path under the container's resources, such as requests.cpu.
	Field string `json:"field"`
	// Current is the template's value; null if not set.
	Current *string `json:"current"`
	// Target is the recommended value.
	Target string `json:"target"`
}

// Add appends the differences of one workload.
func (r *Diff) Add(explained answers.Explanation) {
	for _, container := range explained.Containers {
		for _, field := range container.Differences() {
			r.Differences = append(r.Differences, Difference{
				Namespace: explained.Workload.Namespace,
				Kind:      explained.Workload.Kind,
				Workload:  explained.Workload.Name,
				Container: container.Name,
				Field:     field.Name,
				Current:   field.Current,
				Target:    *field.Target,
			})
		}
	}
}

// Human writes lines in the style of diff -u: a heading for each container, a minus line for the template's value if
// it is set, and a plus line for the target. -o wide changes nothing.
func (r Diff) Human(bool) (string, error) {
	var text strings.Builder
	var shown Difference
	for _, d := range r.Differences {
		if !slices.Equal(d.container(), shown.container()) {
			fmt.Fprintf(&text, "--- %s/%s in namespace %s, container %s: template\n+++ recommended\n", d.Kind, d.Workload, d.Namespace, d.Container)
			shown = d
		}
		if d.Current != nil {
			fmt.Fprintf(&text, "-resources.%s: %s\n", d.Field, *d.Current)
		}
		fmt.Fprintf(&text, "+resources.%s: %s\n", d.Field, d.Target)
	}
	return text.String(), nil
}

// container identifies the container of a difference. Human writes one heading for each container.
func (d Difference) container() []string {
	return []string{d.Namespace, d.Kind, d.Workload, d.Container}
}
