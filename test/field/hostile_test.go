package field

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/prometheus"
	"attune.io/attune/webhook/pod"
)

const (
	hostileStep = 5 * time.Minute
	// hostileBatch are the containers of one store, on one set of nodes.
	hostileBatch = 100
)

// hostileContainers is how many containers TestHostileSeries plays. The long run plays a million.
func hostileContainers(t *testing.T) int {
	text := os.Getenv("ATTUNE_HOSTILE_CONTAINERS")
	if text == "" {
		return 10_000
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// TestHostileSeries: for any answer of a server, no created pod requests more than its largest node or less than a
// container needs to start, and each resource without a target has a reason.
func TestHostileSeries(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	containers := hostileContainers(t)
	for batch := range (containers + hostileBatch - 1) / hostileBatch {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			t.Parallel()
			h := newHostile(uint64(batch))
			h.policy = &v1alpha1.AttunePolicy{Spec: v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}}}
			h.policy.Name, h.policy.Namespace = "all", "shop"
			require.NoError(t, yaml.Unmarshal([]byte("{updateStrategy: {type: Initial}, memory: {allowDecrease: true}}"), &h.policy.Spec.PolicySettings))
			var err error
			h.settings, err = policy.Resolve(nil, nil, h.policy)
			require.NoError(t, err)
			h.play(t)
		})
	}
}

// hostile is a server that answers anything, about Deployments of one container.
type hostile struct {
	random *rand.Rand
	// largest is the largest node.
	largest [2]float64
	pods    []hostilePod

	policy   *v1alpha1.AttunePolicy
	settings policy.Settings
}

type hostilePod struct {
	workload string
	template corev1.PodTemplateSpec
	facts    usage.Facts
	// series of CPU and of memory, with the times of the samples.
	series [2][]usage.Sample
}

// newHostile makes a batch from a seed.
func newHostile(seed uint64) *hostile {
	h := &hostile{random: rand.New(rand.NewPCG(seed, 47))}
	h.largest = [2]float64{float64(int(2) << h.random.IntN(7)), float64(int64(4)<<30) * math.Pow(2, float64(h.random.IntN(7)))}
	for i := range hostileBatch {
		h.pods = append(h.pods, h.pod(i))
	}
	return h
}

// pod is a pod with any template that fits the largest node, and any usage.
func (h *hostile) pod(i int) hostilePod {
	p := hostilePod{workload: fmt.Sprintf("web%03d", i)}
	p.template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app", Resources: h.resources()}}
	limits := p.template.Spec.Containers[0].Resources.Limits
	if h.random.IntN(2) == 0 { // in the cache
		p.facts.Created = now.Add(-time.Duration(h.random.IntN(48)) * time.Hour).UnixMilli()
		p.facts.Node = usage.Most{Cores: h.largest[0], Bytes: h.largest[1]}
		p.facts.Limit = usage.Most{Cores: limits.Cpu().AsApproximateFloat64(), Bytes: limits.Memory().AsApproximateFloat64()}
		p.facts.LimitSince = p.facts.Created
		p.facts.Started = p.facts.Created + int64(h.random.IntN(48*3_600_000))
		p.facts.Restarts = h.random.IntN(6)
	}
	for r, unit := range [2]float64{recommender.CPU: 0.2, recommender.Memory: 300 << 20} {
		p.series[r] = h.series(unit * math.Pow(10, 2*h.random.Float64()-1))
	}
	return p
}

// resources are those of a template: some, none, or Guaranteed.
func (h *hostile) resources() (out corev1.ResourceRequirements) {
	out.Requests, out.Limits = corev1.ResourceList{}, corev1.ResourceList{}
	shape := h.random.IntN(6)
	for r, name := range []corev1.ResourceName{recommender.CPU: corev1.ResourceCPU, recommender.Memory: corev1.ResourceMemory} {
		unit := [2]float64{recommender.CPU: 1000, recommender.Memory: 1}[r]
		most := h.largest[r] * unit
		request := math.Max(1, most*math.Pow(10, -4*h.random.Float64()))
		limit := math.Min(most, request*math.Pow(10, h.random.Float64()))
		quantity := func(v float64) resource.Quantity {
			if r == int(recommender.CPU) {
				return *resource.NewMilliQuantity(int64(v), resource.DecimalSI)
			}
			return *resource.NewQuantity(int64(v), resource.BinarySI)
		}
		switch shape {
		case 0: // Guaranteed
			out.Requests[name], out.Limits[name] = quantity(request), quantity(request)
		case 1: // none
		case 2:
			out.Requests[name] = quantity(request)
		default:
			out.Requests[name], out.Limits[name] = quantity(request), quantity(limit)
		}
	}
	return out
}

// series is a day of samples around a true usage, with a few faults of servers and kernels.
func (h *hostile) series(usual float64) []usage.Sample {
	faults := make([]func(i int, v float64) float64, h.random.IntN(4))
	for f := range faults {
		faults[f] = h.fault()
	}
	gap := h.random.Float64() * h.random.Float64()
	var out []usage.Sample
	for i := range int(24 * time.Hour / hostileStep) {
		if h.random.Float64() < gap {
			continue
		}
		value := usual * (1 + 0.3*h.random.Float64())
		for _, fault := range faults {
			value = fault(i, value)
		}
		at := now.Add(time.Duration(i+1)*hostileStep - 24*time.Hour)
		out = append(out, usage.Sample{At: at.UnixMilli(), Value: value})
	}
	return out
}

// fault is one way in which samples are wrong: always, now and then, or for a part of the day.
func (h *hostile) fault() func(i int, v float64) float64 {
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, math.MaxInt64, 1e308, 1e-308, 1600, 10 << 40, -math.MaxFloat64, math.SmallestNonzeroFloat64}[h.random.IntN(12)]
	factor := []float64{1e-9, 1e-6, 1e-3, 8, 20, 100, 1000, 1 << 20, 1e9}[h.random.IntN(9)]
	counter := 0.0
	wrong := []func(v float64) float64{
		func(float64) float64 { return odd },
		func(v float64) float64 { return v * factor },
		func(v float64) float64 { return v * math.Pow(10, 12*h.random.Float64()-4) },
		func(v float64) float64 { counter += v * 300; return counter },             // a counter, not a rate
		func(v float64) float64 { counter += v * 300; return counter / 300 * 1.5 }, // interleaved counters
	}[h.random.IntN(5)]
	first, last := h.random.IntN(288), h.random.IntN(288)
	every := 1 + h.random.IntN(100)
	when := []func(i int) bool{
		func(int) bool { return true },
		func(i int) bool { return i%every == 0 },
		func(i int) bool { return i == first },
		func(i int) bool { return i >= first && i <= last },
	}[h.random.IntN(4)]
	return func(i int, v float64) float64 {
		if when(i) {
			return wrong(v)
		}
		return v
	}
}

// Read implements usage.Source with the filter of the true sources.
func (h *hostile) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	r := recommender.CPU
	return prometheus.Read(ctx, prometheus.Everything, query, func(_ context.Context, _ string, query usage.Query, yield func(prometheus.Element)) (usage.Report, error) {
		for _, p := range h.pods {
			var samples []usage.Sample
			for _, s := range p.series[r] {
				if at := s.Time(); !at.Before(query.Start) && !at.After(query.End) {
					samples = append(samples, s)
				}
			}
			yield(prometheus.Element{Labels: prometheus.Labels{Namespace: "shop", Pod: p.workload + "-7d4f8c9b6-aaaaa", Container: "app"}, Samples: samples})
		}
		r = recommender.Memory // CPU is asked first, memory second
		return usage.Report{}, nil
	}, yield)
}

// play runs the batch from the answers to created pods.
func (h *hostile) play(t *testing.T) {
	source := usage.SourceSettings{HistoryWindow: 24 * time.Hour, QueryStep: hostileStep, RateWindow: hostileStep}
	judge := usage.Judge{
		Most: func() usage.Most { return usage.MostOn(h.largest[0], h.largest[1]) },
		Of: func(_, name, _ string) usage.Facts {
			var i int
			_, err := fmt.Sscanf(name, "web%03d-", &i)
			assert.NoError(t, err)
			return h.pods[i].facts
		},
	}
	store := history.New(history.Options{Dial: func(usage.SourceSettings) (usage.Source, error) { return judge.Wrap(h), nil }})
	in := history.Interest{Policy: "all", Namespace: "shop", Source: source}
	for _, p := range h.pods {
		in.Workloads = append(in.Workloads, history.Workload{Kind: v1alpha1.KindDeployment, Name: p.workload, Containers: []string{"app"}})
	}
	store.Want(in)
	for store.Refresh(t.Context(), now) {
	}
	for _, p := range h.pods {
		key := history.Key{Source: source.Digest(), Namespace: "shop", Kind: v1alpha1.KindDeployment, Workload: p.workload, Container: "app"}
		profile, _ := store.Profile(key, now)
		h.check(t, p, profile, store.Implausible(key, now))
	}
}

// check computes the target and the created pod of one workload.
func (h *hostile) check(t *testing.T, p hostilePod, profile recommender.Profile, implausible [2]recommender.Implausible) {
	largest := [2]recommender.Amount{recommender.CPU: recommender.Amount(h.largest[0] * 1000), recommender.Memory: recommender.Amount(h.largest[1])}
	w := workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: p.workload}, Template: &p.template, Replicas: 3}
	desired := targets.Desired(targets.View{
		Workload: w, Policy: h.policy, Settings: h.settings, Now: now, Largest: largest, Blocked: func(string, recommender.Resource) *recommender.Hold { return nil },
		History: targets.History{Profiles: map[string]recommender.Profile{"app": profile}, Implausible: map[string][2]recommender.Implausible{"app": implausible}},
	})
	rec := &v1alpha1.AttuneRecommendation{Spec: desired}
	rec.Name, rec.Namespace = "deployment-"+p.workload, "shop"
	require.Len(t, desired.Containers, 1)
	target := desired.Containers[0]
	for _, hold := range target.Holds {
		assert.NotEmpty(t, hold.Message, hold.Reason)
		assert.NotEmpty(t, hold.Reason, hold.Message)
	}
	created := createdWith(t, &p.template, rec).Spec.Containers[0].Resources
	was, is := podview.ReadSpec(p.template.Spec.Containers[0].Resources), podview.ReadSpec(created)
	for _, r := range recommender.Resources {
		name := fmt.Sprintf("%s of %s: %v becomes %v, target %v", r, p.workload, was[r], is[r], target.Target)
		assert.LessOrEqual(t, is[r].Request, max(largest[r], was[r].Request), name)
		assert.LessOrEqual(t, is[r].Limit, max(largest[r], was[r].Limit, is[r].Request), name)
		least := r.RaiseToLeast(was[r], recommender.Allocation{Request: 1, Limit: 2})
		if was[r].Request != is[r].Request {
			assert.GreaterOrEqual(t, is[r].Request, min(least.Request, max(was[r].Request, 1)), name)
		}
		if is[r].Limit > 0 {
			assert.LessOrEqual(t, is[r].Request, is[r].Limit, name)
			assert.GreaterOrEqual(t, is[r].Limit, min(least.Limit, was[r].Limit), name)
		}
		held := false
		for _, hold := range target.Holds {
			held = held || hold.Resource == r.String()
		}
		if podview.FromResources(target.Target)[r].Request == 0 {
			assert.True(t, held, "%s: no target and no reason", name)
		}
	}
}

// createdWith is the pod of a template as the webhook creates it.
func createdWith(t *testing.T, template *corev1.PodTemplateSpec, rec *v1alpha1.AttuneRecommendation) *corev1.PodTemplateSpec {
	t.Helper()
	text, err := json.Marshal(template)
	require.NoError(t, err)
	created := &pod.Pod{}
	require.NoError(t, json.Unmarshal(text, created))
	d := pod.SeedPod(created, pod.Read(rec), &pod.Namespace{}, now)
	if d.Patch != nil {
		patch, err := jsonpatch.DecodePatch(d.Patch)
		require.NoError(t, err)
		text, err = patch.Apply(text)
		require.NoError(t, err, string(d.Patch))
	}
	out := &corev1.PodTemplateSpec{}
	require.NoError(t, json.Unmarshal(text, out))
	return out
}
