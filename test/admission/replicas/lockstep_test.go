package replicas

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	autoscalingclient "k8s.io/client-go/kubernetes/typed/autoscaling/v2"
	"k8s.io/utils/ptr"

	"attune.io/attune/recommender/replicas"
)

// plan resizes the pods of a deployment in lockstep with the target of its HPA, each between two syncs: the target first
// when requests fall, and last when they rise.
type plan struct {
	original replicas.Threshold
	to       int64 // the new request; the original one in the control run
	// Pods are resized from a tick on, every few ticks; the first one is observed for some more.
	from, every, canary int
	first               int  // fate
	replaces            bool // a new pod takes the place of some
	// Pods that have been ready for so long are part of the mean.
	counts time.Duration

	target    int32   // of the HPA
	announced *member // is changed next
	wave      map[*member]*resized
}

// resized is a pod whose request changed. A deferred resize shows in the spec at once, so that it is like others.
type resized struct {
	at   int
	fate int
	back bool // to the original request
}

// Fates of pods: the rest stays resized.
const (
	infeasible    = iota // withdrawn after 30 s
	reverted             // after 5 min
	replaced             // by a new pod
	lockstepFates = 6
)

// step acts for attune.
func (p *plan) step(t *testing.T, d *deployment, tick int, hpas autoscalingclient.HorizontalPodAutoscalerInterface) {
	if tick < p.from {
		return
	}
	if p.wave == nil {
		p.wave, p.target = map[*member]*resized{}, p.original.Target
		d.request = p.to // of new pods
	}
	next := p.next(d, tick)
	target := p.target
	p.target = p.original.At(min(p.mean(d, nil), p.mean(d, next)))
	if p.target != target {
		hpa, err := hpas.Get(t.Context(), "app", metav1.GetOptions{})
		require.NoError(t, err)
		hpa.Spec.Metrics[0].Resource.Target.AverageUtilization = ptr.To(p.target)
		_, err = hpas.Update(t.Context(), hpa, metav1.UpdateOptions{})
		require.NoError(t, err)
	}
	if next != p.announced || next == nil { // the HPA has its target first
		p.announced = next
		return
	}
	p.announced = nil
	setRequest(next.Pod, corev1.ResourceCPU, p.after(next))
	if r := p.wave[next]; r != nil {
		r.back = true
		return
	}
	p.wave[next] = &resized{at: tick, fate: (len(p.wave) + p.first) % lockstepFates}
	if p.wave[next].fate == replaced && p.replaces {
		next.since = time.Now()
	}
}

// after is what a pod requests after its next change.
func (p *plan) after(m *member) int64 {
	if p.wave[m] != nil {
		return int64(p.original.Request)
	}
	return p.to
}

// next returns the pod to change; nil: none.
func (p *plan) next(d *deployment, tick int) *member {
	for _, m := range d.pods {
		if r := p.wave[m]; r != nil && !r.back && (r.fate == infeasible && tick >= r.at+2 || r.fate == reverted && tick >= r.at+20) {
			return m
		}
	}
	due := p.from + p.every*len(p.wave)
	if len(p.wave) > 0 {
		due += p.canary
	}
	for _, m := range d.pods {
		if tick >= due && p.wave[m] == nil && time.Since(m.since) > time.Hour/2 {
			return m
		}
	}
	return nil
}

// mean is the mean request of the ready pods after a change.
func (p *plan) mean(d *deployment, change *member) float64 {
	sum, n := int64(0), 0
	for _, m := range d.pods {
		if time.Since(m.since) < p.counts {
			continue
		}
		n++
		if m == change {
			sum += p.after(m)
		} else {
			sum += m.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		}
	}
	return float64(sum) / float64(max(1, n))
}

// steps is a demand that an HPA follows between 2 and 4 pods: 80 % of the target of 2 pods, or 2.5 % more than that of 4.
func steps(of replicas.Threshold, minutes int) (demand []float64) {
	for m := range minutes {
		pods := 1.6
		if m/60%2 == 1 {
			pods = 4.1
		}
		demand = append(demand, pods*of.Usage())
	}
	return demand
}

// TestLockstep: while pods are resized and the target follows, upstream's controller has the number of replicas that it
// has without another request: pod by pod or with a canary, with other lockstepFates, scaled by the load in between. Without
// stabilization of scale-in it may not, so that attune leaves such HPAs alone.
func TestLockstep(t *testing.T) {
	const length = 5 * time.Hour
	const minutes = int(length / time.Minute)
	worlds, control := map[string]*deployment{}, map[string]*deployment{}
	of := map[string]string{} // the control run of a world
	for i, target := range []int32{50, 65, 80, 60} {
		original := replicas.Threshold{Target: target, Request: 1000}
		scaler := percent(target, 2, 4)
		demand := steps(original, minutes)
		if i == 3 { // a large fleet at its most
			scaler.Max = 12
			for m := range demand {
				demand[m] = 13 * original.Usage()
			}
		}
		start := func(seconds int32, to int64, canary, first int) *deployment {
			return &deployment{scaler: scaler, request: 1000, demand: demand, startAt: scaler.Max, settle: &seconds,
				plan: &plan{original: original, to: to, from: 480 - 40*i, every: 3, canary: canary, first: first, replaces: canary == 0}}
		}
		past := start(300, 1000, 0, 0)
		past.plan, past.history = nil, &history{until: int(length / syncs)}
		play(t, map[string]*deployment{"past": past}, length)
		kept := scaler.Retarget(original, past.history.spans)
		lowest := max(int64(kept.Least)+1, 500)
		require.Less(t, lowest, int64(900))
		for _, seconds := range []int32{300, 60, 0} {
			for _, canary := range []int{0, 40} {
				without := fmt.Sprint(i, "-", seconds, "-", canary)
				control[without] = start(seconds, 1000, canary, i%2*3)
				for _, counts := range []time.Duration{0, isReady + window} {
					d := start(seconds, lowest, canary, i%2*3)
					d.plan.counts = counts
					name := fmt.Sprint(without, "-", counts)
					worlds[name], of[name] = d, without
				}
			}
		}
	}
	play(t, control, length)
	play(t, worlds, length)
	type kind struct {
		settle   int32
		counts   time.Duration
		replaces bool
	}
	type row struct {
		worlds, syncs, late, worst int
		extra                      int // scale-outs and scale-ins
	}
	rows := map[kind]*row{}
	for name, d := range worlds {
		key := kind{*d.settle, d.plan.counts, d.plan.replaces}
		if rows[key] == nil {
			rows[key] = &row{}
		}
		r, late, without := rows[key], 0, control[of[name]]
		for tick, number := range without.asked {
			if d.asked[tick] != number {
				late++
			}
		}
		r.worlds, r.syncs, r.late, r.worst = r.worlds+1, r.syncs+len(d.asked), r.late+late, max(r.worst, late)
		r.extra += scaled(d.asked) - scaled(without.asked)
	}
	for of, r := range rows {
		t.Logf("%+v: %+v", of, *r)
		switch {
		case of.settle == 0 && of.counts == 0:
			assert.Positive(t, r.extra, "%+v: the target is that of pods that the HPA does not count yet", of)
		case of.replaces: // HPA assumes that a pod without metrics uses its request, which is less above another target
			assert.LessOrEqual(t, r.worst, int(300*time.Second/syncs), "%+v: scaled in by the load, earlier within the stabilization", of)
		default:
			assert.Zero(t, r.late, "%+v", of)
			assert.Zero(t, r.extra, "%+v", of)
		}
	}
}

// scaled counts scale-outs and scale-ins.
func scaled(asked []int32) (n int) {
	for i, number := range asked[1:] {
		if number != asked[i] {
			n++
		}
	}
	return n
}
