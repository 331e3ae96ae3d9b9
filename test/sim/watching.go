package sim

import (
	"fmt"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/sim/api"
)

// pass is one pass of a loop, as it ended.
type pass struct {
	of      *operator
	loop    string
	request reconcile.Request
	result  reconcile.Result
	err     error
	took    time.Duration
}

// invariant is something that always holds. It sees all that happens and reports what breaks it.
type invariant interface {
	wrote(api.Write)
	changed(api.Event)
	passed(pass)
	// faulted: a call of the operator failed as the seed had it.
	faulted(api.Call, error)
	// disturbed: something happened to the cluster or the operator.
	disturbed(what string)
	// tick comes each minute, end once.
	tick()
	end()
}

// deaf sees nothing; invariants embed it.
type deaf struct{}

func (deaf) wrote(api.Write)         {}
func (deaf) changed(api.Event)       {}
func (deaf) passed(pass)             {}
func (deaf) faulted(api.Call, error) {}
func (deaf) disturbed(string)        {}
func (deaf) tick()                   {}
func (deaf) end()                    {}

// scene is what invariants know of the world; tests of them make their own.
type scene struct {
	// now is the time.
	now func() time.Time
	// workloadOf names the recommendation that a write or a pod belongs to; empty: none.
	workloadOf func(kind string, key types.NamespacedName) types.NamespacedName
	// excused: something is wrong with the operator or its servers that explains a delay.
	excused func() bool
	// violate reports.
	violate func(invariant, about, format string, args ...any)
}

// watching tells every invariant of everything.
type watching struct {
	w          *world
	invariants []invariant
	// until: what was started by a trouble lasts.
	until time.Time
	// last is the newest trouble.
	last time.Time
	// owners of pods that are or were there.
	owners map[types.NamespacedName]types.NamespacedName
	// writes by actor, verb and kind, passes by loop.
	writes, passes map[string]int
	// raises before a kill, and what became of them.
	raises map[string]int
	// templates are the resources that the pods would have without attune.
	templates templates
	// spoken counts what was told.
	spoken map[string]int
}

func newWatching(w *world) *watching {
	v := &watching{w: w, owners: map[types.NamespacedName]types.NamespacedName{}, writes: map[string]int{}, passes: map[string]int{}, last: w.time.now}
	s := &scene{now: func() time.Time { return w.time.now }, workloadOf: v.workloadOf, excused: v.excused, violate: v.violate}
	raises := newRaises(s, w.mostMemory, w.memoryOf)
	w.told.heard, v.raises = raises.told, raises.count
	spoken := newSpoken(s, w.words)
	v.spoken = spoken.seen
	hindrance := &hindrance{w: w, templates: templates{}}
	v.templates = hindrance.templates
	v.invariants = []invariant{raises, newCalm(s), newRepeats(s), newAwake(s), newSpins(s), newFloors(s), newHarmless(s), newEnds(s), newAdmissions(s), newOneWave(s), newRecommended(s, w.selected),
		newRest(s), newReached(s, w.podsOf), newStarved(s, w.podsOf, w.leastNeed, func() bool { return w.sourceIsWell() && w.plan.Recent == nil }), newStarts(s),
		newFreshUsage(s, w.wantedUsage, w.sourceIsWell, w.sourceReaches),
		newReverted(s, w.autoReverts), newNeighbours(s, func() bool { return w.noRights }), newReleased(s), spoken, &originals{scene: s, template: w.template},
		&unasked{scene: s, asks: w.evicts}, &blameless{scene: s, nothingHarms: w.plan.NothingHarms},
		seen{h: hindrance}, newRuns(s, hindrance.all), newRescued(s, w.keepsSizes, w.restorable), newUndemanded(s, w.demanded()),
		&requestsAreKept{scene: s, w: w, had: map[types.UID]map[request]time.Time{}, since: map[types.UID]time.Time{}},
		&bounded{scene: s, objects: w.ours, remembers: w.remembers, there: w.there},
	}
	if w.plan.Kept {
		v.invariants = append(v.invariants, &replicasAreKept{
			scene: s, w: w, before: map[types.NamespacedName]map[types.UID]int64{}, last: map[types.NamespacedName]autoscalingv2.HorizontalPodAutoscalerSpec{},
		})
	}
	if w.plan.Retarget {
		w.follows = newTargetsFollow(s, w)
		v.invariants = append(v.invariants, w.follows)
	}
	return v
}

// graceAfter is how long what a trouble left behind may take to pass.
const graceAfter = 5 * time.Minute

// excused while trouble lasts, and a while longer.
func (v *watching) excused() bool {
	return v.w.leader == nil || v.w.faults.any() || v.w.time.now.Before(v.until.Add(graceAfter))
}

// lasts: a trouble goes on for a while.
func (v *watching) lasts(t trouble) {
	if until := v.w.time.now.Add(t.For); until.After(v.until) {
		v.until = until
	}
}

func (v *watching) workloadOf(kind string, key types.NamespacedName) types.NamespacedName {
	switch kind {
	case "AttuneRecommendation":
		return key
	case "Pod":
		return v.owners[key]
	}
	return types.NamespacedName{}
}

func (v *watching) violate(invariant, about, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if about != "" {
		text += "\n" + v.w.describe(about)
	}
	v.w.violate(invariant, "%s", text)
}

func (v *watching) wrote(w api.Write) {
	if strings.HasPrefix(w.Actor, "attune") {
		v.writes[w.Actor+" "+w.Verb+" "+w.Kind]++
	}
	for _, i := range v.invariants {
		i.wrote(w)
	}
}

func (v *watching) changed(e api.Event) {
	if pod, ok := e.Object.(*corev1.Pod); ok {
		id, owned := workload.OwnerOf(pod, pod.Namespace, nil)
		if name := v.w.adopterOf(pod); name != "" {
			id = workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: pod.Namespace, Name: name}
		}
		if owned {
			v.owners[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = types.NamespacedName{Namespace: id.Namespace, Name: id.RecommendationName()}
		}
	}
	for _, i := range v.invariants {
		i.changed(e)
	}
}

func (v *watching) passed(p pass) {
	v.passes[p.loop]++
	for _, i := range v.invariants {
		i.passed(p)
	}
}

func (v *watching) faulted(_ *operator, c api.Call, err error) {
	v.last = v.w.time.now
	for _, i := range v.invariants {
		i.faulted(c, err)
	}
}

func (v *watching) disturbed(what string) {
	v.last = v.w.time.now
	for _, i := range v.invariants {
		i.disturbed(what)
	}
}

func (v *watching) tick() {
	for _, i := range v.invariants {
		i.tick()
	}
}

func (v *watching) end() {
	for _, i := range v.invariants {
		i.end()
	}
}
