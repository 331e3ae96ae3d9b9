package workload

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/usage"
)

// recordOf is the record of a resize that was just sent.
func recordOf(pod *corev1.Pod, to recommender.Size) v1alpha1.ResizeRecord {
	plan, refusal := resize.PlanFor(pod, []podview.Container{{Name: "app", Size: to}}, resize.CapabilitiesOf(node("node-1", "16", "64Gi"), "v1.36.3"), now)
	if refusal != nil {
		panic(refusal)
	}
	return resize.NewRecord(plan, pod, now, resize.Rules{})
}

// eager has a policy resize every pod at once.
func eager(w world) world {
	w.settings.Resize.MaxConcurrentPercent, w.settings.Resize.CanaryPercent = 100, 100
	for r := range w.settings.Recommender.Of {
		w.settings.Recommender.Of[r].MaxChangePercent, w.settings.Recommender.Of[r].AllowDecrease = 300, true
	}
	w.seenLive, w.memory, w.rooms = map[types.UID]bool{}, map[types.UID]map[string]recommender.Amount{}, map[string]*resize.Room{}
	return w
}

func begun(d decision) (pods []string) {
	for _, w := range d.writes {
		pods = append(pods, w.plan.PodName)
	}
	return pods
}

func blocked(d decision) string {
	if c := meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionResizeBlocked); c.Status == metav1.ConditionTrue {
		return c.Reason
	}
	return ""
}

var small, big = sizeOf(500, 0, 512, 0), sizeOf(1000, 0, 512, 0)

func quotaOf(name, hard, used string) corev1.ResourceQuota {
	q := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}}
	q.Status.Hard = corev1.ResourceList{"requests.cpu": resource.MustParse(hard)}
	q.Status.Used = corev1.ResourceList{"requests.cpu": resource.MustParse(used)}
	return q
}

// The gates see what they are about.
func TestGatesAreFed(t *testing.T) {
	static := resize.NodeFacts{Policies: resize.Policies{StaticCPU: true}}
	refusing := resize.NodeFacts{Blocks: map[string]resize.NodeBlock{"shop": {Growth: now.Add(time.Minute)}}}
	for _, tc := range []struct {
		name   string
		size   recommender.Size
		edit   func(*world)
		begins int
		reason string
	}{
		{"all is well", small, func(*world) {}, 2, ""},
		{"the node is full", small, func(w *world) { w.rooms["node-1"] = roomWith(15_500, w.pods...) }, 0, resize.ReasonNoRoom},
		{"room for one: no two plans of a pass are given it", small, func(w *world) { w.rooms["node-1"] = roomWith(14_500, w.pods...) }, 1, resize.ReasonNoRoom},
		{"room for one: it was promised to another workload", small, func(w *world) {
			w.rooms["node-1"] = resize.RoomOf(append([]*corev1.Pod{taking(14_000)}, w.pods...), map[types.UID][2]recommender.Amount{"others": {14_500, 0}}, now)
		}, 1, resize.ReasonNoRoom},
		{"quota for one: no two plans of a pass are given it", small, func(w *world) { w.quotas = []corev1.ResourceQuota{quotaOf("q", "2", "1.5")} }, 1, resize.ReasonQuota},
		{"quota for one: it was promised to another workload", small, func(w *world) {
			w.quotas = []corev1.ResourceQuota{quotaOf("q", "2", "1.5")}
			w.promised = ledger{all: []promise{{uid: "other", namespace: "shop", growth: sizeOf(1, 0, 0, 0)}}}
		}, 0, resize.ReasonQuota},
		{"a promise in another namespace is not this one's", small, func(w *world) {
			w.quotas = []corev1.ResourceQuota{quotaOf("q", "3", "1")}
			w.promised = ledger{all: []promise{{uid: "other", namespace: "bank", growth: sizeOf(3000, 0, 0, 0)}}}
		}, 2, ""},
		{"the node refused growth lately", small, func(w *world) { w.nodes["node-1"] = nodeView{Node: w.nodes["node-1"].Node, facts: refusing} }, 0, resize.ReasonNodeBlocked},
		{"the node assigns CPUs, and the pods are Guaranteed", sizeOf(500, 500, 512, 512),
			func(w *world) { w.nodes["node-1"] = nodeView{Node: w.nodes["node-1"].Node, facts: static} }, 0, resize.ReasonStaticCPU},
		{"the node assigns CPUs, and the pods are Burstable", small,
			func(w *world) { w.nodes["node-1"] = nodeView{Node: w.nodes["node-1"].Node, facts: static} }, 2, ""},
		{"the operator has no rights", small, func(w *world) { w.noRights = "cannot patch" }, 0, resize.ReasonNoRights},
		{"the namespace is being deleted", small, func(w *world) { w.terminating = true }, 0, resize.ReasonNamespaceTerminating},
		{"an admission policy said no", small, func(w *world) {
			w.rec.Status.Tries = []v1alpha1.Try{{What: v1alpha1.TryResize, Reason: "AdmissionPolicy", Since: metav1.NewTime(now), Until: metav1.NewTime(now.Add(time.Minute)), Times: 1}}
		}, 0, resize.ReasonRefused},
	} {
		t.Run(tc.name, func(t *testing.T) {
			to := big
			if tc.size[recommender.CPU].Limit > 0 {
				to = sizeOf(1000, 1000, 512, 512)
			}
			w := eager(seen(t, tc.size, running("web-1", tc.size), running("web-2", tc.size)).heading(to))
			tc.edit(&w)
			d := decide(w)
			assert.Len(t, d.writes, tc.begins)
			assert.Len(t, d.status.Records, tc.begins)
			assert.Equal(t, tc.reason, blocked(d))
		})
	}
}

func taking(cpu recommender.Amount) *corev1.Pod {
	other := running("others", sizeOf(cpu, 0, 1, 0))
	other.Namespace = "bank"
	return other
}

// roomWith is that of a node with 16 CPUs where others take some.
func roomWith(others recommender.Amount, pods ...*corev1.Pod) *resize.Room {
	return resize.RoomOf(append([]*corev1.Pod{taking(others)}, pods...), nil, now)
}

// What a record says of its node holds for the rest of the pass.
func TestANodesRefusalHoldsAtOnce(t *testing.T) {
	guaranteed := sizeOf(500, 500, 512, 512)
	first, second := running("web-1", guaranteed), running("web-2", guaranteed)
	w := eager(seen(t, guaranteed, first, second).heading(sizeOf(1000, 1000, 512, 512)))
	record := recordOf(first, sizeOf(1000, 1000, 512, 512))
	record.Phase, record.Generation = v1alpha1.RecordApplied, 2
	first.Generation, first.Status.ObservedGeneration = 2, 2
	first.Spec.Containers[0].Resources = podview.ToRequirements(sizeOf(1000, 1000, 512, 512))
	first.Status.Conditions = append(first.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, ObservedGeneration: 2,
		Message: `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`,
	})
	w.rec.Status.Records = []v1alpha1.ResizeRecord{record}
	d := decide(w)
	require.Len(t, d.lessons, 1)
	assert.Equal(t, []string{"web-1"}, begun(d), "put back, and nothing else is asked of the node")
	assert.Equal(t, resize.ReasonStaticCPU, blocked(d))
	assert.Equal(t, []types.UID{"web-1"}, d.asks.live, "before it is put back it is looked at")

	w.rec.Status = d.status
	assert.Empty(t, decide(w).lessons, "it says so once")
}

// A record that names a node that its pod is not on teaches nothing of that node: whoever writes records would have other
// people's nodes left alone.
func TestAForgedRecordTeachesNothing(t *testing.T) {
	first := running("web-1", small)
	w := eager(seen(t, small, first).heading(big))
	record := recordOf(first, big)
	record.Phase, record.Generation = v1alpha1.RecordApplied, 2
	first.Generation, first.Status.ObservedGeneration = 2, 2
	first.Spec.Containers[0].Resources = podview.ToRequirements(big)
	first.Status.Conditions = append(first.Status.Conditions, corev1.PodCondition{
		Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible, ObservedGeneration: 2,
		Message: "Node didn't have enough capacity: cpu, requested: 1000, capacity: 500",
	})
	w.rec.Status.Records = []v1alpha1.ResizeRecord{record}
	require.Len(t, decide(w).lessons, 1, "of the pod's own node")
	w.nodes["node-2"] = nodeView{Node: node("node-2", "16", "64Gi")}
	w.rec.Status.Records[0].Node = "node-2"
	assert.Empty(t, decide(w).lessons)
	w.rec.Status.Records[0].Node, w.rec.Status.Records[0].PodUID = "node-1", "no pod"
	assert.Empty(t, decide(w).lessons)
}

// A memory limit goes down in one patch where the container is known to hold far less, in a second one where
// nobody knows, and not at all where it holds about as much.
func TestMemoryIsKnownBeforeALimitIsLowered(t *testing.T) {
	// Cases 34, 36.
	from, to := sizeOf(500, 0, 512, 1024), sizeOf(250, 0, 256, 512)
	at := func(mib float64) float64 { return mib * mi }
	for _, tc := range []struct {
		name        string
		gauge       *source
		limit, then recommender.Amount
	}{
		{"far less", &source{held: map[string]float64{"app": at(300)}}, 512, 0},
		{"not much less", &source{held: map[string]float64{"app": at(400)}}, 1024, 512},
		{"about as much", &source{held: map[string]float64{"app": at(480)}}, 1024, 0},
		{"more, page cache included", &source{held: map[string]float64{"app": at(950)}}, 1024, 0},
		{"no series", &source{}, 1024, 512},
		{"the source is down", &source{held: map[string]float64{"app": at(1)}, err: errors.New("down")}, 1024, 512},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &Controller{Gauges: func(policy.Settings) (Gauge, error) { return tc.gauge, nil }}
			w := eager(seen(t, from, running("web-1", from)).heading(to))
			d := c.decide(t.Context(), &w)
			require.Len(t, d.status.Records, 1)
			record := d.status.Records[0]
			assert.Equal(t, tc.limit*mi, podview.FromResources(record.Desired[0].Resources)[recommender.Memory].Limit)
			var then recommender.Amount
			if len(record.Then) > 0 {
				then = podview.FromResources(record.Then[0].Resources)[recommender.Memory].Limit
			}
			assert.Equal(t, tc.then*mi, then)
			assert.Equal(t, recommender.Amount(250), podview.FromResources(record.Desired[0].Resources)[recommender.CPU].Request, "CPU is lowered in any case")
		})
	}
}

// A source that was never asked about a pod before says that it will know: nothing is lowered blindly meanwhile.
func TestMemoryThatIsBeingMeasuredIsWaitedFor(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 1024), sizeOf(250, 0, 256, 512)
	gauge := &source{err: usage.ErrSoon}
	c := &Controller{Gauges: func(policy.Settings) (Gauge, error) { return gauge, nil }}
	decide := func(after time.Duration) decision {
		w := eager(seen(t, from, running("web-1", from)).heading(to))
		w.now = now.Add(after)
		return c.decide(t.Context(), &w)
	}
	d := decide(0)
	assert.Empty(t, d.status.Records)
	assert.LessOrEqual(t, d.after, weightLasts)
	assert.Positive(t, d.after)
	assert.Empty(t, decide(weightLasts-time.Second).status.Records, "by the same answer")
	assert.Len(t, gauge.weighed, 1)
	gauge.held, gauge.err = map[string]float64{"app": 300 * mi}, nil
	assert.Len(t, decide(weightLasts).status.Records, 1)
}

// reader counts what is read.
type reader struct {
	pods map[string][]corev1.Pod
	live map[string]*corev1.Pod
	read []string
	err  error
}

func (r *reader) client() client.WithWatch {
	return interceptor.NewClient(nil, interceptor.Funcs{
		List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			options := (&client.ListOptions{}).ApplyOptions(opts)
			node := options.FieldSelector.Requirements()[0].Value
			r.read = append(r.read, "list "+node)
			list.(*corev1.PodList).Items = r.pods[node]
			return r.err
		},
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			r.read = append(r.read, "get "+key.Name)
			if pod := r.live[key.Name]; pod != nil {
				pod.DeepCopyInto(o.(*corev1.Pod))
				return r.err
			}
			return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
		},
	})
}

// One list a node and pass, whatever the number of pods; none where nothing grows.
func TestRoomIsReadOnceANode(t *testing.T) {
	r := &reader{pods: map[string][]corev1.Pod{}}
	var pods []*corev1.Pod
	for i := range 20 {
		pod := running(fmt.Sprintf("web-%02d", i), small)
		pod.Spec.NodeName = fmt.Sprintf("node-%d", i%2)
		pods = append(pods, pod)
		r.pods[pod.Spec.NodeName] = append(r.pods[pod.Spec.NodeName], *pod)
	}
	c := &Controller{Client: r.client(), Live: r.client()}
	look := func(to recommender.Size) decision {
		r.read = nil
		w := eager(seen(t, small, pods...).heading(to))
		w.nodes = map[string]nodeView{"node-0": {Node: node("node-0", "7", "64Gi")}, "node-1": {Node: node("node-1", "64", "64Gi")}}
		d := c.decide(t.Context(), &w)
		return d
	}
	d := look(big)
	assert.ElementsMatch(t, []string{"list node-0", "list node-1"}, r.read)
	assert.Len(t, d.writes, 14, "ten on a node with room, four on one with 5 of 7 CPUs taken")
	look(small)
	assert.Empty(t, r.read, "all is as it should be")
	look(sizeOf(400, 0, 512, 0))
	assert.Empty(t, r.read, "lowering needs no room")

	r.err = errors.New("down")
	w := eager(seen(t, small, pods...).heading(big))
	w.nodes["node-0"] = nodeView{Node: node("node-0", "64", "64Gi")}
	blind := c.decide(t.Context(), &w)
	assert.Empty(t, blind.writes, "nothing is begun without knowing")
	assert.Equal(t, resize.ReasonNotKnown, blocked(blind))
}

// Others take the room while it is decided about: it is decided anew.
func TestRoomIsNotPromisedTwice(t *testing.T) {
	pod := running("web-1", small)
	r := &reader{pods: map[string][]corev1.Pod{"node-1": {*pod, *running("others", sizeOf(500, 0, 1, 0))}}}
	c := &Controller{Live: r.client()}
	api := r.client()
	rival := promise{uid: "others", namespace: "bank", node: "node-1", needs: [2]recommender.Amount{16_000, 0}}
	c.Client = interceptor.NewClient(api, interceptor.Funcs{
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			c.promises.make(named("rival"), []promise{rival}, c.promises.read())
			return api.List(ctx, list, opts...)
		},
	})
	w := eager(seen(t, small, pod).heading(big))
	d := c.decide(t.Context(), &w)
	assert.Empty(t, d.writes)
	assert.Equal(t, resize.ReasonNoRoom, blocked(d))
	assert.Len(t, r.read, 2)
	assert.Len(t, c.promises.of, 1, "the rival's")
}

func TestGrowthIsPromisedUntilItShows(t *testing.T) {
	pod := running("web-1", small)
	record := recordOf(pod, big)
	find := func(types.UID) *corev1.Pod { return pod }
	want := []promise{{uid: "web-1", namespace: "shop", node: "node-1", needs: [2]recommender.Amount{1000, 512 * mi}, growth: sizeOf(500, 0, 0, 0)}}
	assert.Equal(t, want, promised([]v1alpha1.ResizeRecord{record}, find), "written")
	record.Phase, record.Generation = v1alpha1.RecordApplied, 2
	assert.Equal(t, want, promised([]v1alpha1.ResizeRecord{record}, find), "accepted, and the cache is behind")
	record.Phase = v1alpha1.RecordReverting
	assert.Empty(t, promised([]v1alpha1.ResizeRecord{record}, find), "given back")
	record.Phase, pod.Generation = v1alpha1.RecordApplied, 2
	assert.Empty(t, promised([]v1alpha1.ResizeRecord{record}, find), "it shows")
	record.Then = []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(2000, 0, 512, 0))}}
	got := promised([]v1alpha1.ResizeRecord{record}, find)
	require.Len(t, got, 1)
	assert.Equal(t, recommender.Amount(2000), got[0].needs[recommender.CPU], "its second patch is to come")
	assert.Empty(t, promised([]v1alpha1.ResizeRecord{record}, func(types.UID) *corev1.Pod { return nil }), "the pod is gone")
}

// The cache is behind: what cannot be taken back is decided by the pod as it is.
func TestWhatCannotBeTakenBackIsDecidedByTheLivePod(t *testing.T) {
	// Cases 18, 24.
	long := now.Add(-2 * resize.UnobservedFor)
	landed := func(pod *corev1.Pod) *corev1.Pod {
		pod = pod.DeepCopy()
		pod.Generation, pod.Status.ObservedGeneration = 2, 2
		pod.Spec.Containers[0].Resources = podview.ToRequirements(big)
		pod.Status.ContainerStatuses[0].AllocatedResources = pod.Spec.Containers[0].Resources.Requests
		pod.Status.ContainerStatuses[0].Resources = &pod.Spec.Containers[0].Resources
		return pod
	}
	cached := running("web-1", small)
	written := recordOf(cached, big)
	written.WrittenAt = metav1.NewTime(long)
	applied := *written.DeepCopy()
	applied.Phase, applied.Generation = v1alpha1.RecordApplied, 2
	for _, tc := range []struct {
		name   string
		record v1alpha1.ResizeRecord
		live   *corev1.Pod
		phase  v1alpha1.RecordPhase
		begins []string
	}{
		{"the answer was lost, the patch was not", written, landed(cached), v1alpha1.RecordApplied, nil},
		{"both were lost: it is decided anew", written, cached, v1alpha1.RecordWritten, []string{"web-1"}},
		{"the kubelet has seen it after all", applied, landed(cached), v1alpha1.RecordApplied, nil},
		{"the pod is gone", written, nil, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &reader{pods: map[string][]corev1.Pod{"node-1": {*cached}}, live: map[string]*corev1.Pod{"web-1": tc.live}}
			c := &Controller{Client: r.client(), Live: r.client()}
			w := eager(seen(t, small, cached).heading(big))
			w.rec.Status.Records = []v1alpha1.ResizeRecord{tc.record}
			d := c.decide(t.Context(), &w)
			assert.Contains(t, r.read, "get web-1")
			assert.Equal(t, tc.begins, begun(d))
			if tc.phase == "" {
				assert.Empty(t, d.status.Records)
				return
			}
			require.Len(t, d.status.Records, 1)
			assert.Equal(t, tc.phase, d.status.Records[0].Phase)
		})
	}
	t.Run("nothing is asked in the normal path", func(t *testing.T) {
		r := &reader{}
		c := &Controller{Client: r.client(), Live: r.client()}
		fresh := *written.DeepCopy()
		fresh.WrittenAt = metav1.NewTime(now)
		for _, record := range []v1alpha1.ResizeRecord{fresh, applied} {
			w := eager(seen(t, small, landed(cached)).heading(big))
			w.rec.Status.Records = []v1alpha1.ResizeRecord{record}
			c.decide(t.Context(), &w)
		}
		assert.Empty(t, r.read)
	})
}
