package resize_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
)

// A limit of 0 is set: the API server accepts no request above it. The other resource is resized.
func TestALimitOfZeroIsNotSent(t *testing.T) {
	zero := func(name corev1.ResourceName, limit string) *corev1.Pod {
		return with(running(size(500, 1000, 512, 1024)), func(p *corev1.Pod) {
			r := &p.Spec.Containers[0].Resources
			r.Limits[name] = quantity(limit)
			r.Requests[name] = quantity("0")
			p.Status.ContainerStatuses[0].AllocatedResources = r.Requests
			p.Status.QOSClass = podview.QOSClass(p)
		})
	}
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		patch string
	}{
		"cpu":                   {zero(corev1.ResourceCPU, "0"), `{"requests":{"memory":"600Mi"},"limits":{"memory":"1200Mi"}}`},
		"memory":                {zero(corev1.ResourceMemory, "0"), `{"requests":{"cpu":"700m"},"limits":{"cpu":"1400m"}}`},
		"less than a millicore": {zero(corev1.ResourceCPU, "100u"), `{"requests":{"memory":"600Mi"},"limits":{"memory":"1200Mi"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			plan := mustPlan(t, tc.pod, wish(size(700, 1400, 600, 1200)))
			assert.Contains(t, string(plan.Patch()), tc.patch)
			require.Len(t, plan.LeftOut, 1)
			assert.Equal(t, ReasonFixedLimit, plan.LeftOut[0].Reason)
			assert.Contains(t, plan.LeftOut[0].Message, "Remove the limit from the pod template")
		})
	}
	_, refusal := PlanFor(zero(corev1.ResourceCPU, "0"), wish(size(700, 0, 0, 0)), able(), noon)
	require.NotNil(t, refusal)
	assert.Equal(t, ReasonFixedLimit, refusal.Reason)
}

// A process keeps to the memory that it was told when it started.
func TestMemoryLimitStaysAsTheProcessKnowsIt(t *testing.T) {
	was, lower := size(500, 1000, 512, 1024), size(500, 1000, 256, 600)
	from := func(resource, container string) corev1.EnvVar {
		return corev1.EnvVar{Name: "MEMORY", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: resource, ContainerName: container}}}
	}
	value := func(name, value string) corev1.EnvVar { return corev1.EnvVar{Name: name, Value: value} }
	telling := func(v corev1.EnvVar) *corev1.Pod {
		return with(running(was), func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{v} })
	}
	elsewhere := func(v corev1.EnvVar) *corev1.Pod {
		return with(running(was, size(10, 0, 10, 0)), func(p *corev1.Pod) { p.Spec.Containers[1].Env = []corev1.EnvVar{v} })
	}
	resized := func(p *corev1.Pod, ago time.Duration) *corev1.Pod {
		p.Generation, p.Status.ObservedGeneration = 2, 2
		p.ManagedFields = append(p.ManagedFields, podview.ResizedEntry(podview.FieldManager, noon.Add(-ago)))
		return p
	}
	kept := size(500, 1000, 256, 1024)
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		wish recommender.Size
		back bool
		want recommender.Size
	}{
		"limits.memory":                               {telling(from("limits.memory", "")), lower, false, kept},
		"limits.memory by name":                       {telling(from("limits.memory", "app")), lower, false, kept},
		"another container knows it":                  {elsewhere(from("limits.memory", "app")), lower, false, kept},
		"of another container":                        {elsewhere(from("limits.memory", "")), lower, false, lower},
		"limits.cpu":                                  {telling(from("limits.cpu", "")), lower, false, lower},
		"a raise":                                     {telling(from("limits.memory", "")), size(500, 1000, 600, 2048), false, size(500, 1000, 600, 2048)},
		"the change restarts the container":           {restarting(telling(from("limits.memory", "")), corev1.ResourceMemory), lower, false, lower},
		"above the request":                           {telling(from("requests.memory", "")), lower, false, lower},
		"below the request":                           {telling(from("requests.memory", "")), size(500, 1000, 256, 400), false, kept},
		"above the request, which is no longer known": {resized(telling(from("requests.memory", "")), time.Minute), lower, false, kept},
		"resized since the start":                     {resized(telling(from("limits.memory", "")), time.Minute), lower, false, kept},
		"what it had when it started is restored":     {resized(telling(from("limits.memory", "")), time.Minute), lower, true, lower},
		"what it had before it started is not":        {resized(telling(from("limits.memory", "")), 2*time.Hour), lower, true, kept},
		"percentage of the limit":                     {telling(value("JAVA_OPTS", "-Xss1m -XX:MaxRAMPercentage=75.0")), lower, false, kept},
		"automemlimit":                                {telling(value("AUTOMEMLIMIT", "0.9")), lower, false, kept},
		"GOMEMLIMIT as a number":                      {telling(value("GOMEMLIMIT", "700MiB")), lower, false, kept},
		"GOMEMLIMIT below":                            {telling(value("GOMEMLIMIT", "400MiB")), lower, false, lower},
		"GOMEMLIMIT is off":                           {telling(value("GOMEMLIMIT", "off")), lower, false, lower},
		"Node's heap":                                 {telling(value("NODE_OPTIONS", "--max-old-space-size=700")), lower, false, kept},
		"a command": {with(running(was), func(p *corev1.Pod) {
			p.Spec.Containers[0].Command = []string{"sh", "-c", "exec java -Xmx700m -jar a.jar"}
		}), lower, false, kept},
		"a restart or a raise is no reason to ask": {telling(value("JAVA_OPTS", "-Xmx2g")), size(500, 1000, 600, 2048), false, size(500, 1000, 600, 2048)},
	} {
		t.Run(name, func(t *testing.T) {
			wished := []podview.Container{{Name: "app", Size: tc.wish, MemoryUsage: 64 * mi}}
			plan, _ := PlanFor(tc.pod, wished, able(), noon)
			if tc.back {
				plan, _ = PlanBack(tc.pod, wished, able(), noon, WaveUndo, ReasonUnschedulable)
			}
			assert.Equal(t, tc.want, specOf(plan.Apply(tc.pod))["app"])
			if tc.want != tc.wish {
				require.Len(t, plan.LeftOut, 1)
				assert.Equal(t, ReasonMemoryLimitKnown, plan.LeftOut[0].Reason)
			}
		})
	}
}

// A pod with scheduling gates has no node, and its requests may be counted by the controller of the gates.
func TestGatedPodsAreNotResized(t *testing.T) {
	pod := with(running(size(500, 1000, 512, 1024)), func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status.Phase, p.Status.ContainerStatuses = "", corev1.PodPending, nil
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
	})
	for _, to := range []recommender.Size{size(250, 500, 256, 512), size(1000, 2000, 1024, 2048)} {
		_, refusal := PlanFor(pod, wish(to), able(), noon)
		require.NotNil(t, refusal)
		assert.Equal(t, ReasonNotScheduled, refusal.Reason)
	}
}

// Kueue counts requests as long as the pod exists; the room of a running pod group is its own.
func TestQueuedPodsKeepTheirRequests(t *testing.T) {
	labelled := func(name string) *corev1.Pod {
		return with(running(size(500, 1000, 512, 1024)), func(p *corev1.Pod) { p.Labels[name] = "x" })
	}
	for name, tc := range map[string]struct {
		pod        *corev1.Pod
		wish, want recommender.Size
	}{
		"Kueue, lower":                 {labelled("kueue.x-k8s.io/queue-name"), size(250, 500, 256, 512), size(500, 1000, 512, 1024)},
		"Kueue, higher: memory limit":  {labelled("kueue.x-k8s.io/podset"), size(1000, 2000, 1024, 2048), size(500, 1000, 512, 2048)},
		"a running pod of a pod group": {labelled("scheduling.x-k8s.io/pod-group"), size(1000, 2000, 1024, 2048), size(1000, 2000, 1024, 2048)},
	} {
		t.Run(name, func(t *testing.T) {
			plan, _ := PlanFor(tc.pod, wish(tc.wish), able(), noon)
			assert.Equal(t, tc.want, specOf(plan.Apply(tc.pod))["app"])
			if tc.want != tc.wish {
				require.NotEmpty(t, plan.LeftOut)
				assert.Equal(t, ReasonQueue, plan.LeftOut[0].Reason)
			}
		})
	}
	kueue := labelled("kueue.x-k8s.io/podset")
	assert.True(t, NeverRaised(kueue))
	assert.True(t, NotLowered(kueue, "app", noon))
}

// A user may enable Kueue, or upgrade attune, after attune lowered the pod: a pod that crashes gets its requests back.
func TestRequestsOfQueuedPodsAreRestored(t *testing.T) {
	had := size(500, 1000, 512, 1024)
	pod := with(running(size(250, 500, 256, 512)), func(p *corev1.Pod) { p.Labels["kueue.x-k8s.io/queue-name"] = "x" })
	plan, refusal := PlanBack(pod, wish(had), able(), noon, WaveUndo, "Undo")
	require.Nil(t, refusal)
	assert.Equal(t, had, specOf(plan.Apply(pod))["app"])
}
