package output

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/resize"
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

// Difference is one value of a template or of an HPA that differs from the recommendation.
type Difference struct {
	// Namespace, Kind and Workload identify the workload.
	Namespace string `json:"namespace"`
	// Kind is a kind such as Deployment.
	Kind string `json:"kind"`
	// Workload is its name.
	Workload string `json:"workload"`
	// Container is its name in the pod template. Of an HPA it is the container of the metric; empty: all.
	Container string `json:"container"`
	// HPA is the name of the HorizontalPodAutoscaler whose target differs; empty: a template differs.
	HPA string `json:"hpa,omitempty"`
	// Field is the path under the container's resources, such as requests.cpu, or cpu.averageUtilization of an HPA.
	Field string `json:"field"`
	// Current is the value of the template or the HPA; null if not set.
	Current *string `json:"current"`
	// Target is the recommended value.
	Target string `json:"target"`
}

// Add appends the differences of one workload. A request on which an HPA scales is among them if the target of the HPA
// that belongs to it is known: both have to change together. The present target is that of the manifest, not attune's.
func (r *Diff) Add(explained answers.Explanation, bindings []v1alpha1.HPABinding) {
	bindings = slices.DeleteFunc(slices.Clone(bindings), func(b v1alpha1.HPABinding) bool { return b.RecommendedPercent == 0 })
	requests := map[string]bool{}
	for _, container := range explained.Containers {
		var lifted []string
		if slices.ContainsFunc(bindings, func(b v1alpha1.HPABinding) bool { return b.Container == "" || b.Container == container.Name }) {
			lifted = []string{resize.ReasonHPA}
		}
		for _, field := range container.Differences(lifted...) {
			r.Differences = append(r.Differences, Difference{
				Namespace: explained.Workload.Namespace,
				Kind:      explained.Workload.Kind,
				Workload:  explained.Workload.Name,
				Container: container.Name,
				Field:     field.Name,
				Current:   field.Current,
				Target:    *field.Target,
			})
			if field.Name == "requests.cpu" {
				requests[container.Name], requests[""] = true, true
			}
		}
	}
	for _, b := range bindings {
		if !requests[b.Container] {
			continue
		}
		current := strconv.Itoa(int(cmp.Or(b.OriginalPercent, b.Percent)))
		r.Differences = append(r.Differences, Difference{
			Namespace: explained.Workload.Namespace, Kind: explained.Workload.Kind, Workload: explained.Workload.Name,
			Container: b.Container, HPA: b.HPA, Field: b.Resource + ".averageUtilization", Current: &current, Target: strconv.Itoa(int(b.RecommendedPercent)),
		})
	}
}

// Human writes lines in the style of diff -u: a heading for each container, a minus line for the template's value if
// it is set, and a plus line for the target. -o wide changes nothing.
func (r Diff) Human(bool) (string, error) {
	var text strings.Builder
	var shown Difference
	for _, d := range r.Differences {
		if !slices.Equal(d.container(), shown.container()) {
			text.WriteString(d.heading())
			shown = d
		}
		path := "resources." + d.Field
		if d.HPA != "" {
			path = "metrics." + d.Field
		}
		if d.Current != nil {
			fmt.Fprintf(&text, "-%s: %s\n", path, *d.Current)
		}
		fmt.Fprintf(&text, "+%s: %s\n", path, d.Target)
	}
	return text.String(), nil
}

// heading names what differs.
func (d Difference) heading() string {
	of := ""
	if d.Container != "" {
		of = ", container " + d.Container
	}
	if d.HPA != "" {
		return fmt.Sprintf("--- HorizontalPodAutoscaler/%s in namespace %s%s: target\n+++ recommended together with the requests of %s/%s\n", d.HPA, d.Namespace, of, d.Kind, d.Workload)
	}
	return fmt.Sprintf("--- %s/%s in namespace %s%s: template\n+++ recommended\n", d.Kind, d.Workload, d.Namespace, of)
}

// container identifies the container or the HPA of a difference. Human writes one heading for each.
func (d Difference) container() []string {
	return []string{d.Namespace, d.Kind, d.Workload, d.Container, d.HPA}
}
