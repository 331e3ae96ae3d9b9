package workload

import (
	"context"
	"sync/atomic"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/loop"
	"attune.io/attune/tuning"
)

// Served knows whether the API server serves pods/resize: an API server 1.33 or 1.34 may have the feature
// switched off (feature gate InPlacePodVerticalScaling). Before the first answer, and on a nil *Served, it
// is assumed to be served. It is safe for concurrent use.
type Served struct {
	// Ask asks the API server what it serves (discovery). It may block on the network.
	Ask func(context.Context) (bool, error)
	// Clock gives the ticks of Start.
	Clock clock.WithTicker

	missing atomic.Bool
}

// servedEvery is how often the API server is asked what it serves: it may be restarted with other
// features.
const servedEvery = tuning.ServedEvery

// Start asks at once and then every servedEvery, until the context ends. It implements manager.Runnable
// and always returns nil.
func (s *Served) Start(ctx context.Context) error {
	s.look(ctx)
	for range loop.Every(ctx, s.Clock, servedEvery) {
		s.look(ctx)
	}
	return nil
}

// look asks the API server. Without an answer, what was known stays. Only a change is logged.
func (s *Served) look(ctx context.Context) {
	served, err := s.Ask(ctx)
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "Cannot ask the API server whether it serves pods/resize; what was known stands")
	case s.missing.Swap(!served) == served:
		log.FromContext(ctx).Info("Asked the API server whether it serves pods/resize", "served", served)
	}
}

// lacks reports that the API server does not serve pods/resize.
func (s *Served) lacks() bool { return s != nil && s.missing.Load() }
