package history

import (
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/replicas"
)

// Coverage says how much of the past the spans of a workload show.
type Coverage struct {
	// Since is the oldest time from which on at least nine tenths of the steps until Until are known; zero: nothing is
	// known.
	Since, Until time.Time
	// Known of Of steps between the two are known.
	Known, Of int
	// Window is how far back spans reach at most.
	Window time.Duration
	// Why is the reason why the newest read failed; nil: it did not.
	Why error
}

// Spans returns the mean usage of the pods of a workload with Workload.Fleet, by the number of pods, oldest first; nil
// without any. Without a container, a pod's usage is the sum of all its containers, which is what an HPA divides for a
// metric of the type Resource. The caller may keep the result.
func (s *Store) Spans(key Key, r recommender.Resource) []replicas.Span { return nil }

// Covered returns how much of the past Spans shows.
func (s *Store) Covered(key Key, r recommender.Resource) Coverage { return Coverage{} }

// FleetCheckpoint returns the spans of a workload in a compact form of at most `most` bytes; nil without any, or if
// the source keeps the past itself. stored is the checkpoint in the recommendation: it is returned unchanged if it was
// made from the same spans.
func (s *Store) FleetCheckpoint(key Key, most int, stored []byte) []byte { return nil }

// RestoreFleet adds the spans of a checkpoint, once. An error means that the checkpoint is unusable.
func (s *Store) RestoreFleet(key Key, packed []byte, now time.Time) error { return nil }
