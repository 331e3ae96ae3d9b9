package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	. "attune.io/attune/resize/lifecycle"
)

// twoPatches returns a resize of CPU and memory of app, and of memory only of the sidecar, in two patches.
func twoPatches(t *testing.T) (*corev1.Pod, []Plan, v1alpha1.ResizeRecord) {
	pod := withSidecar(running(prior), "proxy", size(100, 200, 128, 256))
	parts := Split(mustPlan(t, pod, []podview.Container{{Name: "app", Size: size(250, 500, 256, 512)}, {Name: "proxy", Size: size(0, 0, 64, 128)}}))
	require.Len(t, parts, 2)
	first := NewRecord(parts[0], pod, noon, auto())
	record := WithSecond(first, parts[1], pod)
	assert.Len(t, first.Desired, 1, "the record given stays as it is")
	return pod, parts, record
}

func TestWithSecond(t *testing.T) {
	_, _, record := twoPatches(t)
	resources := func(name string, s recommender.Size) v1alpha1.ContainerResources {
		return v1alpha1.ContainerResources{Name: name, Resources: podview.ToResources(s)}
	}
	assert.Equal(t, []v1alpha1.ContainerResources{resources("app", prior), resources("proxy", size(100, 200, 128, 256))}, record.Prior)
	assert.Equal(t, []v1alpha1.ContainerResources{resources("app", desired), resources("proxy", size(100, 200, 128, 256))}, record.Desired)
	assert.Equal(t, []v1alpha1.ContainerResources{resources("app", size(250, 500, 256, 512)), resources("proxy", size(100, 200, 64, 128))}, record.Then)
	require.Len(t, record.Baseline, 2)
	assert.Equal(t, "containerd://proxy-0", record.Baseline[1].ContainerID)
}

func TestTheSecondPatch(t *testing.T) {
	pod, parts, record := twoPatches(t)
	half := parts[0].Apply(pod)
	half.Generation = 2
	record = RecordReturned(record, half)
	assert.False(t, InSecondPatch(record))
	record.VerifiedOnce = &metav1.Time{Time: noon}

	sending := Advance(record, Action{Kind: SendRest}, noon.Add(time.Minute))
	assert.True(t, InSecondPatch(sending))
	assert.Equal(t, v1alpha1.RecordSecondWritten, sending.Phase)
	assert.Equal(t, noon.Add(time.Minute), sending.WrittenAt.Time)
	assert.Equal(t, noon.Add(3*time.Minute), sending.Deadline.Time)
	assert.Nil(t, sending.VerifiedOnce, "the whole is to be verified again")
	assert.Empty(t, sending.Then)
	assert.Equal(t, desired, podview.FromResources(record.Desired[0].Resources), "the record given stays as it is")

	half.ResourceVersion = "7"
	rest := RestPlan(half, sending)
	assert.Contains(t, string(rest.Patch()), `"resourceVersion":"7"`, "it is refused where it comes too late")
	assert.Equal(t, parts[1].Moves[0].To, rest.Moves[0].To)
	assert.True(t, rest.Moves[1].Sidecar, "41")
	whole := rest.Apply(half)
	assert.Equal(t, size(250, 500, 256, 512), specOf(whole)["app"])
	assert.Equal(t, size(100, 200, 64, 128), specOf(whole)["proxy"])
	assert.True(t, RestPlan(whole, sending).Empty())
	gone := with(half.DeepCopy(), func(p *corev1.Pod) { p.Spec.Containers[0].Name = "other" })
	assert.Len(t, RestPlan(gone, sending).Moves, 1, "79: a container that is gone is left out")

	assert.Equal(t, Unsent, Assess(half, sending, able(), noon).Kind)
	assert.Equal(t, Landed, Assess(whole, sending, able(), noon).Kind)
	foreign := with(half.DeepCopy(), func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = quantity("2") })
	assert.Equal(t, Superseded, Assess(foreign, sending, able(), noon).Kind, "19")

	back, refusal := RevertPlan(whole, sending, able())
	require.Nil(t, refusal)
	assert.Equal(t, specOf(pod), specOf(back.Apply(whole)), "both are put back together")
}

func TestSecondRefused(t *testing.T) {
	pod, parts, record := twoPatches(t)
	half := parts[0].Apply(pod)
	half.Generation = 2
	sending := Advance(RecordReturned(record, half), Action{Kind: SendRest}, noon)
	left := SecondRefused(sending, half)
	assert.Equal(t, v1alpha1.RecordApplied, left.Phase)
	assert.Equal(t, desired, podview.FromResources(left.Desired[0].Resources))
	assert.Equal(t, size(100, 200, 128, 256), podview.FromResources(left.Desired[1].Resources))
	assert.Equal(t, size(250, 500, 256, 512), podview.FromResources(sending.Desired[0].Resources), "the record given stays as it is")
	assert.NotEqual(t, Superseded, Assess(half, left, able(), noon).Kind)
}

// low is the size between two patches; the second one raises the CPU limit to that of whole.
var low, whole = size(50, 100, 512, 1024), size(50, 200, 512, 1024)

// betweenPatches returns the record of a resize from a size to low, verified at noon, with a second patch to whole.
func betweenPatches(from recommender.Size, edit ...func(*v1alpha1.ResizeRecord)) v1alpha1.ResizeRecord {
	return recorded(low, append(edit, verified(0), func(r *v1alpha1.ResizeRecord) {
		r.Prior[0].Resources = podview.ToResources(from)
		r.Then = []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(whole)}}
	})...)
}

// started makes a record one of a StartPlan.
func started(r *v1alpha1.ResizeRecord) { r.Wave, r.Reason = WaveTemplate, ReasonNotRunning }

// noConfig: the kubelet cannot create the container.
func noConfig(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError"}}
}

func TestASecondPatchIsWithdrawnIfItsContainerDoesNotRun(t *testing.T) {
	pod := resized(low, done(low), noConfig)
	for name, first := range map[string]v1alpha1.ResizeRecord{
		"memory down, then CPU up": betweenPatches(size(50, 100, 1024, 2048)),
		"the start of a container": betweenPatches(whole, started),
	} {
		t.Run(name, func(t *testing.T) {
			sending := Advance(first, Action{Kind: SendRest}, noon)
			for _, record := range []v1alpha1.ResizeRecord{first, sending} {
				next := func(after time.Duration) Action {
					return Next(Assess(pod, record, able(), noon.Add(after)), record, auto(), Circumstances{}, noon.Add(after))
				}
				wait := next(DeferredFor - time.Second)
				assert.Equal(t, Wait, wait.Kind, record.Phase)
				assert.Equal(t, time.Second, wait.RequeueAfter)
				want := Action{Kind: Withdraw, Reason: ReasonNotRunning, RequeueAfter: PollEvery, Message: "the second patch raises the CPU limit of a container that is not running"}
				assert.Equal(t, want, next(DeferredFor), record.Phase)
				assert.Equal(t, want, next(24*time.Hour), record.Phase)
				assert.Zero(t, BlockOf(record, want.Reason, noon), "the node is not the cause")

				back, refusal := RevertPlan(pod, Advance(record, want, noon), able())
				require.Nil(t, refusal)
				assert.Equal(t, podview.FromResources(first.Prior[0].Resources), specOf(back.Apply(pod))["app"], record.Phase)
			}
		})
	}
}

func TestAFirstPatchThatNeverArrivedWaitsForNoContainer(t *testing.T) {
	from := size(50, 100, 1024, 2048)
	record := betweenPatches(from, phase(v1alpha1.RecordWritten), func(r *v1alpha1.ResizeRecord) { r.Generation = 0 })
	pod, at := with(running(from), noConfig), record.WrittenAt.Add(61*time.Second)
	action := Next(Assess(pod, record, able(), at), record, auto(), Circumstances{}, at)
	assert.Equal(t, Forget, action.Kind)
	assert.Equal(t, ReasonNotSent, action.Reason)
}

func TestARefusedRestoreOfAStartedContainerGoesOn(t *testing.T) {
	pod := resized(low, done(low))
	sending := Advance(betweenPatches(whole, started), Action{Kind: SendRest}, noon)
	assert.Equal(t, low, podview.FromResources(sending.Prior[0].Resources))

	unsent := *sending.DeepCopy()
	unsent.Attempts = 5
	action := Next(Assess(pod, unsent, able(), noon.Add(SyncPeriod)), unsent, auto(), Circumstances{}, noon.Add(SyncPeriod))
	assert.Equal(t, Action{Kind: Withdraw, Reason: ReasonNotRunning, RequeueAfter: PollEvery}, action)
	for _, record := range []v1alpha1.ResizeRecord{SecondRefused(sending, pod), Advance(unsent, action, noon)} {
		assert.Equal(t, v1alpha1.RecordWithdrawing, record.Phase)
		assert.Equal(t, ReasonNotRunning, record.Reason)
		assert.Equal(t, whole, podview.FromResources(record.Prior[0].Resources))
		assert.Equal(t, low, podview.FromResources(record.Desired[0].Resources))
		assert.Zero(t, record.Attempts)
		assert.Equal(t, record, Advance(record, action, noon), "turned round once")
		assert.Equal(t, NotRestored, Assess(pod, record, able(), noon).Kind)
		closed := Next(Assess(resized(whole, done(whole)), record, able(), noon), record, auto(), Circumstances{}, noon)
		assert.Equal(t, Action{Kind: Forget, Reason: ReasonNotRunning, Result: ResultWithdrawn}, closed)
		assert.False(t, CoolsDown(record, closed, auto()))
	}
	assert.Equal(t, whole, podview.FromResources(sending.Desired[0].Resources), "the record given stays as it is")
}

func TestOnlyAmountsOfTheRecordAreRestored(t *testing.T) {
	// Case 55: a limit that was added in between does not belong to the record.
	record := recorded(size(250, 0, 512, 0), func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(size(500, 0, 512, 0)) })
	left := SecondRefused(record, running(size(250, 800, 512, 900)))
	assert.Equal(t, size(250, 0, 512, 0), podview.FromResources(left.Desired[0].Resources))
}

func TestGivingUpLimits(t *testing.T) {
	for _, tc := range []struct {
		name     string
		from, to recommender.Size
		want     recommender.Size
		ok       bool
	}{
		{"CPU goes on", prior, size(250, 500, 256, 512), desired, true},
		{"nothing is left", prior, size(500, 1000, 256, 512), prior, false},
		{"no limit was lowered", prior, size(250, 500, 256, 1024), size(250, 500, 256, 1024), true},
		{"a limit that was added cannot be given up", size(500, 0, 512, 0), size(250, 0, 512, 1024), size(250, 0, 512, 0), false},
	} {
		record := recorded(tc.to, func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(tc.from) })
		record.Then = []v1alpha1.ContainerResources{{Name: "app"}}
		rest, ok := GivingUpLimits(record)
		assert.Equal(t, tc.ok, ok, tc.name)
		assert.Equal(t, tc.want, podview.FromResources(rest.Desired[0].Resources), tc.name)
		assert.Empty(t, rest.Then, "what was to follow is not sent")
		assert.Equal(t, tc.to, podview.FromResources(record.Desired[0].Resources), "the record given stays as it is")
	}
}

func TestALimitThatWasAddedAndFailsIsRaised(t *testing.T) {
	// The limit cannot be removed, so it is raised.
	record := recorded(size(250, 500, 512, 600), func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(size(500, 1000, 512, 0)) })
	assert.Equal(t, Revert, Next(State{Kind: Failed}, record, auto(), Circumstances{}, noon).Kind)
	for harm, want := range map[string]recommender.Amount{
		ReasonActuation: 1200 * mi, "oomkill": recommender.OOMFloor(600 * mi), "restart": 600 * mi,
	} {
		record.Reason, record.Phase = harm, v1alpha1.RecordReverting
		pod := resized(size(250, 500, 512, 600), done(size(250, 500, 512, 600)))
		plan, refusal := RevertPlan(pod, record, able())
		require.Nil(t, refusal)
		after := plan.Apply(pod)
		assert.Equal(t, want, specOf(after)["app"][recommender.Memory].Limit, harm)
		assert.Equal(t, recommender.Amount(500), specOf(after)["app"][recommender.CPU].Request, harm)
		_, refusal = RevertPlan(after, record, able())
		require.NotNil(t, refusal, "once")
		after.Generation = 3
		assert.NotEqual(t, Superseded, Assess(after, record, able(), noon).Kind, "what was raised is ours")
	}
}

func TestACPULimitThatWasAddedAndThrottlesIsRaised(t *testing.T) {
	record := recorded(size(250, 600, 512, 1024), reason("throttle"), func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(size(700, 0, 512, 1024)) })
	pod := running(size(250, 600, 512, 1024))
	plan, refusal := RevertPlan(pod, record, able())
	require.Nil(t, refusal)
	assert.Equal(t, size(700, 780, 512, 1024), specOf(plan.Apply(pod))["app"])
	record.Reason = "restart"
	plan, refusal = RevertPlan(pod, record, able())
	require.Nil(t, refusal)
	assert.Equal(t, size(700, 700, 512, 1024), specOf(plan.Apply(pod))["app"], "no request above its limit")
}

func TestRestored(t *testing.T) {
	record := recorded(size(250, 500, 256, 1024), phase(v1alpha1.RecordReverting))
	for _, tc := range []struct {
		name string
		spec recommender.Size
		want bool
	}{
		{"as desired", size(250, 500, 256, 1024), false},
		{"all is back", prior, true},
		{"one amount is back", size(250, 500, 512, 1024), true},
		{"a limit is back", size(250, 1000, 256, 1024), true},
		{"half-way", size(300, 600, 300, 1024), false},
	} {
		assert.Equal(t, tc.want, Assess(resized(tc.spec, done(tc.spec)), record, able(), noon).Restored, tc.name)
	}
}

func TestDropVerified(t *testing.T) {
	kept := func(s recommender.Size) []v1alpha1.VerifiedResources {
		return []v1alpha1.VerifiedResources{{Name: "app", Size: podview.ToResources(s), TemplateHash: "abc"}, {Name: "side", Size: podview.ToResources(s)}}
	}
	for _, tc := range []struct {
		name string
		kept recommender.Size
		left int
	}{
		{"the size that harmed", desired, 1},
		{"a smaller one", size(200, 400, 512, 1024), 1},
		{"a greater one", size(300, 600, 512, 1024), 2},
		{"one with more memory", size(200, 400, 600, 1024), 2},
	} {
		before := kept(tc.kept)
		assert.Len(t, harm.DropVerified(before, recorded(desired)), tc.left, tc.name)
		assert.Equal(t, kept(tc.kept), before, "the list given stays as it is")
	}
}

func TestDeadlineOfARecordWithoutOne(t *testing.T) {
	record := recorded(desired, func(r *v1alpha1.ResizeRecord) { r.Deadline = nil })
	assert.Equal(t, Wait, Next(State{Kind: Actuating}, record, auto(), Circumstances{}, noon.Add(59*time.Second)).Kind)
	assert.Equal(t, Withdraw, Next(State{Kind: Actuating}, record, auto(), Circumstances{}, noon.Add(time.Minute)).Kind)
}

func TestUnknownStateWaits(t *testing.T) {
	assert.Equal(t, Action{Kind: Wait, RequeueAfter: PollEvery}, Next(State{Kind: "Unheard"}, recorded(desired), auto(), Circumstances{}, noon))
}

func TestBaselineOfAContainerWithoutStatus(t *testing.T) {
	assert.Equal(t, v1alpha1.ContainerBaseline{Name: "app"}, BaselineOf("app", nil))
	crashed := statusOf("app", prior)
	crashed.RestartCount, crashed.State.Running = 4, nil
	assert.Equal(t, v1alpha1.ContainerBaseline{Name: "app", ContainerID: "containerd://app-0", RestartCount: 4, Ready: true}, BaselineOf("app", &crashed))
}

func TestARecordThatLacksAPriorSizeIsNotActedOn(t *testing.T) {
	record := recorded(desired, func(r *v1alpha1.ResizeRecord) { r.Prior = nil })
	_, refusal := RevertPlan(resized(desired), record, able())
	require.NotNil(t, refusal)
	assert.Equal(t, ReasonNothingBack, refusal.Reason)
}
