package workload

import (
	"context"
	"sync/atomic"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/loop"
	"attune.io/attune/tuning"
)

// Served knows whether the API server serves pods/resize, which one of 1.33 or 1.34 may have switched off. Before it was
// asked, and where it is nil, that is taken for granted. It is safe for concurrent use.
type Served struct {
	// Ask asks the API server what it serves.
	Ask   func(context.Context) (bool, error)
	Clock clock.WithTicker

	missing atomic.Bool
}

// servedEvery is how often the API server is asked what it serves: it may be restarted with other features.
const servedEvery = tuning.ServedEvery

// Start asks at once and then now and then, until the context ends.
func (s *Served) Start(ctx context.Context) error {
	s.look(ctx)
	for range loop.Every(ctx, s.Clock, servedEvery) {
		s.look(ctx)
	}
	return nil
}

// look asks the API server. Where it gives no answer, what was known stands.
func (s *Served) look(ctx context.Context) {
	served, err := s.Ask(ctx)
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "Cannot ask the API server whether it serves pods/resize; what was known stands")
	case s.missing.Swap(!served) == served:
		log.FromContext(ctx).Info("Asked the API server whether it serves pods/resize", "served", served)
	}
}

// lacks: the API server serves no pods/resize.
func (s *Served) lacks() bool { return s != nil && s.missing.Load() }
