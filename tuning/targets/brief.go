package targets

import (
	"encoding/json"
	"fmt"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// stepOmitted is the name of the step that stands for those that are left out.
const stepOmitted = "omitted"

// Brief shortens explanations that are too long for one object (more than resize.StepsBytes as JSON).
// First it removes steps that changed nothing, from the last container on; then all steps of the last
// containers, and a step named omitted stands in their place. It changes the steps in place; the targets
// themselves stay as they are.
func Brief(targets []v1alpha1.ContainerTarget) {
	total := 0
	for i := range targets {
		total += bytesOf(targets[i].Steps)
	}
	for i := len(targets) - 1; i >= 0 && total > resize.StepsBytes; i-- {
		before := bytesOf(targets[i].Steps)
		targets[i].Steps = changing(targets[i].Steps)
		total += bytesOf(targets[i].Steps) - before
	}
	for i := len(targets) - 1; i >= 0 && total > resize.StepsBytes; i-- {
		before := bytesOf(targets[i].Steps)
		targets[i].Steps = omitted(len(targets))
		total += bytesOf(targets[i].Steps) - before
	}
}

// changing returns the steps that changed an amount.
func changing(steps []v1alpha1.Step) (out []v1alpha1.Step) {
	for _, s := range steps {
		if s.Before != s.After {
			out = append(out, s)
		}
	}
	return out
}

// omitted is the one step that replaces the steps of a container.
func omitted(containers int) []v1alpha1.Step {
	return []v1alpha1.Step{{Resource: "cpu", Name: stepOmitted, Reason: fmt.Sprintf("the steps are left out: the workload has %d containers", containers)}}
}

// bytesOf is the length of steps as JSON in bytes. It cannot fail for strings, so that a failure panics.
func bytesOf(steps []v1alpha1.Step) int {
	raw, err := json.Marshal(steps)
	if err != nil {
		panic("steps are strings: " + err.Error())
	}
	return len(raw)
}
