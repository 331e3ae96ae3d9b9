// Package replicas judges attune's formula of the HPA by upstream's own code: pkg/controller/podautoscaler.
package replicas

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"

	"attune.io/attune/recommender/replicas"
)

const (
	// Defaults of kube-controller-manager.
	cpuInitialization = 5 * time.Minute
	initialReadiness  = 30 * time.Second
	// window is the one of metrics-server's samples.
	window = 30 * time.Second
)

// upstream is a fleet that upstream's replica calculator looks at: it lists pods, and reads their metrics.
type upstream struct {
	corelisters.PodLister
	corelisters.PodNamespaceLister
	metrics.MetricsClient
	pods []*corev1.Pod
	used metrics.PodMetricsInfo
}

func (u *upstream) Pods(string) corelisters.PodNamespaceLister { return u }

func (u *upstream) List(labels.Selector) ([]*corev1.Pod, error) { return u.pods, nil }

// GetResourceMetric copies the metrics, as the calculator changes them.
func (u *upstream) GetResourceMetric(context.Context, corev1.ResourceName, string, labels.Selector, string) (metrics.PodMetricsInfo, time.Time, error) {
	if len(u.used) == 0 {
		return nil, time.Time{}, errors.New("no metrics")
	}
	used := make(metrics.PodMetricsInfo, len(u.used))
	for name, m := range u.used {
		used[name] = m
	}
	return used, time.Now(), nil
}

// desired is what upstream asks for, within the HPA's bounds, as its controller does before behavior and stabilization.
func (u *upstream) desired(s replicas.Scaler, current int32, r corev1.ResourceName) int32 {
	switch {
	case current == 0:
		return 0
	case current > s.Max:
		return s.Max
	case current < s.Min:
		return s.Min
	}
	calculator := podautoscaler.NewReplicaCalculator(u, u, cpuInitialization, initialReadiness)
	wanted, _, _, _, err := calculator.GetResourceReplicas(context.Background(), current, s.Target, r, tolerances(s), "", labels.Everything(), "")
	if err != nil {
		return current // its controller does nothing
	}
	return max(s.Min, min(wanted, s.Max))
}

// tolerances makes upstream's type, whose fields are private.
func tolerances(s replicas.Scaler) podautoscaler.Tolerances {
	return *(*podautoscaler.Tolerances)(unsafe.Pointer(&[2]float64{s.Down, s.Up}))
}

func TestTolerancesHaveTheFieldsOfUpstream(t *testing.T) {
	of := reflect.TypeFor[podautoscaler.Tolerances]()
	require.Equal(t, 2, of.NumField())
	require.Equal(t, [2]string{"scaleDown", "scaleUp"}, [2]string{of.Field(0).Name, of.Field(1).Name})
	require.Equal(t, "[down:20.0%, up:30.0%]", tolerances(replicas.Scaler{Down: .2, Up: .3}).String())
}

// phase is how upstream sees a pod.
type phase int

const (
	ready    phase = iota
	recently       // ready, and not ready any more: its usage counts
	starting       // not ready, within the time for starting
	young          // ready for less than one window of metrics, within the time for starting
	never          // was never ready
	pending
	missing // no metrics
	failed
	deleted
	phases
)

// counts reports how the pod takes part: its usage counts, or it is unready, or it has no usage.
func (p phase) counts(r corev1.ResourceName) (usage, unready, absent bool) {
	switch p {
	case ready, recently:
		return true, false, false
	case starting, young, never:
		return r != corev1.ResourceCPU, r == corev1.ResourceCPU, false
	case pending:
		return false, true, false
	case missing:
		return false, false, true
	}
	return false, false, false
}

// add a pod that requests and uses amounts in thousandths of the unit: millicores, or thousandths of a byte.
func (u *upstream) add(p phase, r corev1.ResourceName, request, usage int64) *corev1.Pod {
	now := time.Now()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("pod-", len(u.pods))}}
	pod.Spec.Containers = []corev1.Container{{Name: "app"}}
	setRequest(pod, r, request)
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	started, changed := now.Add(-time.Hour), now.Add(-time.Hour+time.Minute)
	pod.Status.Phase = corev1.PodRunning
	switch p {
	case recently:
		condition.Status, changed = corev1.ConditionFalse, now.Add(-time.Minute)
	case starting:
		condition.Status, started, changed = corev1.ConditionFalse, now.Add(-time.Minute), now.Add(-time.Minute)
	case young:
		started, changed = now.Add(-time.Minute), now.Add(-10*time.Second)
	case never:
		condition.Status, changed = corev1.ConditionFalse, started.Add(time.Second)
	case pending:
		pod.Status.Phase = corev1.PodPending
	case failed:
		pod.Status.Phase = corev1.PodFailed
	case deleted:
		pod.DeletionTimestamp = &metav1.Time{Time: now}
	}
	condition.LastTransitionTime.Time = changed
	pod.Status.StartTime = &metav1.Time{Time: started}
	pod.Status.Conditions = []corev1.PodCondition{condition}
	u.pods = append(u.pods, pod)
	if p != missing && p != pending {
		if u.used == nil {
			u.used = metrics.PodMetricsInfo{}
		}
		u.used[pod.Name] = metrics.PodMetric{Timestamp: now, Window: window, Value: usage}
	}
	return pod
}

func setRequest(pod *corev1.Pod, r corev1.ResourceName, request int64) {
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{r: *resource.NewMilliQuantity(request, resource.DecimalSI)}
}

// utilization is the HPA of a scaler.
func utilization(s replicas.Scaler, r corev1.ResourceName) autoscalingv2.HorizontalPodAutoscalerSpec {
	return autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "app"},
		MinReplicas:    &s.Min, MaxReplicas: s.Max,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: r, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &s.Target},
		}}},
	}
}
