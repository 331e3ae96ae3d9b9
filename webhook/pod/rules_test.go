package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

// The rules that read only the pod's spec are the same for created and for running pods.
func TestCreatedPodsFollowTheRulesOfRunningOnes(t *testing.T) {
	labelled := func(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels[name] = "x" } }
	annotated := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{name: "x"} }
	}
	arguments := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Args = []string{"java", text} }
	}
	variable := func(name, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: name, Value: value}}
		}
	}
	floor := func(s *v1alpha1.ContainerSeed) {
		s.CPURequest, s.MemoryRequest, s.MemoryLimitFloor = nil, nil, amountOf(t, "3Gi")
	}
	boost := func(s *v1alpha1.ContainerSeed) { s.CPUBoost = &v1alpha1.CPUBoost{Multiplier: "4"} }
	const (
		was        = "cpu=1/2 memory=1Gi/2Gi"
		guaranteed = "cpu=1/1 memory=2Gi/2Gi"
	)
	for name, tc := range map[string]struct {
		has         string
		pod         func(*corev1.Pod)
		cpu, memory string
		edit        func(*v1alpha1.ContainerSeed)
		want        string
		blocked     Reason
	}{
		"Kueue, higher":                        {was, labelled("kueue.x-k8s.io/queue-name"), "3", "1500Mi", nil, "cpu=1/2 memory=1Gi/3000Mi", Queued},
		"Kueue, lower":                         {was, labelled("kueue.x-k8s.io/managed"), "250m", "256Mi", nil, was, Queued},
		"Kueue's annotation":                   {was, annotated("kueue.x-k8s.io/workload"), "250m", "256Mi", nil, was, Queued},
		"Kueue, Guaranteed":                    {guaranteed, labelled("kueue.x-k8s.io/podset"), "3", "3Gi", nil, guaranteed, Queued},
		"Kueue, after an OOM kill":             {was, labelled("kueue.x-k8s.io/podset"), "", "", floor, "cpu=1/2 memory=1Gi/3Gi", ""},
		"Kueue, after an OOM kill, Guaranteed": {guaranteed, labelled("kueue.x-k8s.io/podset"), "", "", floor, guaranteed, Queued},
		"Kueue, without requests":              {"", labelled("kueue.x-k8s.io/podset"), "250m", "256Mi", nil, "", Queued},
		"Kueue, boost":                         {was, labelled("kueue.x-k8s.io/podset"), "1", "1Gi", boost, was, ""},
		"coscheduling":                         {was, labelled("scheduling.x-k8s.io/pod-group"), "3", "256Mi", nil, "cpu=1/6 memory=256Mi/512Mi", Queued},
		"Volcano":                              {was, annotated("scheduling.k8s.io/group-name"), "3", "256Mi", nil, "cpu=1/6 memory=256Mi/512Mi", Queued},
		"YuniKorn":                             {was, annotated("yunikorn.apache.org/task-group-name"), "3", "256Mi", nil, "cpu=1/6 memory=256Mi/512Mi", Queued},
		"gates":                                {was, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a"}} }, "3", "256Mi", nil, "cpu=1/6 memory=256Mi/512Mi", Queued},
		"a scheduling group":                   {was, func(p *corev1.Pod) { p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("a")} }, "3", "256Mi", nil, "cpu=1/6 memory=256Mi/512Mi", Queued},
		"system priority":                      {was, func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }, "3", "256Mi", nil, "cpu=1/6 memory=256Mi/512Mi", CriticalPriority},
		"empty pod-level resources":            {was, func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{} }, "250m", "256Mi", nil, "cpu=250m/500m memory=256Mi/512Mi", ""},
		"heap above the limit":                 {was, arguments("-Xmx1g"), "250m", "256Mi", nil, "cpu=250m/500m memory=256Mi/2Gi", MemoryLimitKnown},
		"heap below the limit":                 {was, arguments("-Xmx400m"), "250m", "256Mi", nil, "cpu=250m/500m memory=256Mi/512Mi", ""},
		"heap above the limit that it has":     {was, arguments("-Xmx8g"), "250m", "256Mi", nil, "cpu=250m/500m memory=256Mi/2Gi", MemoryLimitKnown},
		"GOMEMLIMIT":                           {was, variable("GOMEMLIMIT", "1GiB"), "250m", "256Mi", nil, "cpu=250m/500m memory=256Mi/2Gi", MemoryLimitKnown},
		"NODE_OPTIONS":                         {was, variable("NODE_OPTIONS", "--max-old-space-size=1024"), "250m", "256Mi", nil, "cpu=250m/500m memory=256Mi/2Gi", MemoryLimitKnown},
		"a share of the limit":                 {was, arguments("-XX:MaxRAMPercentage=75"), "250m", "256Mi", nil, "cpu=250m/500m memory=256Mi/512Mi", ""},
		"heap, Guaranteed":                     {guaranteed, arguments("-Xmx1g"), "1", "256Mi", nil, guaranteed, MemoryLimitKnown},
	} {
		t.Run(name, func(t *testing.T) {
			seed := seedFor(t, "app", tc.cpu, tc.memory)
			if tc.edit != nil {
				tc.edit(&seed)
			}
			pod := podOf(container(t, "app", tc.has))
			tc.pod(pod)
			known := Read(recommendation(seed))
			d := SeedPod(view(t, pod), known, &Namespace{}, now)
			after := applied(t, pod, d)
			assert.Equal(t, []string{tc.want}, resources(after))
			if tc.blocked != "" {
				assert.Contains(t, func() (all []Reason) {
					for _, b := range d.Blocked {
						all = append(all, b.Reason)
					}
					return all
				}(), tc.blocked)
			}
			assert.Empty(t, SeedPod(view(t, after), known, &Namespace{}, now).Patch, "a second call changes nothing")
		})
	}
}
