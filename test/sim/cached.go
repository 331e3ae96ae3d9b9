package sim

import (
	"context"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/sim/api"
)

// cachedClient reads the cache and writes to the server, as a manager's client does.
type cachedClient struct {
	*api.Client
	cache *cache
}

func (c *cachedClient) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.cache.Get(ctx, key, o, opts...)
}

func (c *cachedClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.cache.List(ctx, list, opts...)
}

// autoscalers are the HPAs of a cache, where they can be listed; the cluster serves no VPAs.
type autoscalers struct{ of *operator }

func (a autoscalers) Of(ctx context.Context, w workload.Workload) (autoscale.Holds, error) {
	if err := a.of.w.faults.unlisted(a.of); err != nil {
		return autoscale.Holds{}, err
	}
	list := &autoscalingv2.HorizontalPodAutoscalerList{}
	if err := a.of.cache.List(ctx, list, client.InNamespace(w.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return autoscale.Holds{}, err
	}
	var found autoscale.Autoscalers
	keys := autoscale.TargetKeys(w)
	for i := range list.Items {
		if slices.Contains(keys, autoscale.TargetKey(&list.Items[i])) {
			found.HPAs = append(found.HPAs, list.Items[i])
		}
	}
	found.MayRetarget = a.of.mayRetarget
	return found.Of(w), nil
}
