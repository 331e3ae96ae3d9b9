package pod

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// Feed connects the index to a cache's informers, without waiting for them. An error means that an informer could
// not be made. The returned check is for readiness: it succeeds once the index holds everything that existed at
// the start. A pod that is created before that is admitted unsized.
// BlockUntilSynced(false) returns at once; HasSynced of the registration tells when the index has all objects.
func (x *Index) Feed(ctx context.Context, informers cache.Informers) (func(*http.Request) error, error) {
	var synced []func() bool
	for _, object := range []client.Object{&v1alpha1.AttuneRecommendation{}, &corev1.LimitRange{}, &corev1.ResourceQuota{}} {
		informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		registration, err := informer.AddEventHandler(x.Handler())
		if err != nil {
			return nil, fmt.Errorf("watching %T: %w", object, err)
		}
		synced = append(synced, registration.HasSynced)
	}
	return func(*http.Request) error {
		for _, done := range synced {
			if !done() {
				return errors.New("recommendations, limit ranges and quotas are not all read yet")
			}
		}
		return nil
	}, nil
}
