package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// live reads a pod from the API server, past the cache. It is used before steps that cannot be corrected
// by reading again, such as giving a record up. nil without an error: the pod is gone, or another pod has
// its name.
func (c *Controller) live(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	now := &corev1.Pod{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(pod), now); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("asking the API server for pod %s: %w", pod.Name, err)
	}
	if now.UID != pod.UID {
		return nil, nil
	}
	return now, nil
}
