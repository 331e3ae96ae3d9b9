package recommender_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	. "attune.io/attune/recommender"
)

// TestTargetStaysWithinTheRangeThatKeepsTheReplicas: the step hpa brings the target into the range, and the other bounds
// of the request take precedence: then the resource is held.
func TestTargetStaysWithinTheRangeThatKeepsTheReplicas(t *testing.T) {
	kept := func(least, most Amount) *Kept {
		return &Kept{Least: least, Most: most, By: "HorizontalPodAutoscaler web", Below: "with less, A", Above: "with more, B", Reason: "HPA"}
	}
	free := Recommend(input(flat(2016, 0.2, 512*mi)))
	assert.EqualValues(t, 240, free.Target[CPU].Request, "without a range")
	for _, c := range []struct {
		what   string
		kept   *Kept
		change func(*Input)
		want   Amount
		step   string
		hold   string
	}{
		{"within", kept(100, 0), nil, 240, "HorizontalPodAutoscaler web keeps the number of replicas with a request of at least 100m", ""},
		{"below", kept(640, 0), nil, 640, "raised to 640m: with less, A", ""},
		{"above", kept(50, 230), nil, 230, "lowered to 230m: with more, B", ""},
		{"maxAllowed below the range", kept(640, 900), func(in *Input) { in.Settings.Of[CPU].MaxAllowed = 500 }, 240, "not within the range in which HorizontalPodAutoscaler web keeps the number of replicas",
			"HorizontalPodAutoscaler web keeps the number of replicas only with a request from 640m to 900m: with less, A. The highest request that maxAllowed and the limit allow is 500m"},
		{"minAllowed above the range", kept(50, 200), func(in *Input) { in.Settings.Of[CPU].MinAllowed = 220 }, 240, "not within the range in which HorizontalPodAutoscaler web keeps the number of replicas",
			"HorizontalPodAutoscaler web keeps the number of replicas only with a request from 50m to 200m: with more, B. minAllowed is 220m"},
		{"a learned minimum above the range", kept(50, 200), func(in *Input) { in.Floors[CPU] = Floor{Amount: 230, Reason: "throttling"} }, 240, "not within the range in which HorizontalPodAutoscaler web keeps the number of replicas",
			"HorizontalPodAutoscaler web keeps the number of replicas only with a request from 50m to 200m: with more, B. The request is not below the minimum 230m learned from throttling"},
		{"a limit that does not change is below the range", kept(640, 0), func(in *Input) {
			in.Settings.Of[CPU].LimitsFollow, in.Original[CPU] = false, Allocation{Request: 600, Limit: 600}
		}, 240, "not within the range in which HorizontalPodAutoscaler web keeps the number of replicas",
			"HorizontalPodAutoscaler web keeps the number of replicas only with a request of at least 640m: with less, A. The highest request that maxAllowed and the limit allow is 600m"},
	} {
		t.Run(c.what, func(t *testing.T) {
			in := input(flat(2016, 0.2, 512*mi))
			in.Kept[CPU] = c.kept
			if c.change != nil {
				c.change(&in)
			}
			r := Recommend(in)
			assert.Equal(t, c.want, r.Target[CPU].Request)
			assert.Equal(t, r.Target, Target(in).Target)
			for i, s := range r.Steps {
				if s.Name == "hpa" {
					assert.Equal(t, c.step, s.Reason)
					assert.Equal(t, r.Steps[i-1].After, s.Before)
					assert.Equal(t, c.want, s.After)
				}
			}
			if c.hold == "" {
				assert.Empty(t, r.Holds)
			} else if assert.Len(t, r.Holds, 1) {
				assert.Equal(t, Hold{Resource: CPU, Reason: "HPA", Message: c.hold}, r.Holds[0])
			}
		})
	}
}

// TestKeptMemoryStaysWhole: the first whole amount of the range, also if the range begins between two.
func TestKeptMemoryStaysWhole(t *testing.T) {
	in := input(flat(2016, 0.2, 512*mi))
	in.Kept[Memory] = &Kept{Least: 700*mi + 1, Reason: "HPA"}
	assert.EqualValues(t, 701*mi, Recommend(in).Target[Memory].Request)
	in.Kept[Memory] = &Kept{Least: 700*mi + 1, Most: 700*mi + 9, Reason: "HPA"}
	assert.EqualValues(t, 700*mi+1, Recommend(in).Target[Memory].Request, "no whole amount is within the range")
}
