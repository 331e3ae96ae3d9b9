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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
	"attune.io/attune/tuning/tuningtest"
	"attune.io/attune/usage"
)

// A memory limit is lowered in one patch if the container is known to use much less, in a second one if its memory is
// not known, and not at all if it uses about as much.
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
			w := eager(heading(seen(t, from, running("web-1", from)), to))
			d := c.decide(t.Context(), &w)
			require.Len(t, d.Status.Records, 1)
			record := d.Status.Records[0]
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

// A source without samples of a pod says that it will have some soon: nothing is lowered blindly meanwhile.
func TestMemoryThatIsBeingMeasuredIsWaitedFor(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 1024), sizeOf(250, 0, 256, 512)
	gauge := &source{err: usage.ErrSoon}
	c := &Controller{Gauges: func(policy.Settings) (Gauge, error) { return gauge, nil }}
	decide := func(after time.Duration) tuning.Decision {
		w := eager(heading(seen(t, from, running("web-1", from)), to))
		w.Now = now.Add(after)
		return c.decide(t.Context(), &w).Decision
	}
	d := decide(0)
	assert.Empty(t, d.Status.Records)
	assert.LessOrEqual(t, d.After, memoryLasts)
	assert.Positive(t, d.After)
	assert.Empty(t, decide(memoryLasts-time.Second).Status.Records, "by the same answer")
	assert.Len(t, gauge.weighed, 1)
	gauge.held, gauge.err = map[string]float64{"app": 300 * mi}, nil
	assert.Len(t, decide(memoryLasts).Status.Records, 1)
}

// The queries of triggers are sent once before a resize, and its record stores the results. Without a source, the resize
// begins without them.
func TestResultsFromBeforeAResizeAreStored(t *testing.T) {
	tuningtest.Rise(t)
	from, to := sizeOf(500, 1000, 512, 1024), sizeOf(300, 600, 512, 1024)
	gauge := &source{value: 0.2}
	for name, tc := range map[string]struct {
		gauges func(policy.Settings) (Gauge, error)
		asked  int
		want   []v1alpha1.Measurement
	}{
		"a source":         {func(policy.Settings) (Gauge, error) { return gauge, nil }, 1, []v1alpha1.Measurement{{Name: "p99", Value: "0.2"}}},
		"no source":        {nil, 0, nil},
		"an invalid one":   {func(policy.Settings) (Gauge, error) { return nil, errors.New("no address") }, 0, nil},
		"one that is down": {func(policy.Settings) (Gauge, error) { return &source{err: errors.New("down")}, nil }, 0, nil},
	} {
		gauge.asked = 0
		w := eager(heading(seen(t, from, running("web-1", from)), to))
		d := (&Controller{Gauges: tc.gauges}).decide(t.Context(), &w)
		require.Len(t, d.Status.Records, 1, name)
		assert.Equal(t, tc.want, d.Status.Records[0].Measured, name)
		assert.Equal(t, tc.asked, gauge.asked, name)
	}
}

// reader counts its reads.
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

// One list per node and pass, whatever the number of pods; none if no pod grows.
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
	look := func(to recommender.Size) tuning.Decision {
		r.read = nil
		w := eager(heading(seen(t, small, pods...), to))
		w.Nodes = map[string]tuning.Node{"node-0": {Node: node("node-0", "7", "64Gi")}, "node-1": {Node: node("node-1", "64", "64Gi")}}
		return c.decide(t.Context(), &w).Decision
	}
	d := look(big)
	assert.ElementsMatch(t, []string{"list node-0", "list node-1"}, r.read)
	assert.Len(t, d.Writes, 14, "ten on a node with room, four on one with 5 of 7 CPUs taken")
	look(small)
	assert.Empty(t, r.read, "all is as it should be")
	look(sizeOf(400, 0, 512, 0))
	assert.Empty(t, r.read, "lowering needs no room")

	r.err = errors.New("down")
	w := eager(heading(seen(t, small, pods...), big))
	w.Nodes["node-0"] = tuning.Node{Node: node("node-0", "64", "64Gi")}
	blind := c.decide(t.Context(), &w)
	assert.Empty(t, blind.Writes, "nothing is begun without knowing")
	assert.Equal(t, resize.ReasonNotKnown, blocked(blind.Decision))
}

// Other workloads take the room during a decision: the decision is made again.
func TestRoomIsNotPromisedTwice(t *testing.T) {
	pod := running("web-1", small)
	r := &reader{pods: map[string][]corev1.Pod{"node-1": {*pod, *running("others", sizeOf(500, 0, 1, 0))}}}
	c := &Controller{Live: r.client()}
	api := r.client()
	rival := tuning.Reservation{UID: "others", Namespace: "bank", Node: "node-1", Needs: [2]recommender.Amount{16_000, 0}}
	c.Client = interceptor.NewClient(api, interceptor.Funcs{
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			c.memory.reservations.make(named("rival"), []tuning.Reservation{rival}, c.memory.reservations.read())
			return api.List(ctx, list, opts...)
		},
	})
	w := eager(heading(seen(t, small, pod), big))
	d := c.decide(t.Context(), &w)
	assert.Empty(t, d.Writes)
	assert.Equal(t, resize.ReasonNoRoom, blocked(d.Decision))
	assert.Len(t, r.read, 2)
	assert.Len(t, c.memory.reservations.of, 1, "the rival's")
}

// The cache lags: steps that cannot be undone are decided by the live pod.
func TestIrreversibleStepsUseTheLivePod(t *testing.T) {
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
			w := eager(heading(seen(t, small, cached), big))
			w.Rec.Status.Records = []v1alpha1.ResizeRecord{tc.record}
			d := c.decide(t.Context(), &w)
			assert.Contains(t, r.read, "get web-1")
			assert.Equal(t, tc.begins, begun(d.Decision))
			if tc.phase == "" {
				assert.Empty(t, d.Status.Records)
				return
			}
			require.Len(t, d.Status.Records, 1)
			assert.Equal(t, tc.phase, d.Status.Records[0].Phase)
		})
	}
	t.Run("nothing is asked in the normal path", func(t *testing.T) {
		r := &reader{}
		c := &Controller{Client: r.client(), Live: r.client()}
		fresh := *written.DeepCopy()
		fresh.WrittenAt = metav1.NewTime(now)
		for _, record := range []v1alpha1.ResizeRecord{fresh, applied} {
			w := eager(heading(seen(t, small, landed(cached)), big))
			w.Rec.Status.Records = []v1alpha1.ResizeRecord{record}
			c.decide(t.Context(), &w)
		}
		assert.Empty(t, r.read)
	})
}
