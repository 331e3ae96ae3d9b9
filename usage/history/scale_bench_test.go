package history_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// herd is a source with cheap answers: workloads of one container and one pod each, whose usage depends on the hour of
// the day. Its pods get new names with each rollout.
type herd struct {
	workloads, rollout int
	pods               []string
	cpu, memory, noise []usage.Sample
	// samples counts the yielded samples.
	samples int
}

func (*herd) name(i int) string { return fmt.Sprintf("app-%05d", i) }

// roll gives every pod a new name, as a rollout does.
func (h *herd) roll() {
	h.rollout++
	h.pods = h.pods[:0]
	for i := range h.workloads {
		h.pods = append(h.pods, fmt.Sprintf("%s-%010d-abcde", h.name(i), h.rollout))
	}
}

func (h *herd) Read(_ context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	h.noise = h.noise[:0]
	for at := query.Start; !at.After(query.End); at = at.Add(query.Step) {
		h.noise = append(h.noise, usage.Sample{At: at.UnixMilli(), Value: 1 + 0.5*math.Sin(float64(at.Unix()%86400)/86400*2*math.Pi)})
	}
	for i, pod := range h.pods {
		h.cpu, h.memory = h.cpu[:0], h.memory[:0]
		for n, base := range h.noise {
			swing := base.Value + float64((i*7919+n*104729)%100)/500
			h.cpu = append(h.cpu, usage.Sample{At: base.At, Value: 0.1 * swing})
			h.memory = append(h.memory, usage.Sample{At: base.At, Value: 2e8 * swing})
		}
		h.samples += len(h.cpu) + len(h.memory)
		yield(usage.Series{Namespace: "shop", Pod: pod, Container: "app", CPU: h.cpu})
		yield(usage.Series{Namespace: "shop", Pod: pod, Container: "app", Memory: h.memory})
	}
	return usage.Report{}, nil
}

// graze returns a store that has read the window of the herd's history that ends now.
func (h *herd) graze(window time.Duration) (*history.Store, usage.SourceSettings) {
	h.roll()
	settings := usage.SourceSettings{HistoryWindow: window, QueryStep: step, RateWindow: step}
	interest := history.Interest{Policy: "p", Namespace: "shop", Source: settings}
	for i := range h.workloads {
		interest.Workloads = append(interest.Workloads, history.Workload{Kind: v1alpha1.KindDeployment, Name: h.name(i), Containers: []string{"app"}})
	}
	s := history.New(history.Options{MaxBytes: 8 << 30, Dial: func(usage.SourceSettings) (usage.Source, error) { return h, nil }})
	s.Want(interest)
	for s.Refresh(context.Background(), now) {
	}
	return s, settings
}

// BenchmarkIngest measures the path of a sample from a source into a profile's data: an operation is a sample, and each
// refresh reads the samples of 1,000 containers.
func BenchmarkIngest(b *testing.B) {
	h := &herd{workloads: 1000}
	s, _ := h.graze(168 * time.Hour)
	at := now
	h.samples = 0
	b.ReportAllocs()
	b.ResetTimer()
	for h.samples < b.N {
		at = at.Add(step)
		s.Refresh(context.Background(), at)
	}
}

// BenchmarkProfileMemory measures the heap of a container after 8 days, with its profile in use, and the growth with
// each of 8 rollouts.
func BenchmarkProfileMemory(b *testing.B) {
	const days, rollouts = 8, 8
	h := &herd{workloads: 1000}
	for b.Loop() {
		before := heap()
		s, settings := h.graze(days * 24 * time.Hour)
		at := now
		for range 24 {
			// Until the oldest values leave the window as new ones come.
			at = at.Add(step)
			s.Refresh(context.Background(), at)
		}
		h.use(b, s, settings, at)
		settled := heap()
		for range rollouts {
			h.roll()
			at = at.Add(step)
			s.Refresh(context.Background(), at)
		}
		h.use(b, s, settings, at)
		rolled := heap()
		b.ReportMetric(float64(settled-before)/float64(h.workloads), "bytes/container")
		b.ReportMetric(float64(s.Held())/float64(h.workloads), "packed-bytes/container")
		b.ReportMetric(float64(int64(rolled)-int64(settled))/float64(h.workloads)/rollouts, "bytes/rollout")
		runtime.KeepAlive(s)
	}
}

// use reads every profile, like the policy loop.
func (h *herd) use(b *testing.B, s *history.Store, settings usage.SourceSettings, at time.Time) {
	b.Helper()
	key := history.Key{Source: settings.Digest(), Namespace: "shop", Kind: v1alpha1.KindDeployment, Container: "app"}
	for i := range h.workloads {
		key.Workload = h.name(i)
		if _, ok := s.Profile(key, at); !ok {
			b.Fatal("no profile of", key.Workload)
		}
	}
}
