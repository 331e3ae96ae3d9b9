package history_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// week returns a store of containers with a week of history, and its source.
func week(tb testing.TB, containers int) (*history.Store, *fake, history.Key) {
	tb.Helper()
	source := &fake{}
	settings := weekSettings()
	interest := history.Interest{Policy: "p", Namespace: "shop", Source: settings}
	for i := range containers {
		name := fmt.Sprint("app", i)
		source.pods = append(source.pods, fakePod{namespace: "shop", pod: name + "-7d4f8c9b6-aaaaa", container: "app", cpu: always(0.2), memory: always(1 << 20)})
		interest.Workloads = append(interest.Workloads, history.Workload{Kind: v1alpha1.KindDeployment, Name: name, Containers: []string{"app"}})
	}
	s := newStore(source)
	s.Want(interest)
	for s.Refresh(context.Background(), now) {
	}
	return s, source, history.Key{Source: settings.Digest(), Namespace: "shop", Kind: v1alpha1.KindDeployment, Workload: "app0", Container: "app"}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func TestMemoryOfAContainer(t *testing.T) {
	const containers = 200
	before := heap()
	s, source, k := week(t, containers)
	each := int64(heap()-before) / containers
	t.Logf("%d bytes a container with a week of 5-minute steps", each)
	// Constant usage takes 10 bytes for two hours.
	assert.Less(t, each, int64(4096))
	assert.Less(t, s.Held()/containers, int64(3000))
	assert.Equal(t, containers, s.Histories(weekSettings()))
	_, ok := s.Profile(k, now)
	assert.True(t, ok)
	runtime.KeepAlive(source)
}

func weekSettings() usage.SourceSettings {
	return usage.SourceSettings{HistoryWindow: 168 * time.Hour, QueryStep: step, RateWindow: step}
}

func BenchmarkRefresh(b *testing.B) {
	s, _, _ := week(b, 1000)
	at := now
	b.ReportAllocs()
	for b.Loop() {
		at = at.Add(step)
		s.Refresh(context.Background(), at)
	}
}

func BenchmarkProfile(b *testing.B) {
	s, _, k := week(b, 1)
	b.Run("unchanged", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = s.Profile(k, now)
		}
	})
	b.Run("new data", func(b *testing.B) {
		at := now
		b.ReportAllocs()
		for b.Loop() {
			at = at.Add(step)
			s.Refresh(context.Background(), at)
			_, _ = s.Profile(k, at)
		}
	})
}
