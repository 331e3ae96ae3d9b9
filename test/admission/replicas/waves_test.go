package replicas

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender/replicas"
)

// wave is a history of a fleet and a resize of its pods, one after the other.
type wave struct {
	scaler        replicas.Scaler
	resource      corev1.ResourceName
	unit          int64 // of upstream's integers in attune's unit
	spans         []replicas.Span
	request       int64
	target        int64
	least, greats []int64 // the bounds of the spans, added up over the ready pods

	follows bool // the target follows the requests of CPU
}

// keeping is Scaler.Keep, or a wrong one.
type keeping func(replicas.Scaler, []replicas.Span, float64) replicas.Kept

// TestWavesKeepTheNumber: while a wave goes over a fleet, upstream asks for the number that it asks for without attune.
// Of each fleet, any prefix of the wave is resized; the kubelet defers a resize, or finds it infeasible, so that attune
// withdraws it; attune reverts it; a new pod takes the place of an old one. Upstream reads the spec in each case.
func TestWavesKeepTheNumber(t *testing.T) {
	found := search(*fleets, 1, replicas.Scaler.Keep)
	t.Logf("%+v", found)
	assert.Zero(t, found.differ, found.first)
	assert.Greater(t, found.lower, *fleets/4, "targets below the request")
	assert.Greater(t, found.scaling, *fleets/20, "moments at which upstream scales")
}

// TestWavesFindWrongRanges: the same search finds ranges that are a little too large.
func TestWavesFindWrongRanges(t *testing.T) {
	for what, change := range map[string]func(*replicas.Kept){
		"2 % below the least":      func(k *replicas.Kept) { k.Least *= 0.98 },
		"1 below the least":        func(k *replicas.Kept) { k.Least = math.Max(0, k.Least-1) },
		"2 % above the greatest":   func(k *replicas.Kept) { k.Greatest *= 1.02 },
		"the greatest, rounded up": func(k *replicas.Kept) { k.Greatest = math.Ceil(k.Greatest) },
	} {
		wrong := func(s replicas.Scaler, spans []replicas.Span, request float64) replicas.Kept {
			kept := s.Keep(spans, request)
			if kept.Least < kept.Greatest {
				change(&kept)
			}
			return kept
		}
		assert.Positive(t, search(*fleets/10, 3, wrong).differ, what)
	}
	forgetful := func(s replicas.Scaler, spans []replicas.Span, request float64) replicas.Kept {
		s.Down = replicas.DefaultTolerance
		return s.Keep(spans, request)
	}
	assert.Positive(t, search(*fleets/10, 3, forgetful).differ, "another tolerance")
	noUnready := func(s replicas.Scaler, spans []replicas.Span, request float64) replicas.Kept {
		counted := make([]replicas.Span, len(spans))
		for i, span := range spans {
			counted[i] = span
			counted[i].Unready = 0
		}
		return s.Keep(counted, request)
	}
	assert.Positive(t, search(*fleets/10, 3, noUnready).differ, "without unready pods")
}

// TestTheRangeIsTheLargest: outside of it, upstream asks for another number at some moment of the history.
func TestTheRangeIsTheLargest(t *testing.T) {
	dice := rand.New(rand.NewPCG(5, 6))
	judged := 0
	for range *fleets / 10 {
		w := anyWave(dice)
		kept := w.scaler.Keep(w.spans, float64(w.request))
		if kept.Least == kept.Greatest {
			continue
		}
		if below := int64(kept.Least * (1 - 1e-9)); float64(below) > float64(w.request)/1e6 { // HPA's own numbers end there
			judged++
			assert.True(t, w.changes(w.greats, below), "%+v with %d", w, below)
		}
		if above := kept.Greatest * (1 + 1e-9); above < 1e12 {
			judged++
			assert.True(t, w.changes(w.least, int64(math.Ceil(above))), "%+v with %v", w, above)
		}
	}
	assert.Greater(t, judged, *fleets/20)
}

// changes reports whether upstream asks for another number at a bound of some span, if all pods have another request.
func (w *wave) changes(bounds []int64, request int64) bool {
	for i := range w.spans {
		u := w.fleet(nil, i, bounds[i])
		current := w.spans[i].Ready + w.spans[i].Unready
		asked := u.desired(w.scaler, current, w.resource)
		for _, pod := range u.pods {
			setRequest(pod, w.resource, request*w.unit)
		}
		if u.desired(w.scaler, current, w.resource) != asked {
			return true
		}
	}
	return false
}

// findings of a search for a moment at which a wave changes the number.
type findings struct {
	waves, moments, lower, higher, scaling, differ int
	first                                          wave
}

func search(waves int, seed uint64, keep keeping) (found findings) {
	return searchFrom(anyWave, waves, seed, keep)
}

func searchFrom(any func(*rand.Rand) wave, waves int, seed uint64, keep keeping) (found findings) {
	dice := rand.New(rand.NewPCG(seed, seed))
	for range waves {
		w := any(dice)
		if !w.aim(dice, keep(w.scaler, w.spans, float64(w.request))) {
			continue
		}
		found.waves++
		if w.target < w.request {
			found.lower++
		} else {
			found.higher++
		}
		if !w.play(dice, &found) {
			if found.differ++; found.differ == 1 {
				found.first = w
			}
		}
	}
	return found
}

// retarget is Scaler.Retarget as a choice for search.
func retarget(s replicas.Scaler, spans []replicas.Span, request float64) replicas.Kept {
	return s.Retarget(replicas.Threshold{Target: s.Target, Request: request}, spans)
}

// followed is a wave over ready pods, whose target follows.
func followed(dice *rand.Rand) wave {
	for {
		w := anyWave(dice)
		w.scaler.Target, w.follows = 25+w.scaler.Target%70, true
		if w.resource == corev1.ResourceCPU && w.starting() == 0 {
			return w
		}
	}
}

func (w *wave) starting() (n int32) {
	for _, span := range w.spans {
		n += span.Unready
	}
	return n
}

func mean(pods []*corev1.Pod) float64 {
	sum := int64(0)
	for _, pod := range pods {
		sum += pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
	}
	return float64(sum) / float64(len(pods))
}

// TestWavesWithTargets: while the target follows a wave, upstream asks for the same number once the target is that of the
// pods, and for no more in the moment in which it is higher.
func TestWavesWithTargets(t *testing.T) {
	found := searchFrom(followed, *fleets/4, 1, retarget)
	t.Logf("%+v", found)
	assert.Zero(t, found.differ, found.first)
	assert.Greater(t, found.lower, *fleets/20, "requests below the original one")
	assert.Greater(t, found.scaling, *fleets/200, "moments at which upstream scales")

	// The same search finds targets that are not proven.
	for what, wrong := range map[string]keeping{
		"all targets": func(s replicas.Scaler, _ []replicas.Span, request float64) replicas.Kept {
			return retarget(s, nil, request)
		},
		"a percentage point more": func(s replicas.Scaler, spans []replicas.Span, request float64) replicas.Kept {
			kept := retarget(s, spans, request)
			if kept.Least < kept.Greatest {
				kept.Least *= 1 - 1/float64(s.Target)
			}
			return kept
		},
		"another tolerance": func(s replicas.Scaler, spans []replicas.Span, request float64) replicas.Kept {
			s.Down = replicas.DefaultTolerance
			return retarget(s, spans, request)
		},
	} {
		assert.Positive(t, searchFrom(followed, *fleets/5, 3, wrong).differ, what)
	}
	starting := searchFrom(func(dice *rand.Rand) wave {
		for {
			w := anyWave(dice)
			w.follows = true
			if w.resource == corev1.ResourceCPU && w.starting() > 0 {
				return w
			}
		}
	}, *fleets/20, 5, retarget)
	t.Logf("with starting pods the number differs in %d of %d waves", starting.differ, starting.waves)
}

// TestWhatIsNotProven counts fleets of another make-up than any of the history's, at the same usage of each pod: with a
// pod without metrics, or with a ready pod more than replicas, as in a rollout. The number may differ while the HPA scales.
// Where it keeps the number of replicas, a pod without metrics changes nothing.
func TestWhatIsNotProven(t *testing.T) {
	dice := rand.New(rand.NewPCG(7, 8))
	type count struct{ waves, absent, surplus int }
	counts := map[bool]*count{true: {}, false: {}} // by whether the HPA keeps the number of replicas
	for range *fleets / 5 {
		w := anyWave(dice)
		if !w.aim(dice, w.scaler.Keep(w.spans, float64(w.request))) || w.spans[0].Ready < 2 {
			continue
		}
		current := w.spans[0].Ready + w.spans[0].Unready
		rests := w.fleet(dice, 0, w.greats[0]).desired(w.scaler, current, w.resource) == current
		differs := func(change func(*upstream)) bool {
			u := w.fleet(nil, 0, w.greats[0])
			change(u)
			before := u.desired(w.scaler, current, w.resource)
			for _, pod := range u.pods {
				setRequest(pod, w.resource, w.target*w.unit)
			}
			return u.desired(w.scaler, current, w.resource) != before
		}
		c := counts[rests]
		c.waves++
		if differs(func(u *upstream) { delete(u.used, u.pods[0].Name) }) {
			c.absent++
		}
		mean := w.greats[0] / int64(w.spans[0].Ready) * w.unit
		if differs(func(u *upstream) { u.add(ready, w.resource, w.request*w.unit, mean) }) {
			c.surplus++
		}
	}
	for rests, c := range counts {
		t.Logf("HPA keeps the number: %v; of %d waves over a whole fleet the number differs in %d with a pod without metrics, and in %d with a pod too many",
			rests, c.waves, c.absent, c.surplus)
		assert.Greater(t, c.waves, *fleets/50)
	}
	assert.Positive(t, counts[false].absent)
	assert.Positive(t, counts[false].surplus)
	assert.Zero(t, counts[true].absent)
}

// anyWave is a history: the number of pods and the usage of each span, most often close to where the number changes.
func anyWave(dice *rand.Rand) wave {
	s := replicas.Scaler{Min: 1 + int32(dice.IntN(4)), Target: pick(dice, 50, 60, 70, 80, 100, 130, 1+int32(dice.IntN(200)))}
	s.Max = s.Min + int32(dice.IntN(12))
	s.Up = pick(dice, replicas.DefaultTolerance, replicas.DefaultTolerance, 0, 0.05, dice.Float64()/2)
	s.Down = pick(dice, replicas.DefaultTolerance, s.Up, 0, dice.Float64()/2)
	w := wave{scaler: s, resource: pick(dice, corev1.ResourceCPU, corev1.ResourceCPU, corev1.ResourceMemory), unit: 1}
	w.request = 2 + dice.Int64N(pick[int64](dice, 30, 1000, 5000))
	if w.resource == corev1.ResourceMemory {
		w.unit, w.request = 1000, w.request<<20+dice.Int64N(1<<20)
	}
	center := float64(w.request) * float64(s.Target) / 100 * pick(dice, 0, 0.2, 0.6, 1, 1.05, 3, 2*dice.Float64())
	for range 1 + dice.IntN(4) {
		n := s.Min + dice.Int32N(s.Max-s.Min+1)
		span := replicas.Span{Ready: n}
		if dice.IntN(3) == 0 && w.resource == corev1.ResourceCPU {
			span.Unready = dice.Int32N(n)
			span.Ready -= span.Unready
		}
		least := int64(center * float64(span.Ready) * (0.9 + dice.Float64()/5))
		greatest := least + int64(dice.Float64()*pick(dice, 0, 0.05, 0.1)*float64(least))
		span.Least, span.Greatest = float64(least)/float64(span.Ready), float64(greatest)/float64(span.Ready)
		w.spans = append(w.spans, span)
		w.least, w.greats = append(w.least, least), append(w.greats, greatest)
	}
	return w
}

// aim chooses a target within the range, most often at its end. It reports false where there is none but the request.
func (w *wave) aim(dice *rand.Rand, kept replicas.Kept) bool {
	if kept.Least >= kept.Greatest {
		return false
	}
	first, last := int64(kept.Least)+1, int64(math.Min(kept.Greatest, 8*float64(w.request)))
	if first > last {
		return false
	}
	w.target = pick(dice, first, first, last, first+dice.Int64N(last-first+1))
	return w.target != w.request
}

// fleet is a span's pods at a sum of usage of those that count, which is not the same for each.
func (w *wave) fleet(dice *rand.Rand, span int, sum int64) *upstream {
	u := &upstream{}
	left := sum
	for i := range w.spans[span].Ready {
		usage := left / int64(w.spans[span].Ready-i)
		if dice != nil && i+1 < w.spans[span].Ready && usage > 0 {
			usage = dice.Int64N(2 * usage)
		}
		left -= usage
		u.add(ready, w.resource, w.request*w.unit, usage*w.unit)
	}
	for range w.spans[span].Unready {
		p := starting
		if dice != nil {
			p = pick(dice, starting, young, never, pending)
		}
		u.add(p, w.resource, w.request*w.unit, w.request*w.unit)
	}
	return u
}

// play resizes the pods of one span one by one. It reports whether upstream asks for the same at each step.
func (w *wave) play(dice *rand.Rand, found *findings) bool {
	span := dice.IntN(len(w.spans))
	least, greatest := w.least[span], w.greats[span]
	u := w.fleet(dice, span, pick(dice, least, greatest, greatest, least+dice.Int64N(greatest-least+1)))
	current := w.spans[span].Ready + w.spans[span].Unready
	asked := u.desired(w.scaler, current, w.resource)
	if asked != current {
		found.scaling++
	}
	var withdrawn []*corev1.Pod
	s := w.scaler
	same := func() bool {
		found.moments++
		return u.desired(s, current, w.resource) == asked
	}
	resize := func(pod *corev1.Pod, request int64) bool {
		if !w.follows {
			setRequest(pod, w.resource, request*w.unit)
			return same()
		}
		before := pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		setRequest(pod, w.resource, request)
		target := replicas.Threshold{Target: w.scaler.Target, Request: float64(w.request)}.At(mean(u.pods[:w.spans[span].Ready]))
		raised := target < s.Target
		if !raised { // the target is first, otherwise last
			setRequest(pod, w.resource, before)
			s.Target = target
		}
		if u.desired(s, current, w.resource) > asked {
			return false
		}
		setRequest(pod, w.resource, request)
		s.Target = target
		return same()
	}
	for _, i := range dice.Perm(len(u.pods)) {
		pod := u.pods[i]
		if !resize(pod, w.target) { // resized, deferred, or a new pod in its place
			return false
		}
		if dice.IntN(3) == 0 { // infeasible, or reverted: at once, or later
			withdrawn = append(withdrawn, pod)
		}
		if len(withdrawn) > 0 && dice.IntN(2) == 0 {
			pod, withdrawn = withdrawn[0], withdrawn[1:]
			if !resize(pod, w.request) {
				return false
			}
		}
	}
	return true
}
