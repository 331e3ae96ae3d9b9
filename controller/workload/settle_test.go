package workload

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
	"attune.io/attune/usage"
)

func podsAt(n int, size recommender.Size) (pods []*corev1.Pod) {
	for i := range n {
		pods = append(pods, running(fmt.Sprintf("web-%03d", i), size))
	}
	return pods
}

func objects(first client.Object, pods []*corev1.Pod) []client.Object {
	all := []client.Object{first}
	for _, pod := range pods {
		all = append(all, pod)
	}
	return all
}

// A decision settles whatever the number of pods whose memory limit must be lowered, and queries all of them at once.
func TestADecisionSettlesWithoutARival(t *testing.T) {
	for name, tc := range map[string]struct {
		from, to recommender.Size
		holds    float64
		percent  int
		begins   func(pods int) int
	}{
		"all can be lowered":              {sizeOf(500, 0, 512, 1024), sizeOf(250, 0, 256, 512), 300, 100, func(n int) int { return min(n, v1alpha1.MaxRecords) }},
		"what they hold keeps the limits": {sizeOf(500, 0, 512, 512), sizeOf(500, 0, 256, 256), 500, 10, func(int) int { return 0 }},
	} {
		for _, n := range []int{3, 5, 10, 41, 60, 410} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				gauge := &source{held: map[string]float64{"app": tc.holds * mi}}
				c := &Controller{Gauges: func(policy.Settings) (Gauge, error) { return gauge, nil }}
				w := eager(heading(seen(t, tc.from, podsAt(n, tc.from)...), tc.to))
				w.Nodes["node-1"] = tuning.Node{Node: node("node-1", "1600", "6400Gi")}
				w.Policy.Settings.Resize.MaxConcurrentPercent, w.Policy.Settings.Resize.CanaryPercent = tc.percent, tc.percent
				d := c.decide(t.Context(), &w)
				assert.Nil(t, w.Begin.Closed, "the looks suffice")
				assert.True(t, d.Unknowns.None())
				assert.Len(t, d.Writes, tc.begins(n))
				assert.Equal(t, []int{n}, gauge.weighed, "one question for all")
			})
		}
	}
}

// If some pods' limits cannot be lowered, others are resized in their place.
func TestOtherPodsReplaceThoseWhoseMemoryIsInUse(t *testing.T) {
	from, to := sizeOf(500, 0, 512, 512), sizeOf(500, 0, 256, 256)
	pods := podsAt(60, from)
	w := eager(heading(seen(t, from, pods...), to))
	w.Policy.Settings.Resize.MaxConcurrentPercent, w.Policy.Settings.Resize.CanaryPercent = 10, 10
	for i, pod := range pods {
		holds := recommender.Amount(500 * mi)
		if i >= 55 {
			holds = 100 * mi
		}
		w.Usage.Memory[pod.UID] = map[string]recommender.Amount{"app": holds}
	}
	d := (&Controller{}).decide(t.Context(), &w)
	assert.ElementsMatch(t, []string{"web-055", "web-056", "web-057", "web-058", "web-059"}, begun(d.Decision))
}

// Other workloads that take the room again and again keep a pass from starting anything; open records continue.
func TestForeignWriterDoesNotStopOpenRecords(t *testing.T) {
	pods := podsAt(2, small)
	endedBefore(pods[0], "OOMKilled", 1, 20*time.Minute)
	l := newLab(t, heading(seen(t, small), big).Rec, objects(deploymentOf(small, 2), pods)...)
	rivals := 0
	l.c.Client = interceptor.NewClient(l.c.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			options := (&client.ListOptions{}).ApplyOptions(opts)
			if rooms := options.FieldSelector != nil && options.FieldSelector.Requirements()[0].Field == workload.PodsByNode; rooms {
				rivals++
				l.c.memory.reservations.make(named("rival"), []tuning.Reservation{{UID: types.UID(fmt.Sprint(rivals)), Namespace: "bank", Node: "node-1"}}, l.c.memory.reservations.read())
			}
			return api.List(ctx, list, opts...)
		},
	})
	before := testutil.ToFloat64(incomplete.WithLabelValues("unsettled"))
	l.pass() // learns from the kill
	l.clock.Step(2 * paceLast)
	result := l.pass()
	assert.Positive(t, rivals)
	assert.Zero(t, l.patches, "nothing new is begun")
	assert.NotEmpty(t, l.rec().Status.Floors, "a kill is learned from")
	assert.NotEmpty(t, l.rec().Status.Originals, "and the rest is stored")
	assert.Equal(t, resize.ReasonUnsettled, blocked(tuning.Decision{Status: l.rec().Status}))
	assert.InDelta(t, before+1, testutil.ToFloat64(incomplete.WithLabelValues("unsettled")), 0)
	waits := []time.Duration{result.RequeueAfter}
	for range 3 {
		l.clock.Step(waits[len(waits)-1])
		waits = append(waits, l.pass().RequeueAfter)
	}
	assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second}, waits, "it is tried again ever more rarely")
}

// A common policy over a workload whose limits are held up by page cache: the pass ends, learns and waits. The kill
// was so long ago that its floor is below the limit that the policy wants.
func TestPageCacheStopsNothing(t *testing.T) {
	original, live := sizeOf(200, 0, 512, 1024), sizeOf(200, 0, 256, 1024)
	for _, n := range []int{4, 5, 60} {
		pods := podsAt(n, live)
		for _, pod := range pods {
			pod.Generation, pod.Status.ObservedGeneration = 3, 3
		}
		endedBefore(pods[0], "OOMKilled", 1, 5*7*24*time.Hour)
		w := heading(seen(t, original), sizeOf(200, 0, 256, 512))
		w.Rec.Status.Originals = []v1alpha1.Originals{{TemplateHash: "abc", Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(original)}}}}
		l := newLab(t, w.Rec, objects(deploymentOf(original, n), pods)...)
		change(l, "all", &v1alpha1.AttunePolicy{}, func(p *v1alpha1.AttunePolicy) {
			p.Spec.Memory = &v1alpha1.MemorySettings{}
			p.Spec.Memory.AllowDecrease = ptr.To(true)
		})
		l.c.Gauges = func(policy.Settings) (Gauge, error) { return &source{held: map[string]float64{"app": 950 * mi}}, nil }
		l.live(time.Hour)
		assert.NotEmpty(t, l.rec().Status.Floors, "%d pods", n)
		assert.LessOrEqual(t, l.status, 6, "%d pods", n)
		assert.GreaterOrEqual(t, l.pass().RequeueAfter, time.Minute, "%d pods", n)
	}
}

// deaf autoscalers cannot be listed.
type deaf struct{ err error }

func (d deaf) Of(context.Context, workload.Workload) (autoscale.Holds, error) {
	return autoscale.Holds{}, d.err
}

// hurt is a workload with a pod whose container the kernel killed after a resize.
func hurt(t *testing.T) *lab {
	t.Helper()
	w := judged(t)
	harms[resize.HarmOOM](&w)
	l := newLab(t, w.Rec, deploymentOf(sizeOf(500, 1000, 512, 1024), 1), w.Pods[0])
	return l
}

// A regression is reverted even if an input that only new resizes need cannot be read.
func TestRevertsNeedNothingThatOnlyNewResizesNeed(t *testing.T) {
	down := errors.New("down")
	failing := func(kind client.ObjectList) func(*lab) {
		return func(l *lab) {
			l.c.Client = interceptor.NewClient(l.c.Client.(client.WithWatch), interceptor.Funcs{
				List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if fmt.Sprintf("%T", list) == fmt.Sprintf("%T", kind) {
						return down
					}
					return api.List(ctx, list, opts...)
				},
			})
		}
	}
	for name, fail := range map[string]func(*lab){
		"autoscalers":  func(l *lab) { l.c.Autoscalers = deaf{down} },
		"limit ranges": failing(&corev1.LimitRangeList{}),
		"quotas":       failing(&corev1.ResourceQuotaList{}),
		"the pod itself": func(l *lab) {
			l.c.Live = interceptor.NewClient(l.api, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return down
			}})
		},
		"its node": func(l *lab) {
			l.c.Client = interceptor.NewClient(l.c.Client.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					if _, node := o.(*corev1.Node); node {
						return down
					}
					return api.Get(ctx, key, o, opts...)
				},
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := hurt(t)
			fail(l)
			l.pass()
			assert.Equal(t, 1, l.patches, "it is put back")
			require.Len(t, l.rec().Status.Records, 1)
			assert.Equal(t, v1alpha1.RecordReverting, l.rec().Status.Records[0].Phase)
		})
	}
}

// A failed read is a reason to start nothing new. The reason is stored, and the read is tried again with a growing
// backoff.
func TestFailedReadIsAReason(t *testing.T) {
	l := newLab(t, heading(seen(t, small), sizeOf(250, 0, 512, 0)).Rec, deploymentOf(small, 1), running("web-1", small))
	l.c.Autoscalers = deaf{errors.New("Timeout: failed waiting for Informer to sync")}
	var waits []time.Duration
	for range 3 {
		waits = append(waits, l.pass().RequeueAfter)
	}
	assert.Zero(t, l.patches)
	assert.Equal(t, resize.ReasonNotKnown, blocked(tuning.Decision{Status: l.rec().Status}))
	assert.Equal(t, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, waits)
	assert.Equal(t, 1, l.status, "it is said once")

	l.c.Autoscalers = nil
	l.clock.Step(8 * time.Second)
	l.pass()
	assert.Equal(t, 1, l.patches, "and goes on once it can be read")
}

// hung does not answer until it is released.
type hung struct {
	source
	asked chan struct{}
	free  chan struct{}
}

func (h *hung) OOMKills(context.Context, string, map[string]time.Duration, time.Time) (usage.ByContainer, error) {
	select {
	case h.asked <- struct{}{}:
	default:
	}
	<-h.free
	return nil, nil
}

// A source that hangs while another pod's observation period ends delays neither a revert nor the response to an OOM
// kill.
func TestAHungSourceDelaysNothingUrgent(t *testing.T) {
	for name, tc := range map[string]func(w *tuning.View){
		"a revert": func(w *tuning.View) { harms[resize.HarmOOM](w) },
		"growth of a pod that was never resized": func(w *tuning.View) {
			killed := endedBefore(running("web-9", sizeOf(500, 1000, 512, 1024)), "OOMKilled", 1, time.Minute)
			w.Pods = append(w.Pods, killed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := judged(t)
			other := w.Pods[0].DeepCopy()
			other.Name, other.UID = "web-2", "web-2"
			other.Status.ContainerStatuses[0].ContainerID = "containerd://web-2"
			record := *w.Rec.Status.Records[0].DeepCopy()
			record.PodName, record.PodUID, record.Baseline[0].ContainerID = "web-2", "web-2", "containerd://web-2"
			tc(&w)
			w.Pods = append(w.Pods, other)
			w.Rec.Status.Records = append(w.Rec.Status.Records, record)
			heading(w, sizeOf(500, 1000, 700, 1400))
			l := newLab(t, w.Rec, objects(deploymentOf(sizeOf(500, 1000, 512, 1024), len(w.Pods)), w.Pods)...)
			h := &hung{asked: make(chan struct{}, 1), free: make(chan struct{})}
			l.c.Gauges = func(policy.Settings) (Gauge, error) { return h, nil }
			sent := make(chan struct{}, 8)
			l.resize = func(client.Object) error { sent <- struct{}{}; return nil }

			done := make(chan error, 1)
			go func() { // passes as in a manager
				for {
					result, err := l.c.Reconcile(t.Context(), ctrl.Request{NamespacedName: l.key})
					if err != nil || result.RequeueAfter > time.Second {
						done <- err
						return
					}
				}
			}()
			select {
			case <-sent:
			case <-h.asked:
				assert.Fail(t, "the source was asked before the patch was sent")
			}
			close(h.free)
			require.NoError(t, <-done)
		})
	}
}

// A response to an OOM kill does not wait for inputs that only new resizes need.
func TestAnOOMKillIsAnsweredWhileAutoscalersCannotBeListed(t *testing.T) {
	pod := endedBefore(running("web-1", small), "OOMKilled", 1, time.Minute)
	rec := heading(seen(t, small), sizeOf(500, 0, 1024, 0)).Rec
	l := newLab(t, rec, deploymentOf(small, 1), pod)
	l.c.Autoscalers = deaf{errors.New("conversion webhook failed")}
	for range 3 {
		l.pass()
	}
	assert.Equal(t, 1, l.patches)

	held := heading(seen(t, small), sizeOf(500, 0, 1024, 0)).Rec
	held.Spec.Containers[0].Holds = []v1alpha1.Hold{{Resource: "cpu", Reason: resize.ReasonVPA}, {Resource: "memory", Reason: resize.ReasonVPA}}
	l = newLab(t, held, deploymentOf(small, 1), endedBefore(running("web-1", small), "OOMKilled", 1, time.Minute))
	l.c.Autoscalers = deaf{errors.New("conversion webhook failed")}
	for range 3 {
		l.pass()
	}
	assert.Zero(t, l.patches, "a VPA held it when the targets were stored")
}
