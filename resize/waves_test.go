package resize_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
)

// plansFor returns the same resize step for n pods.
func plansFor(n int, from, to recommender.Size, edits ...func(*Plan)) []Plan {
	var plans []Plan
	for i := range n {
		p := Plan{PodName: fmt.Sprintf("web-%d", i), TemplateHash: "abc", Moves: []Move{{Container: "app", From: from, To: to}}}
		for _, edit := range edits {
			edit(&p)
		}
		plans = append(plans, p)
	}
	return plans
}

func keptAt(s recommender.Size) []v1alpha1.VerifiedResources {
	return []v1alpha1.VerifiedResources{{Name: "app", Size: podview.ToResources(s), TemplateHash: "abc"}}
}

func TestWave(t *testing.T) {
	was, lower, lowest, higher := size(500, 1000, 512, 1024), size(250, 500, 512, 1024), size(200, 400, 512, 1024), size(1000, 2000, 512, 1024)
	canary := func(r *Rules) { r.Mode = v1alpha1.UpdateCanary }
	oneShot := func(r *Rules) { r.Mode = v1alpha1.UpdateOneShot }
	urgent := func(p *Plan) { p.Urgent = true }
	restarts := func(p *Plan) { p.Restarts = true }
	for _, tc := range []struct {
		name  string
		plans []Plan
		open  int
		kept  []v1alpha1.VerifiedResources
		pods  int
		rules func(*Rules)
		want  int
		wave  string
	}{
		{"lower, nothing kept: the first wave of 10 %", plansFor(40, was, lower), 0, nil, 40, nil, 4, WaveFirst},
		{"rounded up", plansFor(15, was, lower), 0, nil, 15, nil, 2, WaveFirst},
		{"at least one", plansFor(3, was, lower), 0, nil, 3, nil, 1, WaveFirst},
		{"the first wave is full", plansFor(36, was, lower), 4, nil, 40, nil, 0, ""},
		{"kept: waves of at most 10 %", plansFor(36, was, lower), 0, keptAt(lower), 40, nil, 4, WaveNext},
		{"kept: rounded down", plansFor(19, was, lower), 0, keptAt(lower), 19, nil, 1, WaveNext},
		{"kept: what is open counts", plansFor(36, was, lower), 3, keptAt(lower), 40, nil, 1, WaveNext},
		{"kept: a number instead of a percentage", plansFor(36, was, lower), 0, keptAt(lower), 40, func(r *Rules) { r.MaxConcurrent, r.MaxConcurrentPercent = 7, 0 }, 7, WaveNext},
		{"lower than what is kept: a first wave again", plansFor(40, was, lowest), 0, keptAt(lower), 40, func(r *Rules) { r.MaxConcurrentPercent = 50 }, 4, WaveFirst},
		{"a lower request alone", plansFor(40, lower, size(200, 500, 512, 1024)), 0, keptAt(lower), 40, func(r *Rules) { r.MaxConcurrentPercent = 50 }, 4, WaveFirst},
		{"a lower limit alone", plansFor(40, lower, size(250, 400, 512, 1024)), 0, keptAt(lower), 40, func(r *Rules) { r.MaxConcurrentPercent = 50 }, 4, WaveFirst},
		{"a limit where the kept size has none", plansFor(40, was, lower), 0, keptAt(size(250, 0, 512, 1024)), 40, func(r *Rules) { r.MaxConcurrentPercent = 50 }, 4, WaveFirst},
		{"kept of another template generation counts for nothing", plansFor(40, was, lower), 0, []v1alpha1.VerifiedResources{{Name: "app", Size: podview.ToResources(lower), TemplateHash: "old"}}, 40,
			func(r *Rules) { r.MaxConcurrentPercent = 50 }, 4, WaveFirst},
		{"kept of another container", plansFor(40, was, lower), 0, []v1alpha1.VerifiedResources{{Name: "side", Size: podview.ToResources(lower), TemplateHash: "abc"}}, 40,
			func(r *Rules) { r.MaxConcurrentPercent = 50 }, 4, WaveFirst},
		{"a lower memory limit alone is a trial", plansFor(40, was, size(500, 1000, 512, 600)), 0, keptAt(was), 40, func(r *Rules) { r.MaxConcurrentPercent = 50 }, 4, WaveFirst},
		{"raises go straight to waves", plansFor(40, was, higher), 0, nil, 40, func(r *Rules) { r.MaxConcurrentPercent = 50 }, 20, WaveNext},
		{"followers go before trials", append(plansFor(5, was, lower), plansFor(5, lower, lowest)...), 0, keptAt(lower), 40, nil, 4, WaveNext},
		{"canary, promoted by itself", plansFor(36, was, lower), 0, keptAt(lower), 40, canary, 4, WaveNext},
		{"one shot: one pod", plansFor(40, was, lower), 0, nil, 40, oneShot, 1, WaveFirst},
		{"one shot: not while one is open", plansFor(39, was, lower), 1, nil, 40, oneShot, 0, ""},
		{"one shot: one raise", plansFor(40, was, higher), 0, nil, 40, oneShot, 1, WaveNext},
		{"urgent ones always go", plansFor(40, was, higher, urgent), 30, nil, 40, oneShot, 20, WaveNext},
		{"39 what restarts goes alone", plansFor(40, was, higher, restarts), 0, nil, 40, func(r *Rules) { r.MaxConcurrentPercent = 50 }, 1, WaveNext},
		{"39 and not while another is open", plansFor(40, was, higher, restarts), 1, nil, 40, func(r *Rules) { r.MaxConcurrentPercent = 50 }, 0, ""},
		{"88 no more records than there may be", plansFor(500, was, higher), 0, nil, 500, func(r *Rules) { r.MaxConcurrentPercent = 100 }, v1alpha1.MaxRecords, WaveNext},
		{"nothing to do", nil, 0, nil, 40, nil, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules := auto()
			if tc.rules != nil {
				tc.rules(&rules)
			}
			going := Wave(tc.plans, make([]v1alpha1.ResizeRecord, tc.open), tc.kept, tc.pods, rules, nil)
			assert.Len(t, going, tc.want)
			for _, p := range going {
				assert.Equal(t, tc.wave, p.Wave)
			}
		})
	}
}

// With autoPromote off, only the first wave is lowered below the promoted size, raises go on, and other modes wait for no
// promotion.
func TestPlansWaitForPromotion(t *testing.T) {
	was, lower, lowest, higher := size(500, 1000, 512, 1024), size(250, 500, 512, 1024), size(200, 400, 512, 1024), size(1000, 2000, 512, 1024)
	verified := func(promoted *recommender.Size) []v1alpha1.VerifiedResources {
		k := keptAt(lower)
		if promoted != nil {
			r := podview.ToResources(*promoted)
			k[0].Promoted = &r
		}
		return k
	}
	for _, c := range []struct {
		name           string
		plans          []Plan
		kept           []v1alpha1.VerifiedResources
		lowered        int
		going, waiting int
	}{
		{"the first wave", plansFor(40, was, lower), nil, 0, 4, 36},
		{"the first wave is complete", plansFor(36, was, lower), verified(nil), 4, 0, 36},
		{"a pod of the first wave is gone", plansFor(37, was, lower), verified(nil), 3, 1, 36},
		{"the size is promoted", plansFor(36, was, lower), verified(&lower), 0, 36, 0},
		{"a larger size is promoted", plansFor(36, was, lowest), verified(&lower), 4, 0, 36},
		{"raises", plansFor(36, was, higher), verified(nil), 4, 36, 0},
		{"the raise of a plan that lowers, too", plansFor(36, was, size(1000, 2000, 256, 512)), verified(nil), 4, 36, 36},
	} {
		t.Run(c.name, func(t *testing.T) {
			rules, other := auto(), func(Plan) bool { return false }
			rules.Mode, rules.AutoPromote = v1alpha1.UpdateCanary, false
			going, waiting := Promoted(c.plans, c.kept, c.lowered, 40, rules, other)
			assert.Len(t, going, c.going)
			assert.Len(t, waiting, c.waiting)
			all, _ := Promoted(c.plans, c.kept, c.lowered, 40, rules, func(Plan) bool { return true })
			assert.Len(t, all, len(c.plans), "the first wave goes on")
			all, _ = Promoted(c.plans, c.kept, c.lowered, 40, auto(), other)
			assert.Len(t, all, len(c.plans), "mode Auto")
		})
	}
}

func TestWavesAreStable(t *testing.T) {
	// Case 88: after a restart of attune, the same pods go on.
	plans := plansFor(100, prior, desired)
	first := Wave(plans, nil, nil, 100, auto(), nil)
	slices.Reverse(plans)
	assert.Equal(t, first, Wave(plans, nil, nil, 100, auto(), nil), "whatever order they come in")

	var names []string
	for _, p := range first {
		names = append(names, p.PodName)
	}
	assert.False(t, slices.IsSorted(names), "not the order of names: StatefulSets' pod 0 is special")
	rest := slices.DeleteFunc(plans, func(p Plan) bool { return slices.Contains(names[:5], p.PodName) })
	second := Wave(rest, make([]v1alpha1.ResizeRecord, 5), nil, 100, auto(), nil)
	for i, p := range second {
		assert.Equal(t, names[5+i], p.PodName)
	}
}

func TestUrgentOnesComeFirst(t *testing.T) {
	plans := append(plansFor(10, prior, desired), Plan{PodName: "hurt", Urgent: true, Moves: []Move{{Container: "app", From: prior, To: size(500, 1000, 1024, 2048)}}})
	going := Wave(plans, nil, nil, 11, auto(), nil)
	assert.Equal(t, "hurt", going[0].PodName)
	assert.Len(t, going, 2, "and count as open: of two in the first wave one is left")
}

func TestAllWavesShareTheRoomForRecords(t *testing.T) {
	// Case 88.
	higher := size(500, 1000, 1024, 2048)
	plans := append(plansFor(30, prior, higher, func(p *Plan) { p.Urgent = true }), plansFor(40, prior, higher)...)
	rules := auto()
	rules.MaxConcurrentPercent = 100
	assert.Len(t, Wave(plans, nil, nil, 500, rules, nil), v1alpha1.MaxRecords)
	assert.Len(t, Wave(plans, make([]v1alpha1.ResizeRecord, 49), nil, 500, rules, nil), 1)
}

func TestWaveLeavesItsArgumentAlone(t *testing.T) {
	plans := plansFor(10, prior, desired)
	before := slices.Clone(plans)
	Wave(plans, nil, nil, 10, auto(), nil)
	assert.Equal(t, before, plans)
}

// A restore that no kubelet can carry out takes no part in waves; an observed resize on such a node still does.
func TestDeadNodeBlocksNoWave(t *testing.T) {
	down := map[string]bool{"node-1": true}
	for phase, waits := range map[v1alpha1.RecordPhase]int{
		v1alpha1.RecordReverting: 0, v1alpha1.RecordWithdrawing: 0, v1alpha1.RecordWatching: 1, v1alpha1.RecordApplied: 1,
	} {
		records := []v1alpha1.ResizeRecord{{Phase: phase, Node: "node-1"}}
		assert.Equal(t, waits, Steps(records, down), phase)
		assert.Equal(t, 1, Steps(records, map[string]bool{"node-2": true}), phase)
	}
}

func TestTheEndOfABoostIsNoStep(t *testing.T) {
	boost := v1alpha1.ResizeRecord{Wave: WaveBoost, Phase: v1alpha1.RecordWatching, Reason: ReasonBoost}
	assert.Equal(t, 1, Steps([]v1alpha1.ResizeRecord{boost, {Wave: WaveNext}, boost}, nil))
}
