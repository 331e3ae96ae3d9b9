package tuning_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/climb"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/resize/resizetest"
	"attune.io/attune/tuning"
)

// uses adds memory samples of a pod's container in MiB, five seconds apart, up to the time of the view.
func uses(w *tuning.View, pod *corev1.Pod, amounts ...recommender.Amount) {
	var samples []climb.Sample
	for i, a := range amounts {
		samples = append(samples, climb.Sample{At: w.Now.Add(time.Duration(i+1-len(amounts)) * 5 * time.Second), Bytes: a * mi})
	}
	w.SetClimb(pod.UID, "app", tuning.Climb{Samples: samples})
}

// climbing returns a view of a pod with 300Mi requested and a limit of 450Mi that is about to be OOM-killed.
func climbing(t *testing.T, edits ...func(*tuning.View)) tuning.View {
	t.Helper()
	has := sizeOf(100, 200, 300, 450)
	pod := running("web-1", has)
	w := heading(seen(t, has, pod), has)
	w.Looked.Rooms = map[string]*resize.Room{"node-1": resize.RoomOf(w.Pods, nil, w.Now)}
	uses(&w, pod, 300, 320, 340, 360, 380, 400, 420)
	for _, edit := range edits {
		edit(&w)
	}
	return w
}

func TestAContainerIsRaisedBeforeItIsKilled(t *testing.T) {
	for name, edit := range map[string]func(*tuning.View){
		"at once": func(*tuning.View) {},
		"in a cooldown, a rollout, outside of the schedule and with old data": func(w *tuning.View) {
			w.Rec.Status.CooldownFrom = &metav1.Time{Time: now}
			w.Workload.Rollout.InProgress, w.Workload.Rollout.Reason = true, "1 of 2 replicas are updated"
			w.Policy.Settings.Resize.Schedule.Windows = []resize.Window{{Start: 1, End: 2}}
			w.Rec.Spec.DataUntil = &metav1.Time{Time: now.Add(-48 * time.Hour)}
		},
		"in the urgent part of a pass": func(w *tuning.View) { w.Part = tuning.UrgentPart },
		"in mode Canary":               func(w *tuning.View) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateCanary },
		"without a revert":             func(w *tuning.View) { w.Policy.Settings.Resize.AutoRevert = false },
		"where nothing else is known":  func(w *tuning.View) { w.Rec.Spec.Containers = nil },
		"a pod of a Job":               func(w *tuning.View) { w.Rec.Spec.Workload.Kind, w.Part = v1alpha1.KindJob, tuning.UrgentPart },
	} {
		t.Run(name, func(t *testing.T) {
			w := climbing(t, edit)
			assert.True(t, w.Climbing())
			d := tuning.Decide(w)
			require.Len(t, d.Writes, 1, "%v", told(d))
			move := d.Writes[0].Plan.Moves[0]
			assert.Equal(t, recommender.Allocation{Request: 420 * mi, Limit: 660 * mi}, move.To[recommender.Memory])
			assert.Equal(t, move.From[recommender.CPU], move.To[recommender.CPU])
			assert.False(t, d.Writes[0].Begins, "the operator's rate does not hold it up")
			require.Len(t, d.Status.Records, 1)
			assert.Equal(t, resize.ReasonClimb, d.Status.Records[0].Reason)
			require.Len(t, d.Status.Tries, 1)
			assert.Equal(t, v1alpha1.TryClimb, d.Status.Tries[0].What)
			assert.EqualValues(t, 1, d.Status.Tries[0].Times)
			assert.Contains(t, told(d), "Warning Resized Raising the memory limit of container app of pod web-1 before an OOM kill, 450Mi -> 660Mi: "+
				"memory usage 420Mi of 450Mi grows by 4.0Mi/s and would reach the limit in 7 s")
		})
	}
}

func TestWhatIsNotRaised(t *testing.T) {
	for name, c := range map[string]struct {
		edit    func(*tuning.View)
		refused string
		silent  bool // the samples alone do not show that it is not raised
	}{
		"Off":                           {edit: func(w *tuning.View) { w.Policy.Settings.Resize.RaiseBeforeKill = false }},
		"mode OneShot":                  {edit: func(w *tuning.View) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateOneShot }},
		"an excluded container":         {edit: func(w *tuning.View) { w.Policy.Settings.Resize.Excluded = map[string]bool{"app": true} }},
		"a paused policy":               {edit: func(w *tuning.View) { w.Policy.Settings.Resize.Paused = []string{"policy"} }, refused: resize.ReasonPaused, silent: true},
		"a pod that is skipped":         {edit: func(w *tuning.View) { w.Pods[0].Annotations[v1alpha1.SkipAnnotation] = "true" }, refused: resize.ReasonSkipped, silent: true},
		"maxAllowed":                    {edit: func(w *tuning.View) { w.Policy.Settings.Recommender.Of[recommender.Memory].MaxAllowed = 450 * mi }, refused: resize.ReasonClimbBound},
		"controlledValues RequestsOnly": {edit: func(w *tuning.View) { w.Policy.Settings.Recommender.Of[recommender.Memory].LimitsFollow = false }, refused: resize.ReasonClimbLimits},
		"its peak of seven days was higher": {edit: func(w *tuning.View) {
			peak := podview.Quantity(recommender.Memory, 430*mi)
			w.Rec.Spec.Containers[0].Demand = &v1alpha1.ContainerDemand{MemoryMax7d: &peak}
		}},
		"its peak was higher": {edit: func(w *tuning.View) {
			floor := podview.Quantity(recommender.Memory, 449*mi)
			w.Rec.Spec.Containers[0].MemoryLimitFloor = &floor
			uses(w, w.Pods[0], 290, 310, 330, 350, 370, 390, 409)
		}},
		"a quota without room": {edit: func(w *tuning.View) {
			w.Namespace.Quotas = []corev1.ResourceQuota{resizetest.QuotaOf(corev1.ResourceLimitsMemory, "500Mi", "450Mi")}
		}, refused: resize.ReasonQuota, silent: true},
		"a node without room": {edit: func(w *tuning.View) { w.Nodes["node-1"] = tuning.Node{Node: node("node-1", "16", "400Mi")} }, refused: resize.ReasonNodeCapacity, silent: true},
		"a resize of its own": {edit: func(w *tuning.View) {
			w.Rec.Status.Records = []v1alpha1.ResizeRecord{recordOf(w.Pods[0], sizeOf(120, 200, 300, 450))}
		}, silent: true},
		"three raises before": {refused: resize.ReasonLeak, edit: func(w *tuning.View) {
			w.Rec.Status.Tries = []v1alpha1.Try{{What: v1alpha1.TryClimb, Pod: "web-1", PodUID: "web-1", Container: "app", Times: 3,
				Since: metav1.NewTime(now.Add(-time.Hour)), Until: metav1.NewTime(now.Add(23 * time.Hour))}}
		}},
		"a change that restarts it": {refused: resize.ReasonClimbRestarts, edit: func(w *tuning.View) {
			w.Pods[0].Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := climbing(t, c.edit)
			assert.Equal(t, c.silent, w.Climbing())
			d := tuning.Decide(w)
			assert.Empty(t, d.Writes, "%v", told(d))
			if c.refused != "" {
				assert.Equal(t, c.refused, condition(t, d).Reason)
			}
		})
	}
}

// A leak is reported with the fix, and it blocks no other resize.
func TestALeakIsTold(t *testing.T) {
	w := climbing(t, func(w *tuning.View) {
		amount := podview.Quantity(recommender.Memory, 450*mi)
		w.Rec.Status.Tries = []v1alpha1.Try{{What: v1alpha1.TryClimb, Pod: "web-1", PodUID: "web-1", Container: "app", Times: 3, Amount: &amount,
			Since: metav1.NewTime(now.Add(-time.Hour)), Until: metav1.NewTime(now.Add(23 * time.Hour))}}
	})
	d := tuning.Decide(w)
	says := "container app: its memory was raised 3 times before an OOM kill since 2026-03-01T11:00:00Z, up to 450Mi, and still grows, which looks like a memory leak. " +
		"Fix the leak, or set a higher limit. attune raises it again after 2026-03-02T11:00:00Z, or in a new pod"
	assert.Equal(t, says, condition(t, d).Message)
	assert.Contains(t, strings.Join(told(d), "\n"), says)
	w = heading(w, sizeOf(300, 600, 300, 450))
	d = tuning.Decide(w)
	require.Len(t, d.Writes, 1, "its CPU is raised as ever")
	assert.Equal(t, recommender.Amount(450*mi), d.Writes[0].Plan.Moves[0].To[recommender.Memory].Limit)
}

// An OOM kill that a raise did not prevent is answered first.
func TestAKillIsAnsweredFirst(t *testing.T) {
	w := climbing(t, func(w *tuning.View) {
		endedBefore(w.Pods[0], "OOMKilled", 1, time.Minute)
		*w = heading(*w, sizeOf(100, 200, 600, 900))
	})
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1)
	assert.NotEqual(t, resize.ReasonClimb, d.Status.Records[0].Reason)
	assert.Equal(t, v1alpha1.TryOOMAnswer, d.Status.Tries[0].What)
}

// A Guaranteed pod stays Guaranteed: its request changes with the limit.
func TestAGuaranteedPodStaysGuaranteed(t *testing.T) {
	has := sizeOf(200, 200, 450, 450)
	pod := running("web-1", has)
	w := heading(seen(t, has, pod), has)
	w.Looked.Rooms = map[string]*resize.Room{"node-1": resize.RoomOf(w.Pods, nil, w.Now)}
	uses(&w, pod, 300, 320, 340, 360, 380, 400, 420)
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%v", told(d))
	assert.Equal(t, recommender.Allocation{Request: 660 * mi, Limit: 660 * mi}, d.Writes[0].Plan.Moves[0].To[recommender.Memory])
	assert.Equal(t, corev1.PodQOSGuaranteed, podview.QOSClass(d.Writes[0].Plan.Apply(pod)))
	w.Nodes["node-1"] = tuning.Node{Node: node("node-1", "16", "600Mi")}
	d = tuning.Decide(w)
	assert.Empty(t, d.Writes)
	assert.Equal(t, resize.ReasonNodeCapacity, condition(t, d).Reason)
}

// raised returns a view of a pod some time after its raise. The observation ends after five minutes.
func raised(t *testing.T, after time.Duration, edits ...func(*tuning.View)) tuning.View {
	t.Helper()
	w := climbing(t)
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1)
	pod := d.Writes[0].Plan.Apply(w.Pods[0])
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{*pod.Status.ContainerStatuses[0].DeepCopy()}
	resources := podview.ToRequirements(d.Writes[0].Plan.Moves[0].To)
	pod.Status.ContainerStatuses[0].Resources, pod.Status.ContainerStatuses[0].AllocatedResources = &resources, resources.Requests
	record := lifecycle.RecordReturned(d.Status.Records[0], pod)
	record.Phase, record.VerifiedOnce, record.Deadline = v1alpha1.RecordWatching, &metav1.Time{Time: now.Add(5 * time.Second)}, nil
	record.WatchUntil = &metav1.Time{Time: now.Add(5 * time.Minute)}
	w.Rec.Status = stored(t, d.Status)
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
	w.Pods, w.Now = []*corev1.Pod{pod}, now.Add(after)
	w.Usage.Climbs, w.Usage.Memory[pod.UID] = nil, map[string]recommender.Amount{"app": 200 * mi}
	for _, edit := range edits {
		edit(&w)
	}
	return w
}

// stored returns a status as another process reads it.
func stored(t *testing.T, status v1alpha1.AttuneRecommendationStatus) (out v1alpha1.AttuneRecommendationStatus) {
	t.Helper()
	raw, err := json.Marshal(status)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &out))
	return out
}

func flat(amount recommender.Amount) []recommender.Amount {
	all := make([]recommender.Amount, 40)
	for i := range all {
		all[i] = amount
	}
	return all
}

func TestASpikeIsGivenBack(t *testing.T) {
	w := raised(t, 6*time.Minute, func(w *tuning.View) { uses(w, w.Pods[0], flat(200)...) })
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%v", told(d))
	assert.Equal(t, recommender.Allocation{Request: 300 * mi, Limit: 450 * mi}, d.Writes[0].Plan.Moves[0].To[recommender.Memory],
		"without allowDecrease, within the cooldown that the end of the raise began")
	require.Len(t, d.Status.Records, 1)
	assert.Equal(t, resize.WaveSpike, d.Status.Records[0].Wave)
	assert.Equal(t, resize.ReasonSpike, d.Status.Records[0].Reason)
	require.NotEmpty(t, d.Status.History)
	assert.Equal(t, resize.ReasonClimb, d.Status.History[0].Reason)
	assert.Contains(t, told(d), "Normal Resized Restoring the memory limits of pod web-1, because the growth was a spike: container app 660Mi -> 450Mi")
	assert.True(t, d.Writes[0].Plan.LowersMemoryLimit())

	t.Run("the way back was never sent", func(t *testing.T) {
		next := w
		rec := *w.Rec
		next.Rec = &rec
		next.Rec.Status = stored(t, d.Status)
		next.Now = w.Now.Add(2 * time.Minute)
		next.Looked.Live = map[types.UID]bool{"web-1": true}
		next.Usage.Climbs = nil
		again := tuning.Decide(next)
		require.Len(t, again.Writes, 1, "%v", told(again))
		assert.Equal(t, recommender.Amount(450*mi), again.Writes[0].Plan.Moves[0].To[recommender.Memory].Limit)
		assert.Equal(t, resize.WaveSpike, again.Status.Records[0].Wave)
	})
}

func TestARaiseStays(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		edit  func(*tuning.View)
		open  bool
		says  string
	}{
		"its watch goes on":                      {after: 4 * time.Minute, edit: func(w *tuning.View) { uses(w, w.Pods[0], flat(200)...) }, open: true},
		"it is needed: it is watched for longer": {after: 6 * time.Minute, edit: func(w *tuning.View) { uses(w, w.Pods[0], flat(500)...) }, open: true},
		"nothing is known of its usage":          {after: 6 * time.Minute, edit: func(*tuning.View) {}, open: true},
		"half an hour is over": {after: 31 * time.Minute, edit: func(w *tuning.View) {
			w.Rec.Status.Records[0].Extended, w.Rec.Status.Records[0].WatchUntil = true, &metav1.Time{Time: now.Add(30 * time.Minute)}
			uses(w, w.Pods[0], flat(500)...)
		}},
		"it was given back before within the day": {after: 6 * time.Minute, edit: func(w *tuning.View) { w.Rec.Status.Tries[0].Before = nil; uses(w, w.Pods[0], flat(200)...) },
			says: "its memory was already lowered again within the last 24h"},
		"a kubelet that lowers no memory limit": {after: 6 * time.Minute, edit: func(w *tuning.View) {
			w.Operator.ServerVersion, w.Nodes["node-1"].Status.NodeInfo.KubeletVersion = "v1.33.4", "v1.33.4"
			uses(w, w.Pods[0], flat(200)...)
		}, says: "lowering a memory limit safely needs Kubernetes 1.34"},
		"the policy was paused": {after: 6 * time.Minute, edit: func(w *tuning.View) {
			w.Policy.Settings.Resize.Paused = []string{"policy"}
			uses(w, w.Pods[0], flat(200)...)
		},
			says: "paused by the policy settings"},
	} {
		t.Run(name, func(t *testing.T) {
			d := tuning.Decide(raised(t, c.after, c.edit))
			for _, write := range d.Writes {
				assert.False(t, write.Plan.LowersMemoryLimit())
			}
			assert.Equal(t, c.open, len(d.Status.Records) > 0)
			if c.says != "" {
				assert.Contains(t, strings.Join(told(d), "\n"), "keeps its raised memory, although the growth was a spike: "+c.says)
			}
		})
	}
}

// The restored size is not known to be too small, and was not replaced since.
func TestWhatASpikeIsGivenBack(t *testing.T) {
	floor := func(amount recommender.Amount) func(*tuning.View) {
		return func(w *tuning.View) {
			q := podview.Quantity(recommender.Memory, amount*mi)
			w.Rec.Spec.Containers[0].MemoryLimitFloor = &q
		}
	}
	for name, c := range map[string]struct {
		edit func(*tuning.View)
		to   recommender.Allocation
		says string
	}{
		"the spike is a part of the history": {edit: floor(572), to: recommender.Allocation{Request: 300, Limit: 572}},
		"almost all of it is needed":         {edit: floor(640), says: "its history and OOM kills show that it needs almost all of it"},
		"more than that is needed":           {edit: floor(900), says: "its history and OOM kills show that it needs almost all of it"},
		"a kill has taught more": {edit: func(w *tuning.View) {
			w.Rec.Status.Floors = []v1alpha1.Floor{{Container: "app", Resource: "memory", Reason: string(resize.HarmOOM), Amount: podview.Quantity(recommender.Memory, 500*mi),
				LearnedAt: metav1.NewTime(w.Now)}}
		}, to: recommender.Allocation{Request: 300, Limit: 500}},
		"its target requests more": {edit: func(w *tuning.View) {
			request := podview.Quantity(recommender.Memory, 350*mi)
			w.Rec.Spec.Containers[0].Target.MemoryRequest = &request
		}, to: recommender.Allocation{Request: 350, Limit: 450}},
	} {
		t.Run(name, func(t *testing.T) {
			d := tuning.Decide(raised(t, 6*time.Minute, func(w *tuning.View) { uses(w, w.Pods[0], flat(200)...) }, c.edit))
			if c.says != "" {
				assert.Contains(t, strings.Join(told(d), "\n"), "keeps its raised memory, although the growth was a spike: "+c.says)
				for _, write := range d.Writes {
					assert.False(t, write.Plan.LowersMemoryLimit())
				}
				return
			}
			require.Len(t, d.Writes, 1, "%v", told(d))
			assert.Equal(t, recommender.Allocation{Request: c.to.Request * mi, Limit: c.to.Limit * mi}, d.Writes[0].Plan.Moves[0].To[recommender.Memory])
		})
	}
}

// However many pods climb in one reconcile, a pod that was never raised is raised: it is not a leak.
func TestManyPodsThatClimb(t *testing.T) {
	has := sizeOf(100, 200, 300, 450)
	var pods []*corev1.Pod
	for i := range 40 {
		pods = append(pods, running(fmt.Sprintf("web-%d", i), has))
	}
	w := heading(seen(t, has, pods...), has)
	w.Looked.Rooms = map[string]*resize.Room{"node-1": resize.RoomOf(w.Pods, nil, w.Now)}
	w.Nodes["node-1"] = tuning.Node{Node: node("node-1", "1600", "4000Gi")}
	for _, pod := range pods {
		uses(&w, pod, 300, 320, 340, 360, 380, 400, 420)
	}
	d := tuning.Decide(w)
	require.Greater(t, len(d.Writes), v1alpha1.MaxTries)
	fresh := climbing(t)
	fresh.Rec.Status.Tries = d.Status.Tries
	for i := range fresh.Rec.Status.Tries {
		fresh.Rec.Status.Tries[i].Times = 3
	}
	fresh.Pods[0].Name, fresh.Pods[0].UID = "web-99", "web-99"
	uses(&fresh, fresh.Pods[0], 300, 320, 340, 360, 380, 400, 420)
	d = tuning.Decide(fresh)
	assert.Len(t, d.Writes, 1, "%v", told(d))
	assert.Len(t, d.Status.Tries, 1, "the rows of pods that are gone are, too")
}

// A raise evicts no pod: the successor would be created without it. Its record ends as soon as the pod has its old
// size, so that an OOM kill is answered.
func TestNoPodIsEvictedForARaise(t *testing.T) {
	for name, seeded := range map[string]string{"a successor of the old size": "300Mi", "a successor that is large enough": "1Gi"} {
		t.Run(name, func(t *testing.T) {
			w := climbing(t, func(w *tuning.View) {
				w.Policy.Settings.Resize.Method = v1alpha1.ResizeInPlaceOrRecreate
				w.Operator.MayEvict = true
				w.Looked.Cluster = []*corev1.Node{w.Nodes["node-1"].Node, node("node-2", "8", "64Gi")}
				w.Pods, w.Workload.Replicas = append(w.Pods, running("web-2", sizeOf(100, 200, 300, 450))), 2
				memory := resource.MustParse(seeded)
				w.Rec.Spec.Seed = &v1alpha1.Seed{Revision: "r", ValidUntil: metav1.NewTime(now.Add(time.Hour)), Containers: []v1alpha1.ContainerSeed{{Name: "app", MemoryRequest: &memory}}}
			})
			d := tuning.Decide(w)
			require.Len(t, d.Status.Records, 1)
			answered := *d.Status.DeepCopy()
			tuning.Answer(&answered, w, d.Writes[0], nil, resize.Outcome{Kind: resize.OutcomeInfeasible, Reason: resize.ReasonInfeasible}, now)
			assert.Empty(t, answered.Records, "the API server knows that it never fits")

			w.Rec.Status = d.Status
			w.Rec.Status.Records[0].Phase, w.Rec.Status.Records[0].Reason = v1alpha1.RecordWithdrawing, resize.ReasonDeferred
			w.Now = now.Add(6 * time.Minute)
			d = tuning.Decide(w)
			assert.Empty(t, d.Evictions)
			assert.Empty(t, d.Status.Records)
			require.NotEmpty(t, d.Status.History)
			assert.Equal(t, "Withdrawn", d.Status.History[0].Result)
		})
	}
}

// The request stays if an HPA scales on it: a different one would change the number of replicas.
func TestARequestThatIsScaledOnStays(t *testing.T) {
	w := climbing(t, func(w *tuning.View) {
		w.Rec.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "memory", Reason: resize.ReasonHPA}}
	})
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%v", told(d))
	assert.Equal(t, recommender.Allocation{Request: 300 * mi, Limit: 660 * mi}, d.Writes[0].Plan.Moves[0].To[recommender.Memory])
}

// Memory is restored when the spike ends, also after the first observation.
func TestALateSpikeIsGivenBack(t *testing.T) {
	w := raised(t, 6*time.Minute, func(w *tuning.View) { uses(w, w.Pods[0], flat(500)...) })
	d := tuning.Decide(w)
	require.Len(t, d.Status.Records, 1)
	require.True(t, d.Status.Records[0].Extended)
	assert.Equal(t, 31*time.Minute, d.Status.Records[0].WatchUntil.Sub(now))
	assert.LessOrEqual(t, d.After, time.Minute, "it is looked at until then")
	w.Rec.Status, w.Now = stored(t, d.Status), now.Add(15*time.Minute)
	uses(&w, w.Pods[0], flat(200)...)
	d = tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%v", told(d))
	assert.Equal(t, resize.WaveSpike, d.Status.Records[0].Wave)
}

// While a gate refuses the restore, the observation goes on. Otherwise the pod would stay raised.
func TestASpikeWaitsForTheGates(t *testing.T) {
	for name, refuse := range map[string]func(w *tuning.View){
		"its node is not ready": func(w *tuning.View) {
			down := w.Nodes["node-1"]
			down.Node = down.Node.DeepCopy()
			for i := range down.Node.Status.Conditions {
				down.Node.Status.Conditions[i].Status = corev1.ConditionFalse
			}
			w.Nodes = map[string]tuning.Node{"node-1": down}
		},
		"it holds page cache": func(w *tuning.View) {
			w.Usage.Memory = map[types.UID]map[string]recommender.Amount{"web-1": {"app": 440 * mi}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := raised(t, 6*time.Minute, func(w *tuning.View) { uses(w, w.Pods[0], flat(200)...) })
			refused := w
			refuse(&refused)
			d := tuning.Decide(refused)
			require.Empty(t, d.Writes, "%v", told(d))
			require.Len(t, d.Status.Records, 1)
			assert.Equal(t, resize.ReasonClimb, d.Status.Records[0].Reason)

			w.Rec.Status, w.Now = stored(t, d.Status), w.Now.Add(time.Minute)
			uses(&w, w.Pods[0], flat(200)...)
			d = tuning.Decide(w)
			require.Len(t, d.Writes, 1, "%v", told(d))
			assert.Equal(t, resize.WaveSpike, d.Status.Records[0].Wave)
		})
	}
}

// A container that still climbs is raised again, and the observation of its first raise ends.
func TestWhatClimbsOnIsRaisedOnceMore(t *testing.T) {
	for name, part := range map[string]tuning.Part{"whole": tuning.WholePass, "urgent": tuning.UrgentPart} {
		t.Run(name, func(t *testing.T) {
			w := raised(t, time.Minute, func(w *tuning.View) { uses(w, w.Pods[0], 420, 450, 480, 510, 540, 570, 600, 630) })
			w.Part = part
			d := tuning.Decide(w)
			require.Len(t, d.Writes, 1, "%v", told(d))
			assert.Greater(t, d.Writes[0].Plan.Moves[0].To[recommender.Memory].Limit, recommender.Amount(660*mi*13/10-1))
			require.Len(t, d.Status.Records, 1)
			require.Len(t, d.Status.Tries, 1)
			assert.EqualValues(t, 2, d.Status.Tries[0].Times)
		})
	}
}

// A raise also ends the observation of another resize, because the same container is about to be killed.
func TestTheWatchOfAStepEndsForARaise(t *testing.T) {
	has := sizeOf(120, 200, 300, 450)
	pod := running("web-1", has)
	w := heading(seen(t, has, pod), has)
	w.Looked.Rooms = map[string]*resize.Room{"node-1": resize.RoomOf(w.Pods, nil, w.Now)}
	uses(&w, pod, 300, 320, 340, 360, 380, 400, 420)
	record := recordOf(running("web-1", sizeOf(150, 200, 300, 450)), has)
	record.Phase, record.WatchUntil, record.VerifiedOnce = v1alpha1.RecordWatching, &metav1.Time{Time: now.Add(time.Minute)}, &metav1.Time{Time: now}
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%v", told(d))
	assert.Equal(t, resize.ReasonClimb, d.Status.Records[0].Reason)
}

// lowered returns a view of a pod that was lowered from 900Mi to 450Mi, is under observation, and climbs.
func lowered(t *testing.T, edits ...func(*tuning.View)) tuning.View {
	t.Helper()
	return climbing(t, append([]func(*tuning.View){func(w *tuning.View) {
		record := recordOf(running("web-1", sizeOf(100, 200, 600, 900)), sizeOf(100, 200, 300, 450))
		record.Phase, record.WatchUntil, record.VerifiedOnce = v1alpha1.RecordWatching, &metav1.Time{Time: now.Add(5 * time.Minute)}, &metav1.Time{Time: now}
		w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
	}}, edits...)...)
}

// A refused raise ends no observation: the OOM kill then leads to a revert.
func TestARefusedRaiseEndsNoWatch(t *testing.T) {
	for name, edit := range map[string]func(*tuning.View){
		"a paused policy": func(w *tuning.View) { w.Policy.Settings.Resize.Paused = []string{"policy"} },
		"a workload on its own": func(w *tuning.View) {
			w.Rec.Status.Paused = &v1alpha1.PausedState{Since: metav1.NewTime(now), Reason: "reverts"}
		},
		"a pod that is skipped": func(w *tuning.View) { w.Pods[0].Annotations[v1alpha1.SkipAnnotation] = "true" },
		"a node without room":   func(w *tuning.View) { w.Nodes["node-1"] = tuning.Node{Node: node("node-1", "16", "400Mi")} },
		"a node that is unread": func(w *tuning.View) {
			w.Looked.Unread.Nodes["node-1"] = resize.RefuseForNow(resize.ReasonNotKnown, "no answer")
		},
		"a pass that begins late": func(w *tuning.View) { w.Begin.Wait = time.Minute },
		"a quota without room": func(w *tuning.View) {
			w.Namespace.Quotas = []corev1.ResourceQuota{resizetest.QuotaOf(corev1.ResourceLimitsMemory, "500Mi", "450Mi")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := lowered(t, edit)
			d := tuning.Decide(w)
			assert.Empty(t, d.Writes)
			require.Len(t, d.Status.Records, 1)
			assert.Equal(t, v1alpha1.RecordWatching, d.Status.Records[0].Phase)
			assert.Empty(t, d.Status.History)

			w.Rec.Status, w.Usage.Climbs, w.Now = stored(t, d.Status), nil, now.Add(30*time.Second)
			w.Looked.Live = map[types.UID]bool{"web-1": true}
			status := &w.Pods[0].Status.ContainerStatuses[0]
			status.RestartCount = 1
			status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
				Reason: "OOMKilled", ExitCode: 137, ContainerID: "containerd://web-1", StartedAt: metav1.NewTime(now.Add(-time.Hour)), FinishedAt: metav1.NewTime(now.Add(20 * time.Second)),
			}
			status.ContainerID, status.State.Running.StartedAt = "containerd://web-1-1", metav1.NewTime(now.Add(21*time.Second))
			d = tuning.Decide(w)
			require.Len(t, d.Status.Records, 1)
			assert.Equal(t, v1alpha1.RecordReverting, d.Status.Records[0].Phase, "%v", told(d))
			assert.NotNil(t, d.Status.Backoff)
		})
	}
}

// Two pods under observation climb, and the quota has room for one raise. The observation of the other pod goes on.
func TestAWatchEndsOnlyForARaiseThatHasRoom(t *testing.T) {
	has := sizeOf(100, 200, 300, 450)
	pods := []*corev1.Pod{running("web-1", has), running("web-2", has)}
	w := heading(seen(t, has, pods...), has)
	w.Looked.Rooms = map[string]*resize.Room{"node-1": resize.RoomOf(w.Pods, nil, w.Now)}
	w.Namespace.Quotas = []corev1.ResourceQuota{resizetest.QuotaOf(corev1.ResourceLimitsMemory, "1200Mi", "900Mi")}
	for _, pod := range pods {
		uses(&w, pod, 300, 320, 340, 360, 380, 400, 420)
		record := recordOf(running(pod.Name, sizeOf(100, 200, 600, 900)), has)
		record.Phase, record.WatchUntil, record.VerifiedOnce = v1alpha1.RecordWatching, &metav1.Time{Time: now.Add(5 * time.Minute)}, &metav1.Time{Time: now}
		w.Rec.Status.Records = append(w.Rec.Status.Records, record)
	}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%v", told(d))
	require.Len(t, d.Status.Records, 2)
	assert.Equal(t, v1alpha1.RecordWatching, d.Status.Records[0].Phase)
	assert.Equal(t, resize.ReasonClimb, d.Status.Records[1].Reason)
}

// After a crash between record and patch, the next process sees that no patch arrived, and decides again.
func TestACrashBeforeARaiseIsSent(t *testing.T) {
	w := climbing(t)
	d := tuning.Decide(w)
	w.Rec.Status = stored(t, d.Status)
	waits := tuning.Decide(w)
	assert.Empty(t, waits.Writes, "the patch may be on its way")
	w.Now = now.Add(2 * time.Minute)
	w.Looked.Live["web-1"] = true
	uses(&w, w.Pods[0], 300, 320, 340, 360, 380, 400, 430)
	again := tuning.Decide(w)
	require.Len(t, again.Writes, 1, "%v", told(again))
	assert.Equal(t, resize.ReasonClimb, again.Status.Records[0].Reason)
}

// An OOM kill during the observation of a raise is a regression like any other, but its revert lowers no limit.
func TestARaiseThatIsKilledTeachesItsFloor(t *testing.T) {
	w := raised(t, time.Minute, func(w *tuning.View) {
		status := &w.Pods[0].Status.ContainerStatuses[0]
		status.RestartCount = 1
		status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: "OOMKilled", ExitCode: 137, ContainerID: "containerd://web-1", StartedAt: metav1.NewTime(now.Add(-time.Hour)), FinishedAt: metav1.NewTime(now.Add(50 * time.Second)),
		}
		status.ContainerID, status.State.Running.StartedAt = "containerd://web-1-1", metav1.NewTime(now.Add(51*time.Second))
	})
	d := tuning.Decide(w)
	require.NotEmpty(t, d.Status.Floors)
	for _, write := range d.Writes {
		assert.False(t, write.Plan.LowersMemoryLimit())
	}
}

// createdWith returns the originals entry of a pod.
func createdWith(pod *corev1.Pod, original recommender.Size) []v1alpha1.Originals {
	return []v1alpha1.Originals{{TemplateHash: podview.TemplateHash(pod),
		Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(original)}}}}
}

// A raise before an OOM kill ends at twice the original limit. An OOM kill lifts that ceiling.
func TestARaiseBeforeAKillEndsAtTheBrake(t *testing.T) {
	created := func(w *tuning.View) { w.Rec.Status.Originals = createdWith(w.Pods[0], sizeOf(100, 200, 150, 225)) }
	w := climbing(t, created)
	d := tuning.Decide(w)
	assert.Empty(t, d.Writes)
	assert.Equal(t, resize.ReasonFollowsLimit, condition(t, d).Reason)
	assert.Contains(t, condition(t, d).Message, "attune raises its limit above 450Mi only after an OOM kill. Set a higher limit in the template, or")

	w = climbing(t, created, func(w *tuning.View) {
		w.Rec.Status.Floors = []v1alpha1.Floor{{Container: "app", Resource: "memory", Reason: "oomkill", LearnedAt: metav1.NewTime(now.Add(-40 * 24 * time.Hour)),
			Amount: podview.Quantity(recommender.Memory, recommender.OOMFloor(450*mi))}}
	})
	d = tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%v", told(d))
	assert.EqualValues(t, 585*mi, d.Writes[0].Plan.Moves[0].To[recommender.Memory].Limit, "1.3 times the limit at the kill, weeks later as well")
}

// An OOM kill of a container with both resources blocked is answered with the floor of the memory limit.
func TestAKillAtTheBrakeIsAnswered(t *testing.T) {
	live := sizeOf(100, 200, 300, 450)
	pod := endedBefore(running("web-1", live), "OOMKilled", 1, time.Minute)
	w := heading(seen(t, live, pod), sizeOf(100, 200, 400, 585))
	w.Policy.Settings.Recommender.Of[recommender.Memory].LimitsFollow = true
	floor := podview.Quantity(recommender.Memory, 585*mi)
	w.Rec.Spec.Containers[0].MemoryLimitFloor = &floor
	w.Rec.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: resize.ReasonHPA}, {Resource: "memory", Reason: resize.ReasonFollowsLimit}}
	w.Rec.Status.Originals = createdWith(pod, live)
	wishes := tuning.NewPass(w, w.Rec.Status).Wishes(pod)
	require.Len(t, wishes, 1)
	assert.Equal(t, sizeOf(100, 200, 300, 585), wishes[0].Size)
}
