// Package usage defines how container usage is read: sources, queries, and reports about answers.
package usage

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
)

// Source returns container usage. It is safe for concurrent use.
type Source interface {
	// Read calls yield for each piece of the answer, in no particular order, before it returns. The same container may
	// come several times, with other steps or other fields. If two values of a step differ, the highest one counts. A
	// Series and its slices are only valid during the call.
	//
	// A partial answer has gaps, and the report says so. An error means that the answer is incomplete and that the
	// caller must discard the yielded data. It wraps ErrTooMuch if a smaller query may succeed.
	Read(ctx context.Context, query Query, yield func(Series)) (Report, error)
}

// Dialer makes the source of some settings and reads the Secrets that they name. It is called again after a failure, so
// that a changed Secret is read again.
type Dialer func(SourceSettings) (Source, error)

// ErrTooMuch is wrapped by errors of a Source that could not answer because the query was too large: too large an
// answer, too many samples, or too long a computation. Query a shorter span.
var ErrTooMuch = errors.New("the query is too large")

// Series is a piece of one container's history in one pod. Each slice has one sample per step, and any of them may be
// empty.
type Series struct {
	Namespace, Pod, Container string
	// CPU is in cores: the rate over the rate window that ends with the step.
	CPU []Sample
	// CPUPeak is the highest rate within the step, in cores; empty if CPU covers the whole step and so is its own peak.
	CPUPeak []Sample
	// Memory is the highest working set within the step, in bytes.
	Memory []Sample
	// CPUImplausible and MemoryImplausible are samples that were dropped because no container uses such an amount
	// (Drop.Impossible). Why is the reason of the highest one, and Bound what it exceeds, in cores or bytes.
	CPUImplausible, MemoryImplausible []Sample
	Why                               Drop
	Bound                             float64
	// Started is when the running container started, in Unix milliseconds; 0: not known. Restarts counts its restarts
	// within 24 hours.
	Started  int64
	Restarts int
	// Gone: the API server knows the start of other containers, but not this pod any more.
	Gone bool
}

// startsPerDay is the most restarts of a container in a day whose start is not part of its usage.
const startsPerDay = 3

// The time that a container needs to start: without a startup boost, and at most.
const defaultStartup, maxStartup = 2 * time.Minute, 10 * time.Minute

// Startup returns how long a container starts: as long as its startup boost (0: it has none), within bounds. Its CPU until
// then is no usage.
func Startup(boost time.Duration) time.Duration {
	return min(cmp.Or(boost, defaultStartup), maxStartup)
}

// RestartsOften reports whether a container restarts so often in a day that its starts are a part of its usage.
func RestartsOften(restarts int) bool { return restarts > startsPerDay }

// AroundStart splits samples of CPU, oldest first, into those before and those after the start of the running
// container, which takes startup. It also returns the samples that are left out, because a part of the window that they
// are measured over is within the start. Without a known start, or if the container restarts often, none is.
func (s *Series) AroundStart(samples []Sample, startup, window time.Duration) (before, after, left []Sample) {
	if s.Started == 0 || RestartsOften(s.Restarts) {
		return samples, nil, nil
	}
	index := func(at int64) int {
		i, _ := slices.BinarySearchFunc(samples, at, func(s Sample, at int64) int { return cmp.Compare(s.At, at) })
		return i
	}
	first, next := index(s.Started+1), index(s.Started+(startup+window).Milliseconds())
	return samples[:first], samples[next:], samples[first:next]
}

// Sample is the value of the step that ended At.
type Sample struct {
	// At is in Unix milliseconds, the resolution of the servers.
	At    int64
	Value float64
}

// Time of the end of the sample's step.
func (s Sample) Time() time.Time { return time.UnixMilli(s.At).UTC() }

// Newest is the time of the last sample in Unix milliseconds; 0 without samples.
func Newest(samples []Sample) int64 {
	if len(samples) == 0 {
		return 0
	}
	return samples[len(samples)-1].At
}

// ErrSoon says that the missing part of an answer will be available within seconds: it was queried for the first time.
var ErrSoon = errors.New("not measured yet")

// ByContainer has one value for each measured container, by pod.
type ByContainer map[string]map[string]float64

// Trace is the recently measured memory of a container.
type Trace struct {
	// Samples of its working set in bytes, oldest first.
	Samples []Sample
	// Stalled is the fraction of time, 0 to 1, in which its tasks waited for memory (PSI); 0 also if unknown.
	Stalled float64
}

// Traces are by pod and container; unknown ones are missing.
type Traces map[string]map[string]Trace

// SourceSettings say which server is queried and how. Policies with equal settings share every query.
type SourceSettings struct {
	// Prometheus is nil for the operator's own source.
	Prometheus *v1alpha1.PrometheusSource
	// Namespace of the Secrets that Prometheus names; empty for the operator's own source.
	Namespace string
	// Labels that select the series of a server, such as a cluster label.
	Labels map[string]string
	// OfPolicy: a policy or the defaults of a namespace named the server, not the operator's own configuration.
	OfPolicy bool
	// HistoryWindow is the length of the history, QueryStep the resolution, RateWindow the window of rate().
	HistoryWindow, QueryStep, RateWindow time.Duration
}

// Own returns the settings for the operator's own source, with the same steps and windows.
func (s SourceSettings) Own() SourceSettings {
	return SourceSettings{HistoryWindow: s.HistoryWindow, QueryStep: s.QueryStep, RateWindow: s.RateWindow}
}

// Digest is equal for equal settings, and short enough for a map key or a label.
type Digest string

// Digest of the settings.
func (s SourceSettings) Digest() Digest {
	return Digest(clip.Digest(s, 8))
}
