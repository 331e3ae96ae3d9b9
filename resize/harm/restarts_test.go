package harm

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// restartsOn makes a rule restart the pod's first container.
func restartsOn(operator corev1.ContainerRestartRuleOnExitCodesOperator, codes ...int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyNever)
		p.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
			Action: corev1.ContainerRestartRuleActionRestart, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: operator, Values: codes},
		}}
	}
}

// exited sets the last exit of the pod's first container, a duration after the record of recorded was written.
func exited(code int32, after time.Duration) func(*corev1.Pod) {
	end := ended("Error", "app-1", 0, after)
	end.ExitCode = code
	return last(end)
}

// allRestarting sets the kubelet's condition for a pod in which one container may restart all others; it changed a
// duration after the record was written.
func allRestarting(status corev1.ConditionStatus, after time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.AllContainersRestarting, Status: status, LastTransitionTime: metav1.NewTime(noon.Add(-time.Minute).Add(after)),
		})
	}
}

func TestRequestedRestartsAreNoRegression(t *testing.T) {
	const in, notIn = corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn
	for _, tc := range []struct {
		name  string
		edits []func(*corev1.Pod)
		want  resize.Harm
	}{
		{"39 a rule names the exit code", edits(restartsOn(in, 42), exited(42, 10*time.Second)), ""},
		{"39 a rule names another exit code", edits(restartsOn(in, 42), exited(1, 10*time.Second)), resize.HarmRestart},
		{"39 a rule for all codes but one covers every crash", edits(restartsOn(notIn, 0), exited(1, 10*time.Second)), resize.HarmRestart},
		{"39 a rule of another container", edits(exited(42, 10*time.Second), func(p *corev1.Pod) {
			other := p.DeepCopy()
			restartsOn(in, 42)(other)
			other.Spec.Containers[0].Name = "other"
			p.Spec.Containers = append(p.Spec.Containers, other.Spec.Containers[0])
		}), resize.HarmRestart},
		{"39 all containers are being restarted", edits(exited(137, 10*time.Second), allRestarting(corev1.ConditionTrue, 10*time.Second)), ""},
		{"39 all containers were restarted", edits(exited(137, 10*time.Second), allRestarting(corev1.ConditionFalse, 20*time.Second)), ""},
		{"39 it crashed after that", edits(exited(137, 30*time.Second), allRestarting(corev1.ConditionFalse, 20*time.Second)), resize.HarmRestart},
		{"39 they could be and never were", edits(exited(137, 10*time.Second), allRestarting(corev1.ConditionFalse, -time.Hour)), resize.HarmRestart},
		{"39 a policy of its own is no rule", edits(exited(1, 10*time.Second), func(p *corev1.Pod) {
			p.Spec.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyOnFailure)
		}), resize.HarmRestart},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := resized(desired, append(edits(done(desired), restarts(3)), tc.edits...)...)
			assert.Equal(t, tc.want, Judge(pod, recorded(desired), noon, auto(), Signals{}).Harm)
		})
	}
}

// An OOM kill is a regression, even if a rule covers its exit code.
func TestARuleExcusesNoOOMKill(t *testing.T) {
	kill := ended(podview.OOMKilled, "app-0", -time.Hour, time.Second)
	kill.ExitCode = 137
	pod := resized(desired, done(desired), restarts(2), last(kill), restartsOn(corev1.ContainerRestartRuleOnExitCodesOpIn, 137))
	assert.Equal(t, resize.HarmOOM, Judge(pod, recorded(desired, ofMemory), noon, auto(), Signals{}).Harm)
}

// If all containers of a pod are being restarted, the pod is not ready for that reason.
func TestAPodThatRestartsAllIsNotJudgedByItsReadiness(t *testing.T) {
	pod := resized(desired, done(desired), unreadyNow, allRestarting(corev1.ConditionTrue, 10*time.Second))
	v := Judge(pod, recorded(desired, watchedUntil(0)), noon, auto(), Signals{Throttle: map[string]float64{"app": 0}})
	assert.Empty(t, v.Harm)
	assert.True(t, v.Inconclusive)
}
