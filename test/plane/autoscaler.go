package plane

import (
	"context"
	"math"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Times and tolerance of the HPA (pkg/controller/podautoscaler, defaults of kube-controller-manager).
const (
	autoscaleEvery     = 15 * time.Second
	autoscaleTolerance = 0.1
	downscaleWindow    = 5 * time.Minute
	// startsFor is --horizontal-pod-autoscaler-cpu-initialization-period, neverReady its initial-readiness-delay, and
	// metricWindow the one of metrics-server.
	startsFor, neverReady, metricWindow = 5 * time.Minute, 30 * time.Second, 30 * time.Second
)

// scaling is what an HPA remembers: the numbers it recommended lately.
type scaling struct {
	looked time.Time
	recent []recommendation
}

type recommendation struct {
	at       time.Time
	replicas int32
}

// autoscale moves the replicas of workloads by the utilization of their CPU and memory requests. Other metrics are not
// played.
func (p *Plane) autoscale(ctx context.Context, v *view) error {
	if p.CPU == nil && p.Memory == nil {
		return nil
	}
	if p.scaled == nil {
		p.scaled = map[types.UID]*scaling{}
	}
	there := map[types.UID]bool{}
	for _, hpa := range v.autoscalers {
		there[hpa.UID] = true
		s := p.scaled[hpa.UID]
		if s == nil {
			s = &scaling{}
			p.scaled[hpa.UID] = s
		}
		if at := s.looked.Add(autoscaleEvery); v.now.Before(at) {
			p.wake(v, at)
			continue
		}
		s.looked = v.now
		p.wake(v, v.now.Add(autoscaleEvery))
		if err := p.autoscaleOne(ctx, v, hpa, s); err != nil {
			return err
		}
	}
	for uid := range p.scaled {
		if !there[uid] {
			delete(p.scaled, uid)
		}
	}
	return nil
}

func (p *Plane) autoscaleOne(ctx context.Context, v *view, hpa *autoscalingv2.HorizontalPodAutoscaler, s *scaling) error {
	target, current, pods := v.scaleTarget(hpa)
	if target == nil || current == 0 {
		return nil
	}
	want := p.byMetrics(v, hpa, pods, current)
	if p.Synced != nil {
		p.Synced(hpa, pods, current, want)
	}
	s.recent = append(s.recent, recommendation{v.now, want})
	want = s.stabilized(v.now, want, ScaleDownWindow(hpa))
	want = min(want, max(2*current, current+4))
	want = max(min(want, hpa.Spec.MaxReplicas), ptr.Deref(hpa.Spec.MinReplicas, 1))
	if err := p.autoscalerStatus(ctx, v, hpa, current, want); err != nil || want == current {
		return err
	}
	return ignoreStale(p.rescale(ctx, v, target, want))
}

// byMetrics is the most that a metric of the HPA asks for. Where a metric is not known, fewer replicas are not asked for
// (computeReplicasForMetrics).
func (p *Plane) byMetrics(v *view, hpa *autoscalingv2.HorizontalPodAutoscaler, pods []*corev1.Pod, current int32) int32 {
	var wants []int32
	unknown := false
	if target := WantedUtilization(hpa, corev1.ResourceCPU); target != nil {
		want, known := p.ByCPU(pods, current, *target, cpuRequest, v.now)
		unknown = unknown || !known
		if known {
			wants = append(wants, want)
		}
	}
	if target := WantedUtilization(hpa, corev1.ResourceMemory); target != nil {
		want, known := p.byMemory(v, pods, current, *target)
		unknown = unknown || !known
		if known {
			wants = append(wants, want)
		}
	}
	if len(wants) == 0 {
		return current
	}
	if want := slices.Max(wants); !unknown || want > current {
		return want
	}
	return current
}

// byMemory is as many replicas as bring the utilization of memory requests to the target, in percent
// (GetResourceReplicas in pkg/controller/podautoscaler/replica_calculator.go, GetResourceUtilizationRatio): utilization
// is cut to a whole percent. A pod that is Pending counts as one that uses nothing where more replicas are asked for, and
// not at all where fewer are. For memory the readiness of a pod does not matter. No pod that runs is without a metric here.
func (p *Plane) byMemory(v *view, pods []*corev1.Pod, current, target int32) (want int32, known bool) {
	var used, asked, askedPending int64
	var measured, pending int
	for _, pod := range pods {
		if !active(pod) {
			continue
		}
		usage, request, metered := p.memoryOf(v, pod)
		switch {
		case request == 0:
			return 0, false // a container has no request
		case pod.Status.Phase != corev1.PodRunning:
			pending, askedPending = pending+1, askedPending+request
		case !metered:
			return 0, false
		default:
			measured, used, asked = measured+1, used+usage, asked+request
		}
	}
	if measured == 0 {
		return 0, false
	}
	return replicasFor(current, utilizationRatio(used, asked, target), utilizationRatio(used, asked+askedPending, target), measured, pending), true
}

// utilizationRatio is the utilization of requests, in whole percent, over its target.
func utilizationRatio(used, asked int64, target int32) float64 {
	return float64(used*100/asked) / float64(target)
}

// memoryOf the containers of a pod and what they ask for, in bytes. A request of 0: a container has none.
func (p *Plane) memoryOf(v *view, pod *corev1.Pod) (usage, request int64, known bool) {
	known = p.Memory != nil
	for _, c := range pod.Spec.Containers {
		one := c.Resources.Requests.Memory().Value()
		if one == 0 {
			return 0, 0, known
		}
		request += one
		if known {
			var used int64
			used, known = p.Memory(pod, c.Name, v.now)
			usage += used
		}
	}
	return usage, request, known
}

// stabilized: the highest of what was recommended lately.
func (s *scaling) stabilized(now time.Time, want int32, window time.Duration) int32 {
	var kept []recommendation
	for _, r := range s.recent {
		if now.Sub(r.at) < window {
			kept = append(kept, r)
			want = max(want, r.replicas)
		}
	}
	s.recent = kept
	return want
}

// WantedUtilization of the requests of a resource, in percent; nil: the HPA does not scale by it.
func WantedUtilization(hpa *autoscalingv2.HorizontalPodAutoscaler, of corev1.ResourceName) *int32 {
	for _, m := range hpa.Spec.Metrics {
		if m.Resource != nil && m.Resource.Name == of {
			return m.Resource.Target.AverageUtilization
		}
	}
	return nil
}

// ScaleDownWindow is how long an HPA remembers what it asked for.
func ScaleDownWindow(hpa *autoscalingv2.HorizontalPodAutoscaler) time.Duration {
	if b := hpa.Spec.Behavior; b != nil && b.ScaleDown != nil && b.ScaleDown.StabilizationWindowSeconds != nil {
		return time.Duration(*b.ScaleDown.StabilizationWindowSeconds) * time.Second
	}
	return downscaleWindow
}

func cpuRequest(_ *corev1.Pod, c *corev1.Container) int64 {
	return c.Resources.Requests.Cpu().MilliValue()
}

// ByCPU is as many replicas as bring the utilization of CPU requests to the target, in percent (GetResourceReplicas, as
// byMemory): usage over the requests of the spec, whatever was allocated. Pods that start count as ones that use nothing
// where more replicas are asked for, and not at all where fewer are. request is that of a container, in millicores.
func (p *Plane) ByCPU(pods []*corev1.Pod, current, target int32, request func(*corev1.Pod, *corev1.Container) int64, now time.Time) (want int32, known bool) {
	if p.CPU == nil {
		return 0, false
	}
	var used, asked, askedStarting int64
	var measured, starting int
	for _, pod := range pods {
		if !active(pod) {
			continue
		}
		counts := Counted(pod, now)
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			requested := request(pod, c)
			if requested == 0 {
				return 0, false
			}
			if !counts {
				askedStarting += requested
				continue
			}
			usage, metered := p.CPU(pod, c.Name, now)
			if !metered {
				return 0, false
			}
			used, asked = used+usage, asked+requested
		}
		if counts {
			measured++
		} else {
			starting++
		}
	}
	if measured == 0 {
		return 0, false
	}
	return replicasFor(current, utilizationRatio(used, asked, target), utilizationRatio(used, asked+askedStarting, target), measured, starting), true
}

// replicasFor is what an HPA asks for at a ratio of the pods that count, and at one of all.
func replicasFor(current int32, ratio, all float64, measured, starting int) int32 {
	if ratio <= 1 || starting == 0 {
		if math.Abs(ratio-1) <= autoscaleTolerance {
			return current
		}
		return int32(math.Ceil(ratio * float64(measured)))
	}
	want := int32(math.Ceil(all * float64(measured+starting)))
	if all < 1+autoscaleTolerance || want < current {
		return current
	}
	return want
}

// Counted: the HPA counts the CPU usage of a pod (groupPods in replica_calculator.go).
func Counted(pod *corev1.Pod, now time.Time) bool {
	if !active(pod) || pod.Status.Phase != corev1.PodRunning || pod.Status.StartTime == nil {
		return false
	}
	started := pod.Status.StartTime.Time
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodReady {
			continue
		}
		if started.Add(startsFor).After(now) {
			return c.Status == corev1.ConditionTrue && !now.Before(c.LastTransitionTime.Add(metricWindow))
		}
		return c.Status == corev1.ConditionTrue || !started.Add(neverReady).After(c.LastTransitionTime.Time)
	}
	return false
}

// scaleTarget is the workload of an HPA, its replicas and its pods.
func (v *view) scaleTarget(hpa *autoscalingv2.HorizontalPodAutoscaler) (client.Object, int32, []*corev1.Pod) {
	ref := hpa.Spec.ScaleTargetRef
	for _, d := range v.deployments {
		if ref.Kind == "Deployment" && d.Namespace == hpa.Namespace && d.Name == ref.Name {
			return d, replicas(d), v.selected(d.Namespace, d.Spec.Selector)
		}
	}
	for _, s := range v.stateful {
		if ref.Kind == "StatefulSet" && s.Namespace == hpa.Namespace && s.Name == ref.Name {
			return s, ptr.Deref(s.Spec.Replicas, 1), v.selected(s.Namespace, s.Spec.Selector)
		}
	}
	return nil, 0, nil
}

// rescale writes the replicas of a workload.
func (p *Plane) rescale(ctx context.Context, v *view, target client.Object, to int32) error {
	for i, d := range v.deployments {
		if d.UID == target.GetUID() {
			changed := d.DeepCopy()
			changed.Spec.Replicas = ptr.To(to)
			v.deployments[i] = changed
			return p.Client.Update(ctx, changed)
		}
	}
	for i, s := range v.stateful {
		if s.UID == target.GetUID() {
			changed := s.DeepCopy()
			changed.Spec.Replicas = ptr.To(to)
			v.stateful[i] = changed
			return p.Client.Update(ctx, changed)
		}
	}
	return nil
}

func (p *Plane) autoscalerStatus(ctx context.Context, v *view, hpa *autoscalingv2.HorizontalPodAutoscaler, current, want int32) error {
	status := hpa.Status.DeepCopy()
	status.ObservedGeneration, status.CurrentReplicas, status.DesiredReplicas = &hpa.Generation, current, want
	if want != current {
		status.LastScaleTime = ptr.To(stored(v.now))
	}
	if equality.Semantic.DeepEqual(&hpa.Status, status) {
		return nil
	}
	changed := hpa.DeepCopy()
	changed.Status = *status
	swap(v.autoscalers, changed)
	return p.writeStatus(ctx, changed)
}
