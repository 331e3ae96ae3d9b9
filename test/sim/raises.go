package sim

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/test/sim/api"
)

const (
	// mostRaises is how often a container is raised before a kill from the first time on until a day later.
	mostRaises, raisesCount = 3, 24 * time.Hour
	// haveRows is how many containers of a workload surely have room in its status for a count of their raises. Of more it is
	// three on average.
	haveRows = v1alpha1.MaxTries / 2
	// raiseEndsWithin is how long the record of a raise may be open, with its watch and what puts a pod back.
	raiseEndsWithin = 4 * time.Hour
	// calmFor is how long a container needs little before its raise is to be given back; lookedAt is how long after the raise
	// that has to begin, and answeredIn how long it may take from then on.
	calmFor, lookedAt, answeredIn = 5 * time.Minute, 25 * time.Minute, 90 * time.Minute
)

// raises are those before a kill: three of a container within a day, to a size that is valid and allowed, each brought to its
// end, none by an eviction; what was raised for a spike is given back, or an event says why not.
type raises struct {
	deaf
	*scene
	// mostAllowed is the maxAllowed of memory of a recommendation's policy, in bytes; 0: none.
	mostAllowed func(rec types.NamespacedName) int64
	// needs is what a container of a pod needs now; false: it is not known.
	needs func(pod types.NamespacedName, container string) (float64, bool)
	// open are the records of raises, by the pod.
	open map[types.UID]*openRaise
	of   map[string]*raised
	// count is how many there were, and how many were given back or kept.
	count map[string]int
}

// openRaise is the record of a raise, whatever its reason has become since.
type openRaise struct {
	rec     types.NamespacedName
	pod     string
	began   time.Time
	since   time.Time
	reasons []string
}

// raised are the raises of a container of a pod.
type raised struct {
	rec            types.NamespacedName
	pod, container string
	uid            types.UID
	first, last    time.Time
	times          int
	// before the first raise, and after the last one.
	before, reached int64
	// calm is since when it has needed little. answered: it was given back, or an event said why not, or it is not to be judged.
	calm     time.Time
	answered bool
}

func newRaises(s *scene, mostAllowed func(types.NamespacedName) int64, needs func(types.NamespacedName, string) (float64, bool)) *raises {
	return &raises{scene: s, mostAllowed: mostAllowed, needs: needs, open: map[types.UID]*openRaise{}, of: map[string]*raised{}, count: map[string]int{}}
}

// What happens to the cluster may keep a raise from being given back.
func (r *raises) disturbed(string)        { r.judgeNone() }
func (r *raises) faulted(api.Call, error) { r.judgeNone() }
func (r *raises) judgeNone() {
	for _, of := range r.of {
		of.answered = true
	}
}

func (r *raises) changed(e api.Event) {
	switch o := e.Object.(type) {
	case *v1alpha1.AttuneRecommendation:
		r.records(o, e.Type == watch.Deleted)
	case *corev1.Pod:
		if old, _ := e.Old.(*corev1.Pod); e.Type == watch.Modified && o.Generation != old.Generation {
			r.resized(old, o)
		} else if e.Type == watch.Modified && restarts(o) != restarts(old) {
			r.judgePod(o.UID)
		}
		if e.Type == watch.Deleted {
			delete(r.open, o.UID)
			for key, of := range r.of {
				if of.uid == o.UID {
					delete(r.of, key)
				}
			}
		}
	}
}

// judgePod: whether its raises are given back is not judged any more.
func (r *raises) judgePod(uid types.UID) {
	for _, of := range r.of {
		if of.uid == uid {
			of.answered = true
		}
	}
}

// records that are open, of raises.
func (r *raises) records(rec *v1alpha1.AttuneRecommendation, gone bool) {
	key, there := key2(rec.Namespace, rec.Name), map[types.UID]bool{}
	for _, record := range rec.Status.Records {
		before := r.open[record.PodUID]
		same := before != nil && before.began.Equal(record.WrittenAt.Time)
		if gone || record.Reason != resize.ReasonClimb && !same {
			continue
		}
		there[record.PodUID] = true
		if !same {
			before = &openRaise{rec: key, pod: record.PodName, began: record.WrittenAt.Time, since: r.now()}
			r.open[record.PodUID] = before
		}
		if how := string(record.Phase) + " " + record.Reason; len(before.reasons) == 0 || before.reasons[len(before.reasons)-1] != how {
			before.reasons = append(before.reasons, how)
		}
	}
	for uid, open := range r.open {
		if open.rec == key && !there[uid] {
			delete(r.open, uid)
		}
	}
}

// resized: a pod's sizes were changed.
func (r *raises) resized(old, pod *corev1.Pod) {
	open := r.open[pod.UID]
	for i, c := range pod.Spec.Containers {
		from, to := limitOf(old.Spec.Containers[i]), limitOf(c)
		key := string(pod.UID) + " " + c.Name
		switch before := r.of[key]; {
		case from == to:
		case open != nil && to > from && len(open.reasons) == 1 && strings.HasSuffix(open.reasons[0], resize.ReasonClimb):
			r.raise(open.rec, pod, c, from, to)
		case before != nil && (to < from || to > before.reached):
			before.answered = true
		}
	}
}

// raise of one container.
func (r *raises) raise(rec types.NamespacedName, pod *corev1.Pod, c corev1.Container, from, to int64) {
	key := string(pod.UID) + " " + c.Name
	of := r.of[key]
	if of == nil || r.now().Sub(of.first) >= raisesCount || from > of.reached {
		of = &raised{rec: rec, pod: pod.Name, container: c.Name, uid: pod.UID, first: r.now(), before: from}
		r.of[key] = of
	}
	if of.times > 0 && from != of.reached {
		of.answered = true // lowered in between: what it had before is another size
	}
	of.times++
	r.count["raised"]++
	of.last, of.reached, of.calm = r.now(), to, time.Time{}
	what := fmt.Sprintf("container %s of pod %s is raised from %d to %d bytes", c.Name, pod.Name, from, to)
	if of.times > mostRaises && r.raisedOf(rec) <= haveRows {
		r.violate("three raises a day", rec.String(), "%s, for the %d. time since %s", what, of.times, of.first)
	}
	if most := r.mostAllowed(rec); most > 0 && to > most {
		r.violate("raises are allowed", rec.String(), "%s, above maxAllowed, %d", what, most)
	}
	if request := c.Resources.Requests.Memory().Value(); request > to {
		r.violate("raises are allowed", rec.String(), "%s, with a request of %d", what, request)
	}
	if to > 2*from+mib {
		r.violate("raises are allowed", rec.String(), "%s, more than twice", what)
	}
}

// raisedOf is how many containers of a workload have been raised lately.
func (r *raises) raisedOf(rec types.NamespacedName) (n int) {
	for _, of := range r.of {
		if of.rec == rec && r.now().Sub(of.first) < raisesCount {
			n++
		}
	}
	return n
}

func (r *raises) wrote(w api.Write) {
	open := r.open[types.UID(w.UID)]
	if w.Kind != "Pod" || !strings.HasPrefix(w.Actor, "attune") || open == nil {
		return
	}
	if w.Verb == "create/eviction" {
		r.violate("no eviction for a raise", open.rec.String(), "%s: %v", w, open.reasons)
	}
	if w.Verb == "patch/resize" && apierrors.IsInvalid(w.Answer) && len(open.reasons) == 1 {
		r.violate("raises are valid", open.rec.String(), "%s", w)
	}
}

// told is what events say of a pod.
func (r *raises) told(note string) {
	kept, back := strings.Contains(note, "keeps its raised memory"), strings.HasPrefix(note, "Restoring the memory limits of pod ")
	switch {
	case kept:
		r.count["kept"]++
	case back:
		r.count["given back"]++
	default:
		return
	}
	for _, of := range r.of {
		if strings.Contains(note, of.pod) {
			of.answered = true
		}
	}
}

func (r *raises) tick() {
	for uid, open := range r.open {
		if r.excused() {
			open.since = open.since.Add(time.Minute)
		} else if r.now().Sub(open.since) > raiseEndsWithin {
			delete(r.open, uid)
			r.violate("raises end", open.rec.String(), "the raise of pod %s is open since %s: %v", open.pod, open.since, open.reasons)
		}
	}
	if r.excused() {
		r.judgeNone()
		return
	}
	for _, of := range r.of {
		if !of.answered {
			r.spike(of)
		}
	}
}

// spike: a container that needs little again is given back what it had.
func (r *raises) spike(of *raised) {
	needs, known := r.needs(key2(of.rec.Namespace, of.pod), of.container)
	late := r.now().Sub(of.last)
	switch {
	case !known:
		of.answered = true
	case of.calm.IsZero() && late > lookedAt-calmFor:
		of.answered = true // too late to be looked at
	case needs > 0.75*float64(of.before):
		of.calm = time.Time{}
	case of.calm.IsZero():
		of.calm = r.now()
	case r.now().Sub(of.calm) > calmFor && late > lookedAt+answeredIn:
		of.answered = true
		r.violate("spikes are given back", of.rec.String(), "container %s of pod %s was raised from %d to %d bytes at %s; it has needed little since %s, keeps it, and no event says why",
			of.container, of.pod, of.before, of.reached, of.last, of.calm)
	}
}

// mostMemory is the maxAllowed of memory of a recommendation's policy; 0: none.
func (w *world) mostMemory(name types.NamespacedName) int64 {
	rec, found := w.server.Peek(&v1alpha1.AttuneRecommendation{}, name).(*v1alpha1.AttuneRecommendation)
	if !found {
		return 0
	}
	p := w.policyOf(rec)
	if p == nil || p.Spec.Memory == nil || p.Spec.Memory.MaxAllowed == nil {
		return 0
	}
	return p.Spec.Memory.MaxAllowed.Value()
}

// memoryOf a container now; false: it does not run.
func (w *world) memoryOf(name types.NamespacedName, container string) (float64, bool) {
	pod := w.pod(name.Namespace, name.Name)
	if pod == nil {
		return 0, false
	}
	for _, l := range w.lives.all[string(pod.UID)] {
		if l.container == container && l.ended.IsZero() {
			return l.memoryAt(w.time.now), true
		}
	}
	return 0, false
}
