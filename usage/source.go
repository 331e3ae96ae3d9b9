// Package usage answers: what did the containers use?
package usage

import (
	"context"
	"errors"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
)

// Source answers what containers used. Any number of goroutines may use one.
type Source interface {
	// Read calls yield for each piece of the answer, in no particular order, before it returns. The same
	// container may come several times, with other steps or other fields; where two values of a step
	// differ, the highest one counts. A Series and its slices are only valid during the call.
	//
	// A partial answer is data with gaps, and the report says so. An error means that the answer broke off
	// and that what was yielded is to be thrown away; it wraps ErrTooMuch where asking for less would do.
	Read(ctx context.Context, query Query, yield func(Series)) (Report, error)
}

// Dialer makes the source of some settings, reading the Secrets that they name. It is called again after a failure, so that
// a Secret that was changed is read again.
type Dialer func(SourceSettings) (Source, error)

// ErrTooMuch is wrapped by errors of a Source that could not answer because it was asked for too much: too
// large an answer, too many samples, or too long a computation. Ask for a shorter span.
var ErrTooMuch = errors.New("too much was asked for at once")

// Series is a piece of one container's history in one pod. Each slice holds one sample a step and any of
// them may be empty.
type Series struct {
	Namespace, Pod, Container string
	// CPU is in cores: the rate over the rate window that ends with the step.
	CPU []Sample
	// CPUPeak is the highest rate within the step, in cores; empty where CPU leaves no part of a step out
	// and so is its own peak.
	CPUPeak []Sample
	// Memory is the highest working set within the step, in bytes.
	Memory []Sample
	// CPUImplausible and MemoryImplausible are samples that were dropped because no node has so much.
	CPUImplausible, MemoryImplausible []Sample
}

// Sample is the value of the step that ended At.
type Sample struct {
	// At is in Unix milliseconds, the resolution of the servers.
	At    int64
	Value float64
}

// Time of the end of the sample's step.
func (s Sample) Time() time.Time { return time.UnixMilli(s.At).UTC() }

// Newest is the time of the last of some samples in Unix milliseconds; 0: there is none.
func Newest(samples []Sample) int64 {
	if len(samples) == 0 {
		return 0
	}
	return samples[len(samples)-1].At
}

// ErrSoon says of what is missing in an answer that it will be known within seconds: it was not asked for before.
var ErrSoon = errors.New("not measured yet")

// ByContainer holds one value for each container that was measured, by pod.
type ByContainer map[string]map[string]float64

// Trace is what was measured of a container's memory lately.
type Trace struct {
	// Samples of its working set in bytes, the oldest first.
	Samples []Sample
	// Stalled is the fraction of time, 0 to 1, in which its tasks waited for memory (PSI); 0 also where that is not known.
	Stalled float64
}

// Traces are by pod and container; what is not known is missing.
type Traces map[string]map[string]Trace

// SourceSettings say which server is asked and how; two policies with equal ones share every query.
type SourceSettings struct {
	// Prometheus is nil for the operator's own source.
	Prometheus *v1alpha1.PrometheusSource
	// Namespace holds the Secrets that Prometheus names; empty for the operator's own source.
	Namespace string
	// Labels that every series of a server has that is asked for, such as a cluster's.
	Labels map[string]string
	// OfPolicy: a policy or the defaults of a namespace named the server, and not the operator's own configuration.
	OfPolicy bool
	// HistoryWindow is how far back is looked at, QueryStep the resolution, RateWindow that of rate().
	HistoryWindow, QueryStep, RateWindow time.Duration
}

// Digest is equal for equal settings, and short enough for a map key or a label.
type Digest string

// Digest of the settings.
func (s SourceSettings) Digest() Digest {
	return Digest(clip.Digest(s, 8))
}
