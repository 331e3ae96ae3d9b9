package lifecycle_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	. "attune.io/attune/resize/lifecycle"
)

// dice draws pods, wishes and inputs from a seed: specs that the API server accepts, and statuses that a kubelet might
// write in odd cases.
type dice struct{ *rand.Rand }

func throw(seed uint64) dice { return dice{rand.New(rand.NewPCG(seed, 1))} }

func (d dice) often() bool  { return d.IntN(3) > 0 }
func (d dice) rarely() bool { return d.IntN(8) == 0 }

// amount returns 0, or a small, ordinary, or absurd amount.
func (d dice) amount(unit recommender.Amount) recommender.Amount {
	switch d.IntN(8) {
	case 0:
		return 0
	case 1:
		return recommender.Amount(d.IntN(20))
	case 2:
		return recommender.Amount(d.Int64())
	}
	return recommender.Amount(1+d.IntN(4000)) * unit
}

// spec returns a size that a pod can have: no request above its limit.
func (d dice) spec() recommender.Size {
	var s recommender.Size
	for _, r := range recommender.Resources {
		unit := recommender.Amount(1)
		if r == recommender.Memory {
			unit = mi
		}
		request := recommender.Amount(d.IntN(4000)) * unit
		switch d.IntN(4) {
		case 0:
			s[r] = recommender.Allocation{Request: request, Limit: request}
		case 1:
			s[r] = recommender.Allocation{Request: request}
		case 2:
			s[r] = recommender.Allocation{Request: request, Limit: request + recommender.Amount(1+d.IntN(4000))*unit}
		}
	}
	return s
}

func (d dice) wish() recommender.Size {
	return recommender.Size{
		{Request: d.amount(1), Limit: d.amount(1)}, {Request: d.amount(mi), Limit: d.amount(mi)},
	}
}

func (d dice) pod() *corev1.Pod {
	var specs []recommender.Size
	same := d.spec()
	for range 1 + d.IntN(3) {
		if d.rarely() {
			same = d.spec()
		}
		specs = append(specs, same)
	}
	pod := running(specs...)
	if d.rarely() {
		withSidecar(pod, "proxy", d.spec())
	}
	if d.rarely() {
		withInit(pod, "init", d.spec())
	}
	for i := range pod.Spec.Containers {
		if d.rarely() {
			pod.Spec.Containers[i].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
		}
	}
	d.disturb(pod)
	return pod
}

// disturb adds odd values to the pod's status.
func (d dice) disturb(pod *corev1.Pod) {
	pod.Generation = int64(d.IntN(4))
	pod.Status.ObservedGeneration = int64(d.IntN(4))
	for _, reason := range []string{corev1.PodReasonDeferred, corev1.PodReasonInfeasible} {
		if d.rarely() {
			setCondition(pod, corev1.PodResizePending, reason, "", int64(d.IntN(4)))
		}
	}
	if d.rarely() {
		setCondition(pod, corev1.PodResizeInProgress, []string{"", corev1.PodReasonError}[d.IntN(2)], "", int64(d.IntN(4)))
	}
	if d.rarely() {
		pod.Spec.NodeName = ""
	}
	if d.rarely() {
		pod.Status.Phase = []corev1.PodPhase{corev1.PodFailed, corev1.PodPending, ""}[d.IntN(3)]
	}
	if d.rarely() {
		clearCondition(pod, corev1.PodReady)
	}
	if d.rarely() {
		pod.Status.ContainerStatuses = nil
	}
	for i := range pod.Status.ContainerStatuses {
		d.disturbStatus(&pod.Status.ContainerStatuses[i])
	}
}

func (d dice) disturbStatus(status *corev1.ContainerStatus) {
	if d.rarely() {
		*status = statusOf(status.Name, d.spec())
	}
	if d.rarely() {
		status.Resources = nil
	}
	if d.rarely() {
		status.AllocatedResources = nil
	}
	if d.rarely() {
		status.State = corev1.ContainerState{}
	}
	if d.rarely() {
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: "OOMKilled", ExitCode: 137, ContainerID: []string{"", status.ContainerID, "x"}[d.IntN(3)], FinishedAt: metav1.NewTime(noon.Add(d.while())),
		}
	}
	if d.rarely() {
		status.RestartCount = int32(d.IntN(5))
	}
}

func (d dice) while() time.Duration { return time.Duration(d.IntN(1200)-600) * time.Second }

func (d dice) caps() Capabilities {
	return Capabilities{
		Resizable: d.often() || d.often(), ServerMinor: 33 + d.IntN(5), KubeletMinor: 33 + d.IntN(5), NodeReady: d.often() || d.often(), //nolint:staticcheck // each is a throw of its own
		Policies:    Policies{StaticCPU: d.rarely(), StaticMemory: d.rarely(), Swap: d.rarely()},
		Allocatable: [2]recommender.Amount{d.amount(100), d.amount(100 * mi)},
	}
}

func (d dice) wishes(pod *corev1.Pod) []podview.Container {
	wished := []podview.Container{{Name: "nobody", Size: d.wish()}}
	for _, c := range podview.Read(pod) {
		if d.often() {
			wished = append(wished, podview.Container{Name: c.Name, Size: d.wish(), MemoryUsage: d.amount(mi)})
		}
	}
	return wished
}

// keepsInvariants: for every wish, the API server would accept the plan.
func keepsInvariants(t *testing.T, pod *corev1.Pod, plan Plan) {
	t.Helper()
	before, err := json.Marshal(pod)
	require.NoError(t, err)
	merged, err := strategicpatch.StrategicMergePatch(before, plan.Patch(), corev1.Pod{})
	require.NoError(t, err)
	after := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(merged, after))

	require.Equal(t, specOf(plan.Apply(pod)), specOf(after), "what is planned is what is sent")
	require.Equal(t, podview.ClassOf(pod), podview.QOSClass(after), "the class stays")
	require.Equal(t, len(pod.Spec.Containers), len(after.Spec.Containers))
	for i, c := range podview.AllContainers(after) {
		was := podview.AllContainers(pod)[i]
		require.Equal(t, was.Name, c.Name)
		for name, q := range c.Resources.Limits {
			request := c.Resources.Requests[name]
			require.LessOrEqual(t, request.Cmp(q), 0, "no request above its limit: %s of %s: %v\nwas %v\n%s", name, c.Name, c.Resources, was.Resources, plan.Patch())
		}
		for _, lists := range [][2]corev1.ResourceList{{was.Resources.Requests, c.Resources.Requests}, {was.Resources.Limits, c.Resources.Limits}} {
			for name := range lists[0] {
				require.Contains(t, lists[1], name, "nothing is removed")
			}
		}
	}
	for _, m := range plan.Moves {
		require.NotEqual(t, m.From, m.To, "a move moves")
	}
}

func FuzzPlanFor(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		d := throw(seed)
		pod := d.pod()
		before := pod.DeepCopy()
		plan, refusal := PlanFor(pod, d.wishes(pod), d.caps(), noon)
		assert.Equal(t, before, pod, "the pod given stays as it is")
		if refusal != nil {
			require.NotEmpty(t, refusal.Reason)
			require.NotEmpty(t, refusal.Message)
			return
		}
		keepsInvariants(t, pod, plan)
		walked := pod
		for _, part := range Split(plan) {
			keepsInvariants(t, walked, part)
			walked = part.Apply(walked)
		}
		require.Equal(t, specOf(plan.Apply(pod)), specOf(walked), "the parts make the whole")

		admitted, refusal := Admit(pod, plan, d.world())
		if refusal == nil {
			keepsInvariants(t, pod, admitted)
		}
	})
}

func (d dice) world() GateInput {
	w := open()
	item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: list("10m", ""), Max: list("3", "3Gi")}
	if d.rarely() {
		item.MaxLimitRequestRatio = list("2", "")
	}
	w.Namespace.LimitRanges = []corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}}
	if d.often() {
		w.Namespace.LimitRanges = nil
	}
	w.Workload.HPA = map[string]Held{"app": {Of: [2]bool{d.rarely(), d.rarely()}}}
	w.Rules.Excluded = map[string]bool{"side-1": d.rarely()}
	return w
}

// FuzzRecord passes a record through any statuses: nothing panics, all reports are true, and restoring a pod follows the
// rules.
func FuzzRecord(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		d := throw(seed)
		pod := running(d.spec(), d.spec())
		plan, refusal := PlanFor(pod, d.wishes(pod), able(), noon)
		if refusal != nil {
			return
		}
		parts := Split(plan)
		record := NewRecord(parts[0], pod, noon, auto())
		if len(parts) > 1 {
			record = WithSecond(record, parts[1], pod)
		}
		pod = parts[0].Apply(pod)
		pod.Generation = 2
		if d.often() {
			record = RecordReturned(record, pod)
		}
		at := noon
		for range 30 {
			at = at.Add(time.Duration(d.IntN(120)) * time.Second)
			seen := pod.DeepCopy()
			d.disturb(seen)
			seen.Status.QOSClass = podview.QOSClass(pod)
			if d.rarely() {
				seen = nil
			}
			state := harm.Assess(seen, record, able(), at, auto(), harm.Signals{})
			action := Next(state, record, auto(), Circumstances{}, at)
			lawful(t, seen, record, state, action, at)
			if action.Kind == Forget || action.Kind == Evict {
				return
			}
			record = *stored(t, Advance(record, action, at))
			var next Plan
			switch action.Kind {
			case Revert, Withdraw:
				next, _ = RevertPlan(seen, record, able())
			case SendRest:
				next = RestPlan(seen, record)
			}
			if next.Empty() {
				continue
			}
			keepsInvariants(t, seen, next)
			if d.often() {
				pod = next.Apply(pod)
				pod.Generation++
				record = RecordReturned(record, pod)
			} else if InSecondPatch(record) && d.often() {
				record = SecondRefused(record, seen)
			}
		}
	})
}

// lawful checks the promises about every action.
func lawful(t *testing.T, pod *corev1.Pod, record v1alpha1.ResizeRecord, state State, action Action, at time.Time) {
	t.Helper()
	require.NotEmpty(t, state.Kind)
	require.NotEmpty(t, action.Kind)
	if pod == nil {
		require.Equal(t, Replaced, state.Kind)
	}
	switch action.Kind {
	case Wait, MarkVerified, Adopt, SendRest:
		require.Positive(t, action.RequeueAfter, "nobody waits without end: %v", state)
	case StartWatch, ExtendWatch:
		require.True(t, action.Until.After(at))
	case Revert, Withdraw:
		require.NotEmpty(t, action.Reason)
		require.NotNil(t, pod, "nothing is put back on a pod that is gone")
	case Forget:
		require.True(t, action.Reason != "" || action.Result == ResultSuccess, "every end has a reason")
		require.False(t, action.Keep && state.Verdict.Harm != "", "no size that harmed is kept")
	}
	if PuttingBack(record) {
		require.NotContains(t, []ActionKind{StartWatch, MarkVerified, ExtendWatch, SendRest}, action.Kind)
	}
}

func FuzzQuantity(f *testing.F) {
	f.Add("250m")
	f.Add("1e3")
	f.Add("-1Ki")
	f.Add("12345678901234567890")
	f.Add("0.0000001")
	// Parsing greater exponents takes apimachinery minutes.
	endless := regexp.MustCompile(`[eE][+-]?\d{3,}`)
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 32 || endless.MatchString(s) {
			return
		}
		var resources v1alpha1.Resources
		if json.Unmarshal([]byte(`{"cpuRequest":`+string(must(json.Marshal(s)))+`,"memoryLimit":`+string(must(json.Marshal(s)))+`}`), &resources) != nil {
			return
		}
		got := podview.FromResources(resources)
		for _, r := range recommender.Resources {
			require.GreaterOrEqual(t, got[r].Request, recommender.Amount(0))
			require.LessOrEqual(t, got[r].Limit, recommender.MaxAmount)
		}
		require.Equal(t, got, podview.FromResources(podview.ToResources(got)))
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
