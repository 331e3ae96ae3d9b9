package policy_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
)

// FuzzResolve checks with arbitrary strings that the settings are complete and within bounds, and that an error is an
// InvalidConfig with a sentence.
func FuzzResolve(f *testing.F) {
	f.Add("20", "0.1", "4", "64Mi", "10%", "Europe/Berlin", "22:00", "http://prometheus:9090", `sum(up{a="b"})`, int64(time.Hour), int32(95))
	f.Add("NaN", "-1", "1e99", "-1", "0%", "Local", "24:00", "http://169.254.169.254", "((", int64(math.MinInt64), int32(-1))
	f.Add("1e3", "Inf", "9999999999999999999", "1n", "1000%", "../..", "9:00", "//", "`", int64(math.MaxInt64), int32(math.MaxInt32))
	f.Fuzz(func(t *testing.T, percent, decimal, cpu, memory, concurrent, zone, clock, address, query string, span int64, number int32) {
		s, err := policy.Resolve(nil, nil, fuzzed(percent, decimal, cpu, memory, concurrent, zone, clock, address, query, span, number))
		if err != nil {
			var invalid *policy.InvalidConfig
			if !errors.As(err, &invalid) || len(invalid.Problems) == 0 || invalid.Problems[0].Sentence == "" {
				t.Fatalf("not a sentence: %#v", err)
			}
		}
		checkComplete(t, s)
		if s.Digest() == "" {
			t.Fatal("no digest")
		}
	})
}

func fuzzed(percent, decimal, cpu, memory, concurrent, zone, clock, address, query string, span int64, number int32) *v1alpha1.AttunePolicy {
	overhead, burst := v1alpha1.Percent(percent), v1alpha1.Decimal(decimal)
	var length v1alpha1.Duration
	length.Duration.Duration = time.Duration(span)
	limit := intstr.Parse(concurrent)
	p := &v1alpha1.AttunePolicy{}
	p.Spec.TargetRef.Kind = v1alpha1.KindDeployment
	p.Spec.Weight = &number
	p.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{Overhead: &overhead, BurstSensitivity: &burst, Percentile: &number, MaxAllowed: quantity(cpu)},
		StartupBoost: &v1alpha1.StartupBoost{Multiplier: burst, Duration: length}}
	p.Spec.Memory = &v1alpha1.MemorySettings{ResourceSettings: v1alpha1.ResourceSettings{Overhead: &overhead, MinAllowed: quantity(memory), MaxChangePercent: &number}}
	p.Spec.MetricsSource = &v1alpha1.MetricsSource{Prometheus: &v1alpha1.PrometheusSource{Address: address, Headers: map[string]string{zone: query}},
		HistoryWindow: &length, QueryStep: &length, MinimumDataPoints: &number}
	p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Cooldown: &length, MaxConcurrentResizes: &limit,
		Schedule: &v1alpha1.Schedule{Timezone: zone, Windows: []v1alpha1.ScheduleWindow{{Start: v1alpha1.ClockTime(clock), End: "06:00"}}}}
	p.Spec.SLOGuardrails = []v1alpha1.SLOGuardrail{{Name: zone, Query: query, Threshold: v1alpha1.SignedDecimal(decimal), Comparison: "<"}}
	return p
}

func quantity(text string) *resource.Quantity {
	if q, err := resource.ParseQuantity(text); err == nil {
		return &q
	}
	return nil
}

func checkComplete(t *testing.T, s policy.Settings) {
	between := func(name string, value, least, most float64) {
		if !(value >= least && value <= most) {
			t.Fatalf("%s is %v", name, value)
		}
	}
	for _, r := range recommender.Resources {
		of := s.Recommender.Of[r]
		between("percentile", float64(of.Percentile), 50, 99)
		between("overhead", of.OverheadPercent, 0, 1000)
		between("burst", of.BurstSensitivity, 0, 10)
		between("step", float64(of.MaxChangePercent), 1, 1000)
		between("minimum", float64(of.MinAllowed), 0, 1<<60)
		between("maximum", float64(of.MaxAllowed), 0, 1<<60)
	}
	between("window", s.Source.HistoryWindow.Hours(), 1, 720)
	between("step", s.Source.QueryStep.Seconds(), 10, 3600)
	between("rate", s.Source.RateWindow.Seconds(), 30, 3600)
	between("points", float64(s.Recommender.MinimumDataPoints), 1, 100000)
	between("cooldown", s.Resize.Cooldown.Minutes(), 1, 720*60)
	between("watch", s.Resize.Observation.Minutes(), 1, 24*60)
	between("weight", float64(s.Weight), 1, 1000)
	if (s.Resize.MaxConcurrent >= 1) == (s.Resize.MaxConcurrentPercent >= 1) {
		t.Fatalf("%d pods, %d percent", s.Resize.MaxConcurrent, s.Resize.MaxConcurrentPercent)
	}
	if s.Resize.Schedule.Location == nil {
		t.Fatal("no time zone")
	}
	for _, w := range s.Resize.Schedule.Windows {
		between("start", float64(w.Start), 0, 24*60-1)
	}
	if b := s.StartupBoost; b != nil {
		between("multiplier", b.Multiplier, 1, 100)
		between("boost", b.Duration.Seconds(), 1, 3600)
	}
}
