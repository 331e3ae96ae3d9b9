package tuning_test

import (
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

// BenchmarkDecide decides for a workload whose pods all need a resize. The cost per pod must not depend on their
// number.
func BenchmarkDecide(b *testing.B) {
	for _, pods := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(pods, " pods"), func(b *testing.B) {
			w := crowd(b, pods)
			b.ReportAllocs()
			for b.Loop() {
				if d := tuning.Decide(w); len(d.Status.Records) == 0 {
					b.Fatal("nothing is begun")
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pods), "ns/pod")
		})
	}
}

// BenchmarkStatus encodes the status as the API server gets it: with the maximum number of records, and without
// records.
func BenchmarkStatus(b *testing.B) {
	w := crowd(b, 600)
	w.Policy.Settings.Resize.MaxConcurrentPercent, w.Policy.Settings.Resize.CanaryPercent = 100, 100
	busy := &v1alpha1.AttuneRecommendation{ObjectMeta: w.Rec.ObjectMeta, Spec: w.Rec.Spec, Status: tuning.Decide(w).Status}
	if len(busy.Status.Records) != v1alpha1.MaxRecords {
		b.Fatal(len(busy.Status.Records), "records")
	}
	rest := busy.DeepCopy()
	for _, record := range rest.Status.Records[:20] {
		rest.Status.History = lifecycle.AddHistory(rest.Status.History, lifecycle.HistoryRows("web", record, lifecycle.ResultSuccess, "", now))
		rest.Status.Verified = harm.AddVerified(rest.Status.Verified, record, nil, now)
	}
	rest.Status.Records, rest.Status.CooldownFrom = nil, &metav1.Time{Time: now}
	for name, rec := range map[string]*v1alpha1.AttuneRecommendation{"50 records": busy, "at rest": rest} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				text, err := json.Marshal(rec)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(text)))
			}
		})
	}
}
