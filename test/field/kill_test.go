package field

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/resizetest"
	"attune.io/attune/tuning"
	"attune.io/attune/tuning/tuningtest"
)

// kill is a container with a memory limit of 1Gi that has just terminated, what is known about it, and what attune makes of
// it.
type kill struct {
	Reason   string `json:"reason"`
	ExitCode int32  `json:"exitCode"`
	// Ago is how long ago it terminated. Default: 5s.
	Ago metav1.Duration `json:"ago,omitempty"`
	// Init: it is an init container.
	Init bool `json:"init,omitempty"`
	// Times it terminates so, one after the other. Default: 1.
	Times int `json:"times,omitempty"`
	// Used is the last memory sample before it. Default: not known.
	Used *resource.Quantity `json:"used,omitempty"`
	// Events are its OOM events, Workloads those with OOM-killed containers on the node within 10s.
	Events    float64 `json:"events,omitempty"`
	Workloads int     `json:"workloads,omitempty"`
	// Pressure: the node reports MemoryPressure.
	Pressure bool `json:"pressure,omitempty"`
	// Lowered: attune lowered the limit from 2Gi and observes the pod.
	Lowered bool `json:"lowered,omitempty"`

	// Floor is the minimum that attune learns from OOM kills. Default: none.
	Floor *resource.Quantity `json:"floor,omitempty"`
	// Limit is the memory limit that attune sets at once. Default: none.
	Limit *resource.Quantity `json:"limit,omitempty"`
	// Says is a part of an event.
	Says string `json:"says,omitempty"`
}

func (k *kill) run(t *testing.T) {
	template, has := tuningtest.SizeOf(200, 0, 512, 1024), tuningtest.SizeOf(200, 0, 512, 1024)
	if k.Lowered {
		template = tuningtest.SizeOf(200, 0, 512, 2048)
	}
	if k.Ago.Duration == 0 {
		k.Ago.Duration = 5 * time.Second
	}
	pod := tuningtest.EndedBefore(tuningtest.Running("web-1", has), k.Reason, 1, k.Ago.Duration)
	end := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
	end.ExitCode = k.ExitCode
	if k.Init {
		resizetest.WithInit(pod, "init", has)
		status := &pod.Status.ContainerStatuses[0]
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", State: corev1.ContainerState{Terminated: end}}}
		status.LastTerminationState, status.RestartCount = corev1.ContainerState{}, 0
	}
	w := tuningtest.Eager(tuningtest.Heading(tuningtest.Seen(t, template, pod), has))
	if k.Pressure {
		node := w.Nodes["node-1"].Node
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue})
	}
	if k.Lowered {
		pod.Generation, pod.Status.ObservedGeneration = 2, 2
		w.Rec.Status.Records = []v1alpha1.ResizeRecord{{
			PodUID: pod.UID, PodName: pod.Name, Node: "node-1", Phase: v1alpha1.RecordWatching, Generation: 2, TemplateHash: "abc",
			WrittenAt: metav1.NewTime(tuningtest.Now.Add(-5 * time.Minute)), WatchUntil: &metav1.Time{Time: tuningtest.Now.Add(time.Hour)},
			Prior:    []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(template)}},
			Desired:  []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(has)}},
			Baseline: []v1alpha1.ContainerBaseline{{Name: "app", ContainerID: end.ContainerID, StartedAt: &end.StartedAt, Ready: true}},
		}}
	}
	var lines []string
	for i := range max(k.Times, 1) {
		if k.Times > 1 {
			end.ContainerID = fmt.Sprint("containerd://run-", i)
		}
		facts := harm.KillFacts{Events: k.Events, Workloads: k.Workloads}
		if k.Used != nil {
			facts.Used = podview.AmountOf(recommender.Memory, *k.Used)
		}
		w.Usage.Ends = map[string]harm.KillFacts{podview.Evidence(end): facts}
		d := tuning.Decide(w)
		lines = append(lines, tuningtest.Told(d)...)
		w.Rec.Status.Floors = d.Status.Floors
	}
	// The policy loop has the minimum of the limit from the status.
	w.Rec.Spec.Containers[0].MemoryLimitFloor = podview.ToPointer(recommender.Memory, resize.OOMFloorOf(w.Rec.Status.Floors, "app", tuningtest.Now))
	d := tuning.Decide(w)
	amount := func(q *resource.Quantity) recommender.Amount {
		if q == nil {
			return 0
		}
		return podview.AmountOf(recommender.Memory, *q)
	}
	assert.Equal(t, amount(k.Floor), resize.OOMFloorOf(d.Status.Floors, "app", tuningtest.Now), "learned")
	var limit recommender.Amount
	for _, write := range d.Writes {
		for _, m := range write.Plan.Moves {
			limit = m.To[recommender.Memory].Limit
		}
	}
	assert.Equal(t, amount(k.Limit), limit, "set")
	assert.True(t, k.Says == "" || slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, k.Says) }), lines)
}
