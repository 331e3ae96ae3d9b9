package main

import (
	"context"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
)

const (
	// clocksDiffer is how far in the future a container may start, by the clock of its node.
	clocksDiffer = time.Minute
	// firstStart is earlier than any true start. Some runtimes report the year 1.
	firstStart = 2000
)

// Facts returns what samples of a container are checked against, for usage.Judge. Samples of a pod that is not cached
// are checked against the largest node only.
func (r scrapedPods) Facts(namespace, name, container string) usage.Facts {
	ctx := context.Background()
	pod := &corev1.Pod{}
	if !r.cached(namespace) || r.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod, client.UnsafeDisableDeepCopy) != nil {
		return usage.Facts{}
	}
	node := &corev1.Node{}
	if pod.Spec.NodeName != "" && r.cache.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node, client.UnsafeDisableDeepCopy) != nil {
		node = &corev1.Node{}
	}
	return factsOf(pod, node, container, time.Now())
}

// factsOf returns the facts about a container of a pod on a node. The zero node is not known.
func factsOf(pod *corev1.Pod, node *corev1.Node, container string, now time.Time) usage.Facts {
	f := usage.Facts{Created: milliseconds(pod.CreationTimestamp.Time), Node: mostOf(node.Status.Capacity)}
	if c := podview.ContainerOf(pod, container); c != nil {
		f.Limit = mostOf(c.Resources.Limits)
		if f.Limit.Cores > 0 { // kubelets enforce no lower limit
			f.Limit.Cores = max(f.Limit.Cores, float64(recommender.LeastCPULimit)/1000)
		}
		f.LimitSince = milliseconds(podview.SizedSince(pod))
	}
	status := podview.FirstIn(pod.Status.ContainerStatuses, func(s *corev1.ContainerStatus) bool { return s.Name == container })
	if status == nil {
		status = podview.FirstIn(pod.Status.InitContainerStatuses, func(s *corev1.ContainerStatus) bool { return s.Name == container })
	}
	if status == nil || status.State.Running == nil {
		return f
	}
	if at := status.State.Running.StartedAt.Time; at.Year() >= firstStart && at.Before(now.Add(clocksDiffer)) {
		f.Started = milliseconds(at)
	}
	// The status counts all restarts. The mean of the pod's life is rounded up.
	days := max(1, now.Sub(pod.CreationTimestamp.Time).Hours()/24)
	f.Restarts = int(math.Ceil(float64(status.RestartCount) / days))
	return f
}

// mostOf returns CPU and memory of a list; 0: not in it.
func mostOf(list corev1.ResourceList) usage.Most {
	return usage.Most{Cores: list.Cpu().AsApproximateFloat64(), Bytes: list.Memory().AsApproximateFloat64()}
}

// milliseconds returns a time in Unix milliseconds; 0 for the zero time.
func milliseconds(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}
