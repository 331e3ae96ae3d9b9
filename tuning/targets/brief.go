package targets

import (
	"encoding/json"
	"fmt"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// stepOmitted is the name of the step that stands for those that are left out.
const stepOmitted = "omitted"

// Brief leaves out steps where they are more than fit: those that changed nothing, then all of the last containers. It is
// said in their place. Targets are left as they are.
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

// changing are the steps that changed an amount.
func changing(steps []v1alpha1.Step) (out []v1alpha1.Step) {
	for _, s := range steps {
		if s.Before != s.After {
			out = append(out, s)
		}
	}
	return out
}

func omitted(containers int) []v1alpha1.Step {
	return []v1alpha1.Step{{Resource: "cpu", Name: stepOmitted, Reason: fmt.Sprintf("the steps are left out: the workload has %d containers", containers)}}
}

func bytesOf(steps []v1alpha1.Step) int {
	raw, err := json.Marshal(steps)
	if err != nil {
		panic("steps are strings: " + err.Error())
	}
	return len(raw)
}
