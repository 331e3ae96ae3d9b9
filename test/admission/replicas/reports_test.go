package replicas

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender/replicas"
)

const mi = 1 << 20

// reported is a fleet of a public report, whose requests were changed below an HPA. test/field/reports tells each story.
type reported struct {
	resource        corev1.ResourceName
	scaler          replicas.Scaler
	pods            int32
	least, greatest int64 // the usage of a pod, in millicores or bytes
	request         int64
	applied         int64 // the request that a tool or a user chose
	instead         int32 // the number of replicas with it, at the usage at which it differs most
}

func percent(target, least, most int32) replicas.Scaler {
	return replicas.Scaler{Min: least, Max: most, Target: target, Up: replicas.DefaultTolerance, Down: replicas.DefaultTolerance}
}

var reports = map[string]reported{
	"mitodl/ol-infrastructure#5321": {corev1.ResourceCPU, percent(60, 4, 30), 30, 475, 580, 500, 1200, 20},
	"mitodl/ol-infrastructure#5241": {corev1.ResourceCPU, percent(50, 2, 10), 10, 90, 200, 100, 500, 4},
	"kubernetes/kubernetes#72811":   {corev1.ResourceCPU, percent(80, 2, 10), 2, 5, 250, 1000, 25, 10},
	"kubernetes/kubernetes#142155":  {corev1.ResourceCPU, percent(70, 2, 20), 8, 260, 300, 400, 250, 14},
	"robusta-dev/krr#80":            {corev1.ResourceCPU, percent(80, 2, 20), 4, 740, 800, 1000, 800, 5},
	"robusta-dev/krr#169":           {corev1.ResourceMemory, percent(80, 6, 25), 6, 300 * mi, 400 * mi, 1000 * mi, 420 * mi, 8},
	"FairwindsOps/goldilocks#449":   {corev1.ResourceCPU, percent(50, 3, 30), 6, 480, 520, 1000, 500, 13},
	"attune-io/attune#802":          {corev1.ResourceCPU, percent(80, 2, 20), 5, 300, 340, 400, 800, 3},
	"attune-io/attune#727":          {corev1.ResourceCPU, percent(70, 2, 20), 4, 340, 350, 500, 200, 10},
	"siutsin/otaru#2995":            {corev1.ResourceMemory, percent(60, 2, 5), 2, 62 * mi, 63 * mi, 100 * mi, 72 * mi, 3},
	"dailydotdev/daily-api#1999":    {corev1.ResourceMemory, percent(80, 3, 12), 3, 390 * mi, 410 * mi, 640 * mi, 440 * mi, 4},
	"zooniverse/caesar#1206":        {corev1.ResourceMemory, percent(50, 1, 5), 5, 75 * mi, 79 * mi, 50 * mi, 200 * mi, 4},
}

// TestReportedFleets: what was applied changes the number of replicas, and Keep excludes it. With the nearest request
// that Keep allows, upstream asks for the same number after each pod of the fleet is resized.
func TestReportedFleets(t *testing.T) {
	for name, r := range reports {
		t.Run(name, func(t *testing.T) {
			kept := r.scaler.Keep([]replicas.Span{{Ready: r.pods, Least: float64(r.least), Greatest: float64(r.greatest)}}, float64(r.request))
			require.Less(t, kept.Least, kept.Greatest)
			applied := float64(r.applied)
			assert.False(t, kept.Least < applied && applied <= kept.Greatest, "%+v", kept)
			nearest, at := min(r.applied, int64(kept.Greatest)), r.least
			if r.applied < r.request {
				nearest, at = max(r.applied, int64(kept.Least)+1), r.greatest
			}
			before, _ := r.asked(r.request, at)
			assert.Equal(t, r.pods, before)
			with, _ := r.asked(r.applied, at)
			assert.Equal(t, r.instead, with)
			for _, usage := range []int64{r.least, (r.least + r.greatest) / 2, r.greatest} {
				before, _ := r.asked(r.request, usage)
				_, prefixes := r.asked(nearest, usage)
				for n, asked := range prefixes {
					assert.Equal(t, before, asked, "%d of %d pods at %d", n, r.pods, nearest)
				}
			}
			t.Logf("keeps %d with requests in (%.0f, %.0f]: %d instead of %d; %d would lead to %d", r.pods, kept.Least, kept.Greatest, nearest, r.request, r.applied, with)
		})
	}
}

// asked is what upstream asks for when all pods have a request, and after each pod that gets it.
func (r *reported) asked(request, usage int64) (all int32, prefixes []int32) {
	unit := int64(1)
	if r.resource == corev1.ResourceMemory {
		unit = 1000
	}
	u := &upstream{}
	for range r.pods {
		u.add(ready, r.resource, r.request*unit, usage*unit)
	}
	for _, pod := range u.pods {
		prefixes = append(prefixes, u.desired(r.scaler, r.pods, r.resource))
		setRequest(pod, r.resource, request*unit)
	}
	all = u.desired(r.scaler, r.pods, r.resource)
	return all, append(prefixes, all)
}

// TestRoundsEnd: a request that is lowered to what Keep allows is not lowered again by the same history. Where a tool
// takes a share of the usage below an HPA each time, there is no end.
func TestRoundsEnd(t *testing.T) {
	r := reports["robusta-dev/krr#80"]
	spans := []replicas.Span{{Ready: r.pods, Least: float64(r.least), Greatest: float64(r.greatest)}}
	request := math.Floor(r.scaler.Keep(spans, float64(r.request)).Least) + 1
	again := math.Floor(r.scaler.Keep(spans, request).Least) + 1
	assert.Equal(t, request, again)
}

// TestRaisedRequestsLeadToOOMKills is the incident of mitodl/ol-infrastructure#5321 with upstream's whole controller: the
// CPU request was raised from 500m to 1200m, the HPA removed pods, and each pod that remained needed more memory than
// its limit. With the greatest request that Keep allows no pod is removed.
func TestRaisedRequestsLeadToOOMKills(t *testing.T) {
	const (
		hours = 8
		limit = 3200 // MiB
		base  = 1400 // MiB of an idle pod; the rest is shared work
		work  = 40_000
	)
	start := func(request int64) *deployment {
		d := &deployment{scaler: percent(60, 4, 30), request: request}
		for minute := range hours * 60 {
			d.demand = append(d.demand, 15_500+1_200*math.Sin(float64(minute)/30))
		}
		return d
	}
	before := start(500)
	before.history = &history{until: hours * 240}
	play(t, map[string]*deployment{"before": before}, hours*time.Hour)
	from := 2 * 240 // the history of the day before: it has scaled out
	var spans []replicas.Span
	for _, s := range before.history.spans {
		if s.Ready+s.Unready == 30 && s.LeastAt > 2*3600 {
			spans = append(spans, s)
		}
	}
	require.NotEmpty(t, spans)
	kept := before.scaler.Keep(spans, 500)
	require.Less(t, kept.Greatest, 1200.)
	raised, safe := start(1200), start(int64(kept.Greatest))
	for _, d := range []*deployment{raised, safe} {
		d.startAt = 30
	}
	play(t, map[string]*deployment{"raised": raised, "safe": safe}, hours*time.Hour)
	killed := func(d *deployment) (pods, kills int) {
		pods = 30
		for _, number := range d.asked[from:] {
			if pods = min(pods, int(number)); base+work/int(number) > limit {
				kills++
			}
		}
		return pods, kills
	}
	pods, kills := killed(raised)
	t.Logf("1200m: as few as %d pods, memory above the limit at %d of %d syncs; %dm: 30 pods", pods, kills, hours*240-from, safe.request)
	assert.Less(t, pods, 25)
	assert.Positive(t, kills)
	pods, kills = killed(safe)
	assert.Equal(t, 30, pods)
	assert.Zero(t, kills)
	assert.Greater(t, safe.request, int64(500))
}
