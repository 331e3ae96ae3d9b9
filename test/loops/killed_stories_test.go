package loops

import (
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/kubelet"
)

const (
	// once is a policy that resizes every pod at once, one time.
	once      = "updateStrategy: {type: Auto, cooldown: 10h, safetyObservationPeriod: 1m, canary: {percentage: 100}}\n"
	growsFast = "cpu: {maxChangePercent: 300}\n"
)

// stories are what can become of a resize.
var stories = []story{
	{
		name: "kept", policy: once + growsFast, begin: onePod(small, grown),
		results: []string{"Success"},
	},
	{
		name: "kept in two patches", policy: once + lowersMemory, begin: onePod(large, shrunk),
		results: []string{"Success"},
	},
	{
		name: "kept in waves", begin: pods(4, large, shrunk),
		policy:  "updateStrategy: {type: Auto, cooldown: 1m, safetyObservationPeriod: 1m, maxConcurrentResizes: 2, resizeMethod: InPlaceOrRecreate}\ncpu: {maxChangePercent: 90}",
		results: []string{"Success", "Success", "Success", "Success"},
	},
	{
		name: "OOM-killed and reverted", policy: once + lowersMemory, begin: onePod(large, shrunk), meanwhile: growsWhenLow,
		results: []string{"Reverted oomkill"},
	},
	{
		// The second kill is seen together with the limit that is back by then.
		name: "OOM-killed again while it is put back", policy: once + lowersMemory, begin: onePod(large, shrunk), meanwhile: growsWhenLow,
		node:    kubelet.Options{ActuateAfter: 12 * time.Second},
		results: []string{"Reverted oomkill"},
	},
	{
		// The pod is left as it is until the next step is due.
		name: "OOM-killed with autoRevert off", policy: "updateStrategy: {type: Auto, cooldown: 10h, safetyObservationPeriod: 1m, autoRevert: false}\n" + lowersMemory,
		begin: onePod(large, shrunk), meanwhile: growsWhenLow,
		results: []string{"Failed oomkill"},
	},
	{
		name: "one of three OOM-killed", begin: pods(3, large, shrunk), meanwhile: growsWhenLow,
		policy:  "updateStrategy: {type: Auto, cooldown: 10h, safetyObservationPeriod: 1m, resizeMethod: InPlaceOrRecreate}\n" + lowersMemory,
		results: []string{"Reverted oomkill"},
	},
	{
		name: "not ready and reverted", policy: once + "cpu: {maxChangePercent: 90}", begin: onePod(large, shrunk), meanwhile: failsWhenLow,
		results: []string{"Reverted notready"},
	},
	{
		name: "deferred and withdrawn", policy: once + growsFast, node: kubelet.Options{CPU: "4"},
		begin:   both(onePod(small, grown), func(w *world) { w.node.Faults.Taken = 3200 }),
		results: []string{"Withdrawn Deferred"},
	},
	{
		name: "infeasible and withdrawn", policy: once + growsFast, node: kubelet.Options{StaticCPU: true},
		begin:   onePod(shape{"cpu=500m,memory=512Mi", "cpu=500m,memory=512Mi"}, grown),
		results: []string{"Withdrawn Infeasible"},
	},
	{
		name: "a limit that is given up", policy: once + lowersMemory,
		begin:   both(onePod(large, shrunk), func(w *world) { w.memory["app"] = 900 }),
		results: []string{"Success ActuationError"},
	},
	{
		// However the operator fares, the HPA never scales at a lower usage of a pod than its user wrote.
		name: "retargeted", begin: underRetargetedHPA, meanwhile: scalesNoLower,
		policy:  "updateStrategy: {type: Auto, cooldown: 1m, safetyObservationPeriod: 1m, maxConcurrentResizes: 2}\n" + retargetCPU,
		results: []string{"Success", "Success", "Success"},
	},
	{
		name: "the policy is deleted in the watch", policy: once + growsFast, begin: onePod(small, grown), meanwhile: deletesPolicy,
		results: []string{"Success"},
	},
}

// shape is what a pod asks for.
type shape struct{ requests, limits string }

var (
	small = shape{"cpu=500m,memory=512Mi", ""}
	large = shape{"cpu=500m,memory=512Mi", "memory=1Gi"}
)

// What pods of these shapes used in the past makes them grow or shrink.
var (
	grown  = used{CPU: 1, Memory: 200}
	shrunk = used{CPU: 0.1, Memory: 200}
)

func onePod(s shape, usage used) func(*world) { return pods(1, s, usage) }

func pods(n int32, s shape, usage used) func(*world) {
	return func(w *world) {
		w.usage.of["app"], w.memory["app"] = usage, int64(usage.Memory)
		w.deployment("web", n, w.app(s.requests, s.limits))
	}
}

func both(a, b func(*world)) func(*world) { return func(w *world) { a(w); b(w) } }

// growsWhenLow: a process comes to hold 600 MiB some time after its limit was lowered under that.
func growsWhenLow(w *world) {
	const needs = 600
	if w.holds != nil {
		return
	}
	for _, pod := range w.pods() {
		limit := runs(&pod).Limits[corev1.ResourceMemory]
		if limit.Value()>>20 >= needs {
			continue
		}
		from := w.clock.Now().Add(20 * time.Second)
		w.holds = func(p *corev1.Pod, _ string) (int64, bool) {
			return needs, p.Name == pod.Name && !w.clock.Now().Before(from)
		}
	}
}

// failsWhenLow: with less CPU than before the pod does not pass its probe.
func failsWhenLow(w *world) {
	w.ready = func(pod *corev1.Pod) bool {
		return len(pod.Status.ContainerStatuses) == 0 || runsCPU(pod) == 0 || runsCPU(pod) >= 500
	}
}

func runsCPU(pod *corev1.Pod) int64 {
	resources := runs(pod)
	return resources.Requests.Cpu().MilliValue()
}

// deletesPolicy does so as soon as a pod is watched.
func deletesPolicy(w *world) {
	for _, rec := range w.recommendations() {
		for _, record := range rec.Status.Records {
			policy := &v1alpha1.AttunePolicy{}
			policy.Namespace, policy.Name = w.namespace, "all"
			if record.Phase == v1alpha1.RecordWatching && w.deleted == 0 {
				w.deleted++
				require.NoError(w.t, w.direct.Delete(w.t.Context(), policy))
			}
		}
	}
}
