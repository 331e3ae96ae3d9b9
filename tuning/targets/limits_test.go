package targets

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// running is a workload whose pods are created again every 12 hours (or each every), with the limit that the seed gives them. used is its
// memory in bytes at a time, with the limit then.
type running struct {
	View
	used  func(at time.Time, limit float64) float64
	steps []recommender.StepUsage
	since time.Time // of the limit in force
	every int       // hours
	// limits are those in force, and said is the last hold of the memory.
	limits []recommender.Amount
	said   string
}

func startRunning(t *testing.T, request, limit string, used func(at time.Time, limit float64) float64) *running {
	t.Helper()
	v := sizing(t, nil)
	v.Workload.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse(request)},
		Limits:   corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse(limit)},
	}
	r := &running{View: v, used: used, since: now.Add(-7 * 24 * time.Hour), every: 12, limits: []recommender.Amount{podview.AmountOf(recommender.Memory, resource.MustParse(limit))}}
	r.History.Highest = func(_ string, of recommender.Resource) node.Span {
		return func(from, to time.Time) (highest recommender.Usage, known bool) {
			for _, s := range r.steps {
				if s.At.After(from) && !s.At.After(to) {
					highest, known = max(highest, of.Measured(s.MemoryBytes)), true
				}
			}
			return highest, known
		}
	}
	for at := now.Add(-7 * 24 * time.Hour); !at.After(now); at = at.Add(5 * time.Minute) {
		r.steps = append(r.steps, recommender.StepUsage{At: at, CPUCores: 0.2, MemoryBytes: r.used(now, float64(r.last()))})
	}
	return r
}

// last is the limit in force.
func (r *running) last() recommender.Amount { return r.limits[len(r.limits)-1] }

// days lets it run for some days, and returns how often the stored limits changed.
func (r *running) days(n int) (written int) { return r.hours(24 * n) }

func (r *running) hours(n int) (written int) {
	for range n {
		hours := int(r.Now.Sub(now).Hours())
		for range 12 {
			r.Now = r.Now.Add(5 * time.Minute)
			r.steps = append(r.steps, recommender.StepUsage{At: r.Now, CPUCores: 0.2, MemoryBytes: r.used(r.Now, float64(r.last()))})
		}
		r.steps = r.steps[max(0, len(r.steps)-2016):]
		if hours%min(r.every, 4) != 0 {
			continue
		}
		r.History.Profiles = map[string]recommender.Profile{"app": recommender.NewProfile(r.steps, 5*time.Minute)}
		r.Limits = map[string]LimitInForce{"app": {r.last(), r.since}}
		before := r.Stored.Containers
		r.Stored = Desired(r.View)
		if len(before) > 0 && !slices.Equal(r.limitUsage("app", before[0].MemoryLimits), r.limitUsage("app", r.Stored.Containers[0].MemoryLimits)) {
			written++
		}
		r.said = ""
		for _, h := range r.Stored.Containers[0].Holds {
			if h.Resource == "memory" {
				r.said = h.Message
			}
		}
		if seed := r.Stored.Seed; hours%r.every == 0 && seed != nil {
			s := seed.Containers[0]
			next := max(r.last(), podview.FromPointer(recommender.Memory, s.MemoryRequest), podview.FromPointer(recommender.Memory, s.MemoryLimitFloor), r.byRatio(s))
			if next != r.last() {
				r.limits, r.since = append(r.limits, next), r.Now
			}
		}
	}
	return written
}

// byRatio is the limit that the webhook gives a new pod of the seed.
func (r *running) byRatio(s v1alpha1.ContainerSeed) recommender.Amount {
	if s.MemoryLimit != nil {
		return podview.AmountOf(recommender.Memory, *s.MemoryLimit)
	}
	was := r.OriginalOf("app")[recommender.Memory]
	return recommender.Brake(recommender.LimitFor(recommender.Memory, was, podview.FromPointer(recommender.Memory, s.MemoryRequest), 0), recommender.MemoryCeiling(was, recommender.Floor{}, 0))
}

func share(of float64) func(time.Time, float64) float64 {
	return func(_ time.Time, limit float64) float64 { return of * limit }
}

// Usage that is the same share of three limits keeps the last one, for weeks, also where that is less than twice the
// template's. Nothing more is stored while the limit stays.
func TestUsageThatFollowsItsLimitKeepsTheLastLimit(t *testing.T) {
	for name, c := range map[string]struct {
		request, limit string
		share          float64
		held           bool
	}{
		"a JVM heap, request and limit equal":          {"512Mi", "512Mi", 0.95, true},
		"a JVM heap of 75 %, the limit 1.3 times":      {"800Mi", "1Gi", 0.75, false},
		"an old space of 60 % of the limit":            {"600Mi", "1Gi", 0.6, false},
		"shared buffers of 50 %, the limit 2.5 times":  {"410Mi", "1Gi", 0.5, false},
		"page cache, the limit a little above request": {"480Mi", "512Mi", 0.97, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRunning(t, c.request, c.limit, share(c.share))
			r.days(10)
			if len(r.limits) < 3 {
				assert.Less(t, r.last(), 2*r.limits[0], "%v: it is not raised much", r.limits)
				return
			}
			assert.Len(t, r.limits, 3, "%v", r.limits)
			assert.LessOrEqual(t, r.last(), 2*r.limits[0])
			assert.Equal(t, c.held, strings.Contains(r.said, "it follows its limit, so attune keeps the limit "), r.said)
			t.Log(r.limits[0]/mi, r.limits[1]/mi, r.limits[2]/mi, r.said)
			assert.Zero(t, r.days(20), "nothing changes")
			assert.Len(t, r.limits, 3, "%v", r.limits)
		})
	}
}

// followsSaid reports whether three stored limits show that usage follows them, at any time of eight days.
func (r *running) followsSaid() (said bool) {
	for range 8 * 24 {
		r.hours(1)
		said = said || r.ceilingSaid() > 0
	}
	return said
}

// Usage that does not follow its limit is never taken for usage that does: constant usage, growth of any speed, steps, and
// days that differ.
func TestUsageThatDoesNotFollowItsLimit(t *testing.T) {
	start := now
	days := func(at time.Time) float64 { return at.Sub(start).Hours() / 24 }
	for name, used := range map[string]func(at time.Time, limit float64) float64{
		"constant":                func(time.Time, float64) float64 { return 480 * float64(mi) },
		"grows linearly":          func(at time.Time, _ float64) float64 { return (400 + 40*days(at)) * float64(mi) },
		"grows by a tenth a day":  func(at time.Time, _ float64) float64 { return 400 * math.Pow(1.1, days(at)) * float64(mi) },
		"grows by a fourth a day": func(at time.Time, _ float64) float64 { return 400 * math.Pow(1.25, days(at)) * float64(mi) },
		"a growing cache": func(at time.Time, limit float64) float64 {
			return math.Min(limit*0.9, (300+60*days(at))*float64(mi))
		},
		"steps each third day": func(at time.Time, _ float64) float64 {
			return 400 * math.Pow(1.15, math.Floor(days(at)/3)) * float64(mi)
		},
		"by day": func(at time.Time, _ float64) float64 {
			return (400 + 20*days(at)) * (1 + 0.3*math.Sin(2*math.Pi*days(at))) * float64(mi)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, every := range []int{1, 2, 12, 48} {
				r := startRunning(t, "512Mi", "512Mi", used)
				r.every = every
				assert.False(t, r.followsSaid(), "%d h: %v", every, r.limits)
			}
		})
	}
}

// Random walks do not either, whatever the size of their steps.
func TestRandomWalksDoNotFollowTheirLimit(t *testing.T) {
	walks, said, raised := 40, 0, 0
	if testing.Short() {
		walks = 10
	}
	for i := range walks {
		random := rand.New(rand.NewPCG(uint64(i), 7))
		at, drift, speed := 350+100*random.Float64(), 0.0004*random.Float64(), math.Pow(10, -3.5+2*random.Float64())
		r := startRunning(t, "512Mi", "512Mi", func(time.Time, float64) float64 {
			at = math.Max(100, at*math.Exp(drift+speed*random.NormFloat64()))
			return at * float64(mi)
		})
		r.every = []int{1, 2, 12, 48}[i%4]
		if r.followsSaid() {
			said++
			t.Logf("walk %d: speed %.4f, limits %v", i, speed, r.limits)
		}
		if len(r.limits) > 2 {
			raised++
		}
	}
	assert.Zero(t, said)
	assert.Greater(t, raised, walks/3, "walks that reach three limits")
}

// The limits are stored when one ends, whether or not usage was constant, and only then. A kill and a higher template begin
// anew.
func TestStoredLimits(t *testing.T) {
	r := startRunning(t, "512Mi", "512Mi", share(0.95))
	r.days(10)
	stored := r.Stored.Containers[0].MemoryLimits
	require.Len(t, stored, 3)
	assert.Equal(t, "512Mi", stored[0].Limit.String())
	assert.NotNil(t, stored[1].Usage)
	assert.Nil(t, stored[2].Usage, "it is in force")
	assert.Equal(t, r.last(), r.ceilingSaid(), "%s", r.said)

	forgotten := r.View
	forgotten.Limits = nil
	assert.Equal(t, stored, Desired(forgotten).Containers[0].MemoryLimits, "no pod runs")

	killed := r.View
	killed.Status.Floors = []v1alpha1.Floor{{Container: "app", Resource: "memory", Reason: "oomkill", Amount: podview.Quantity(recommender.Memory, recommender.OOMFloor(r.last())), LearnedAt: metav1.NewTime(r.Now)}}
	assert.Greater(t, podview.FromPointer(recommender.Memory, Desired(killed).Seed.Containers[0].MemoryRequest), r.last())

	r.Workload.Template.Spec.Containers[0].Resources.Limits["memory"] = resource.MustParse("2Gi")
	assert.Empty(t, Desired(r.View).Containers[0].MemoryLimits, "the pods have less than the template: the limits show no raise")
}

// The advice to leave limits alone is no advice that raises them: what was stored before does not count then.
func TestFollowedLimitEndsWithRequestsOnly(t *testing.T) {
	r := startRunning(t, "480Mi", "512Mi", share(0.97))
	r.days(10)
	require.NotNil(t, r.Stored.Seed.Containers[0].MemoryLimit, "%v %s", r.limits, r.said)
	before := r.Stored.Containers[0]

	r.Settings.Recommender.Of[recommender.Memory].LimitsFollow = false
	after := Desired(r.View)
	assert.Empty(t, after.Containers[0].MemoryLimits)
	assert.Nil(t, after.Seed.Containers[0].MemoryLimit)
	assert.False(t, after.Seed.Containers[0].MemoryLimitFollows)
	assert.Nil(t, r.followedLimit(before), "targets that are kept")
}

// ceilingSaid is the last followed limit.
func (r *running) ceilingSaid() recommender.Amount {
	return recommender.FollowedLimit(r.limitUsage("app", r.Stored.Containers[0].MemoryLimits), 0)
}

// Only running pods whose limit is in force count, and of those the highest.
func TestLimitsInForce(t *testing.T) {
	pod := func(limit string, edit func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		p.Generation, p.CreationTimestamp = 1, metav1.NewTime(now)
		p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse(limit)}}}}
		edit(p)
		return p
	}
	as := func(*corev1.Pod) {}
	limits := LimitsInForce([]*corev1.Pod{
		pod("1Gi", func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(time.Hour)) }), pod("1Gi", as), pod("512Mi", as),
		pod("2Gi", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }),
		pod("3Gi", func(p *corev1.Pod) { p.DeletionTimestamp = &p.CreationTimestamp }),
		pod("4Gi", func(p *corev1.Pod) { p.Generation = 2 }),
	})
	assert.Equal(t, map[string]LimitInForce{"app": {1024 * mi, now}}, limits)
}
