package tuning_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/internal/workload"
	"attune.io/attune/tuning"
)

// fleet returns a view of a DaemonSet with a pod per node: of the newest template, but for the last one, whose node has
// not been ready for a week.
func fleet(t *testing.T) tuning.View {
	w := crowd(t, 5)
	w.Nodes["node-2"] = tuning.Node{Node: down(node("node-2", "16", "64Gi"))}
	w.Nodes["node-2"].Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-7 * 24 * time.Hour))
	for i, pod := range w.Pods {
		pod.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: "b", workload.TemplateGenerationLabel: "7"}
		pod.CreationTimestamp = metav1.NewTime(now.Add(-10 * time.Minute)) // nodes come and go
		if i == 4 {
			pod.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: "a", workload.TemplateGenerationLabel: "6"}
			pod.Spec.NodeName, pod.DeletionTimestamp = "node-2", &metav1.Time{Time: now.Add(-6 * 24 * time.Hour)}
		}
	}
	w.Workload.Rollout = workload.Rollout{
		InProgress: true, Reason: "4 of 5 pods run the newest template", Updated: 4, Label: workload.TemplateGenerationLabel, Newest: "7",
	}
	return w
}

// A DaemonSet whose only older pods are on dead nodes (kubernetes/kubernetes#117204): its rollout stands, although new
// nodes get new pods all the time.
func TestPodsOnDeadNodesDoNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	assert.NotEmpty(t, begun(tuning.Decide(fleet(t))), "the pods of the newest template are resized")
}

// Rollouts that may still go on, or whose newest pods are not known, block everything.
func TestRolloutsThatGoOnBlockAllPods(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*tuning.View){
		"the node was ready a moment ago": func(w *tuning.View) {
			w.Nodes["node-2"].Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-10 * time.Minute))
		},
		"an older pod is on a ready node": func(w *tuning.View) {
			w.Nodes["node-2"].Status.Conditions[0].Status = corev1.ConditionTrue
		},
		"an Argo Rollout at a step of its canary": func(w *tuning.View) {
			w.Workload.Rollout = workload.Rollout{InProgress: true, Reason: "the stable revision is not the newest one; its phase is Paused"}
		},
		"the controller has not seen the template": func(w *tuning.View) {
			w.Workload.Rollout = workload.Rollout{InProgress: true, Reason: "its controller has not observed generation 3 yet"}
		},
		"the label is of another template": func(w *tuning.View) { w.Workload.Rollout.Newest = "8" },
		"two generations look alike": func(w *tuning.View) {
			w.Workload.Rollout.Label, w.Workload.Rollout.Updated = "", 2
			for i, pod := range w.Pods {
				pod.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: fmt.Sprint("r", i/2)}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := fleet(t)
			change(&w)
			d := tuning.Decide(w)
			assert.Empty(t, begun(d))
			assert.Contains(t, blocked(d), "RolloutInProgress")
		})
	}
}

// A Deployment whose controller reports progress does not stand, however long its pods take.
func TestSlowDeploymentsAreNotTakenForStanding(t *testing.T) {
	t.Parallel()
	w := crowd(t, 4)
	for i, pod := range w.Pods {
		pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: map[bool]string{true: "old", false: "new"}[i == 0]}
	}
	w.Workload.Rollout = workload.Rollout{InProgress: true, Reason: "3 of 4 pods run the newest template", Updated: 3}
	assert.NotEmpty(t, begun(tuning.Decide(w)), "it says nothing, and no pod was created for an hour")
	w.Workload.Rollout.Progresses = true
	assert.Empty(t, begun(tuning.Decide(w)))
}
