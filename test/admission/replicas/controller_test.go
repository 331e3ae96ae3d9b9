package replicas

import (
	"cmp"
	"context"
	"io"
	"maps"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"

	"attune.io/attune/recommender/replicas"
)

const (
	syncs = 15 * time.Second // between two looks of the HPA controller, and two samples of metrics-server

	// A new pod is pending, then it runs without metrics; then it is ready, and then there are metrics of it.
	scheduled, isReady, measured = 10 * time.Second, 30 * time.Second, 45 * time.Second

	// swings is how far usage is from the mean of its minute at most, unless a deployment says otherwise. The spans of its
	// history are wider by widened.
	swings, widened = 0.03, 0.05
)

// deployment is a workload that upstream's HPA controller scales in virtual time. Its ready pods share a demand.
type deployment struct {
	scaler  replicas.Scaler
	request int64
	demand  []float64 // of all pods by the minute, in millicores

	startAt int32   // the number of pods at first; 0: the least
	swing   float64 // 0: swings
	settle  *int32  // seconds of stabilization of scale-in; nil: the default
	plan    *plan   // nil: no pod is resized

	pods    []*member
	born    int
	asked   []int32 // the number of replicas at each sync
	history *history
}

type member struct {
	*corev1.Pod
	since time.Time
	usage int64
}

// cluster has a deployment for each namespace. It is what upstream's controller sees of pods, metrics and scales.
type cluster struct {
	corelisters.PodLister
	metrics.MetricsClient
	cache.SharedIndexInformer
	began time.Time
	of    map[string]*deployment
}

// podsOf and scaleOf are a deployment's.
type (
	podsOf struct {
		corelisters.PodNamespaceLister
		*deployment
	}
	scaleOf struct {
		scale.ScaleInterface
		*deployment
	}
)

func (c *cluster) Informer() cache.SharedIndexInformer { return c }
func (c *cluster) HasSynced() bool                     { return true }
func (c *cluster) Lister() corelisters.PodLister       { return c }
func (c *cluster) Pods(name string) corelisters.PodNamespaceLister {
	return podsOf{deployment: c.of[name]}
}
func (c *cluster) Scales(name string) scale.ScaleInterface   { return scaleOf{deployment: c.of[name]} }
func (p podsOf) List(labels.Selector) ([]*corev1.Pod, error) { return p.list(), nil }

func (s scaleOf) Get(context.Context, schema.GroupResource, string, metav1.GetOptions) (*autoscalingv1.Scale, error) {
	size := int32(len(s.pods))
	return &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: size}, Status: autoscalingv1.ScaleStatus{Replicas: size, Selector: "app=app"}}, nil
}

func (s scaleOf) Update(_ context.Context, _ schema.GroupResource, to *autoscalingv1.Scale, _ metav1.UpdateOptions) (*autoscalingv1.Scale, error) {
	s.resize(to.Spec.Replicas)
	return to, nil
}

func (c *cluster) GetResourceMetric(_ context.Context, _ corev1.ResourceName, name string, _ labels.Selector, _ string) (metrics.PodMetricsInfo, time.Time, error) {
	d := c.of[name]
	return d.measure(int(time.Since(c.began) / syncs)), time.Now(), nil
}

// scale removes the newest pods, as a ReplicaSet does among those that are alike.
func (d *deployment) resize(size int32) {
	for int32(len(d.pods)) > size {
		d.pods = d.pods[:len(d.pods)-1]
	}
	for int32(len(d.pods)) < size {
		u := &upstream{}
		pod := u.add(pending, corev1.ResourceCPU, d.request, 0)
		pod.Name, pod.Labels = podName(d.born), map[string]string{"app": "app"}
		d.born++
		d.pods = append(d.pods, &member{Pod: pod, since: time.Now()})
	}
}

func podName(n int) string {
	return string([]byte{byte('a' + n%26), byte('a' + n/26%26), byte('a' + n/676%26), byte('a' + n/17576%26)})
}

func (d *deployment) list() (all []*corev1.Pod) {
	for _, m := range d.pods {
		condition := &m.Status.Conditions[0]
		switch age := time.Since(m.since); {
		case age >= isReady:
			if condition.Status != corev1.ConditionTrue {
				condition.Status, condition.LastTransitionTime.Time = corev1.ConditionTrue, m.since.Add(isReady)
			}
			m.Status.Phase = corev1.PodRunning
		case age >= scheduled:
			m.Status.Phase, m.Status.StartTime = corev1.PodRunning, &metav1.Time{Time: m.since.Add(scheduled)}
			condition.Status, condition.LastTransitionTime.Time = corev1.ConditionFalse, m.since.Add(scheduled)
		default:
			condition.Status = corev1.ConditionFalse
		}
		all = append(all, m.Pod)
	}
	return all
}

// chance is a number in 0..1 that depends on its arguments only.
func chance(a, b int) float64 {
	x := uint64(a)*0x9e3779b97f4a7c15 + uint64(b)*0xbf58476d1ce4e5b9 + 1
	x ^= x >> 31
	x *= 0x94d049bb133111eb
	x ^= x >> 29
	return float64(x>>11) / (1 << 53)
}

// measure shares the demand of a moment between the pods that are ready, unevenly.
func (d *deployment) measure(tick int) metrics.PodMetricsInfo {
	d.asked = append(d.asked, int32(len(d.pods)))
	minute := min(tick/4, len(d.demand)-1)
	// Two samples of a minute are as much above its mean as the others are below it.
	away := cmp.Or(d.swing, swings) * chance(minute, tick/2) * float64(1-2*(tick%2))
	left, serving := int64(d.demand[minute]*(1+away)), int64(0)
	for _, m := range d.pods {
		if time.Since(m.since) >= isReady {
			serving++
		}
	}
	used := make(metrics.PodMetricsInfo, len(d.pods))
	sum, counted, unready := int64(0), 0, 0
	for i, m := range d.pods {
		age := time.Since(m.since)
		m.usage = d.request
		if age >= isReady {
			share := float64(left) / float64(serving)
			if serving > 1 {
				share *= 0.8 + 0.4*chance(i, minute)
			}
			m.usage = int64(share)
			left, serving = left-m.usage, serving-1
		}
		if age >= measured {
			used[m.Name] = metrics.PodMetric{Timestamp: time.Now(), Window: window, Value: m.usage}
		}
		if age >= isReady+window {
			sum, counted = sum+m.usage, counted+1
		} else {
			unready++
		}
	}
	if d.history != nil {
		d.history.add(tick, counted, unready, float64(sum))
	}
	return used
}

// history makes spans: of each hour and number of pods the least and the greatest mean of a minute.
type history struct {
	until          int // in ticks
	spans          []replicas.Span
	hour           int
	minute         int
	ready, unready int
	sum            float64
	samples        int
}

func (h *history) add(tick, ready, unready int, sum float64) {
	if tick >= h.until {
		h.flush()
		return
	}
	if minute := tick / 4; minute != h.minute || ready != h.ready || unready != h.unready {
		h.flush()
		h.minute, h.ready, h.unready = minute, ready, unready
	}
	h.sum, h.samples = h.sum+sum, h.samples+1
}

func (h *history) flush() {
	if h.samples == 0 || h.ready == 0 {
		h.sum, h.samples = 0, 0
		return
	}
	mean := h.sum / float64(h.samples) / float64(h.ready)
	least, greatest := mean*(1-widened), mean*(1+widened)
	h.sum, h.samples = 0, 0
	if hour := h.minute / 60; hour != h.hour {
		h.hour = hour
	}
	for i := len(h.spans) - 1; i >= 0 && h.spans[i].LeastAt/3600 == int64(h.hour); i-- {
		if s := &h.spans[i]; int(s.Ready) == h.ready && int(s.Unready) == h.unready {
			s.Least, s.Greatest = math.Min(s.Least, least), math.Max(s.Greatest, greatest)
			return
		}
	}
	at := int64(h.minute * 60)
	h.spans = append(h.spans, replicas.Span{Ready: int32(h.ready), Unready: int32(h.unready), Least: least, Greatest: greatest, LeastAt: at, GreatestAt: at})
}

// together is how many HPAs one controller has at most: the fake client panics if more than 100 events wait.
const together = 60

// play runs upstream's whole HPA controller for the deployments, in virtual time.
func play(t *testing.T, all map[string]*deployment, length time.Duration) {
	t.Helper()
	for names := range slices.Chunk(slices.Sorted(maps.Keys(all)), together) {
		some := map[string]*deployment{}
		for _, name := range names {
			some[name] = all[name]
		}
		playTogether(t, some, length)
	}
}

func playTogether(t *testing.T, all map[string]*deployment, length time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var objects []runtime.Object
		c := &cluster{of: all, began: time.Now()}
		pause := time.Hour
		for name, d := range all {
			hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "app"}, Spec: utilization(d.scaler, corev1.ResourceCPU)}
			if d.settle != nil {
				hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: d.settle}}
			}
			if d.plan != nil {
				pause = syncs
			}
			legacyscheme.Scheme.Default(hpa)
			objects = append(objects, hpa)
			d.resize(max(d.startAt, d.scaler.Min))
		}
		time.Sleep(time.Hour) // until all pods have metrics
		c.began = time.Now()
		ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(io.Discard)))))
		client := fake.NewSimpleClientset(objects...)
		factory := informers.NewSharedInformerFactory(client, 0)
		controller := podautoscaler.NewHorizontalController(ctx, client.CoreV1(), c, client.AutoscalingV2(), testrestmapper.TestOnlyStaticRESTMapper(legacyscheme.Scheme),
			c, factory.Autoscaling().V2().HorizontalPodAutoscalers(), c, syncs, 5*time.Minute, replicas.DefaultTolerance, cpuInitialization, initialReadiness)
		factory.Start(ctx.Done())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			controller.Run(ctx, 1)
		}()
		time.Sleep(syncs / 2) // attune acts between two syncs
		for time.Since(c.began) < length {
			for name, d := range all {
				if d.plan != nil {
					d.plan.step(t, d, int(time.Since(c.began)/syncs), client.AutoscalingV2().HorizontalPodAutoscalers(name))
				}
			}
			time.Sleep(pause)
			client.ClearActions()
		}
		cancel()
		<-stopped
		factory.Shutdown()
	})
}
