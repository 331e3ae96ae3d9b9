package usage_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
)

func settings() usage.SourceSettings {
	return usage.SourceSettings{
		Prometheus: &v1alpha1.PrometheusSource{
			Address: "http://prometheus:9090",
			Headers: map[string]string{"X-Scope-OrgID": "a", "X-Other": "b", "X-Third": "c"},
		},
		Namespace:     "shop",
		HistoryWindow: 168 * time.Hour, QueryStep: 5 * time.Minute, RateWindow: 5 * time.Minute,
	}
}

func TestDigestIsEqualForEqualSettings(t *testing.T) {
	for range 20 {
		assert.Equal(t, settings().Digest(), settings().Digest(), "whatever the order of the headers")
	}
}

func TestDigestTellsSettingsApart(t *testing.T) {
	changes := map[string]func(*usage.SourceSettings){
		"the operator's own": func(s *usage.SourceSettings) { s.Prometheus = nil },
		"address":            func(s *usage.SourceSettings) { s.Prometheus.Address = "http://other:9090" },
		"header":             func(s *usage.SourceSettings) { s.Prometheus.Headers["X-Scope-OrgID"] = "b" },
		"parameter":          func(s *usage.SourceSettings) { s.Prometheus.QueryParameters = map[string]string{"dedup": "true"} },
		"label":              func(s *usage.SourceSettings) { s.Labels = map[string]string{"cluster": "eu-1"} },
		"secret":             func(s *usage.SourceSettings) { s.Prometheus.BearerTokenSecret = &v1alpha1.SecretKey{Name: "x"} },
		"namespace":          func(s *usage.SourceSettings) { s.Namespace = "other" },
		"window":             func(s *usage.SourceSettings) { s.HistoryWindow = time.Hour },
		"step":               func(s *usage.SourceSettings) { s.QueryStep = time.Minute },
		"rate window":        func(s *usage.SourceSettings) { s.RateWindow = time.Minute },
	}
	seen := map[usage.Digest]string{settings().Digest(): "unchanged"}
	for name, change := range changes {
		changed := settings()
		change(&changed)
		digest := changed.Digest()
		assert.Empty(t, seen[digest], "%s looks like it", name)
		seen[digest] = name
	}
}

func TestReport(t *testing.T) {
	var report usage.Report
	report.Drop(usage.DropNegative, 0)
	assert.Nil(t, report.Dropped, "nothing dropped is not a reason")

	report.Drop(usage.DropNegative, 2)
	report.Warn("slow")
	report.Warn("slow")
	report.Add(usage.Report{
		Series: 1, Samples: 10, Partial: true, Warnings: []string{"slow", "store down"},
		Dropped: map[usage.Drop]int{usage.DropNegative: 1, usage.DropInfinite: 4},
	})
	want := usage.Report{
		Series: 1, Samples: 10, Partial: true, Warnings: []string{"slow", "store down"},
		Dropped: map[usage.Drop]int{usage.DropNegative: 3, usage.DropInfinite: 4},
	}
	assert.Empty(t, cmp.Diff(want, report))
	assert.Equal(t, []usage.Drop{usage.DropInfinite, usage.DropNegative}, report.DropReasons())
}

// What a namespace lacks concerns no other one.
func TestReportsAboutANamespace(t *testing.T) {
	var report usage.Report
	report.Warn("slow")
	report.Lack("shop", "1 node fails")
	report.Lack("shop", "1 node fails")
	report.Add(usage.Report{Missing: map[string]string{"shop": "1 node is excluded", "bank": "1 node is excluded"}})
	assert.True(t, report.Lacks("shop"))
	assert.False(t, report.Lacks("other"))
	assert.Equal(t, usage.Report{Partial: true, Warnings: []string{"slow", "1 node fails; 1 node is excluded"}}, report.About("shop"))
	assert.Equal(t, usage.Report{Partial: true, Warnings: []string{"slow", "1 node is excluded"}}, report.About("bank"))
	assert.Equal(t, usage.Report{Warnings: []string{"slow"}}, report.About("other"))
	report.Partial = true
	assert.True(t, report.Lacks("other"))
}

func TestWarningsAreBounded(t *testing.T) {
	var report usage.Report
	for i := range 1000 {
		report.Warn(string(rune('a' + i)))
	}
	assert.Len(t, report.Warnings, 10)
}
