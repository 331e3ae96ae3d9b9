package sim

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

const (
	// templateFactor is how far the runaway brake lets a limit rise above that of its template without a kill.
	templateFactor = 2.0
	// killFactor is the square of what an OOM kill adds to a limit: one answer, and one more that was on its way.
	killFactor = 1.3 * 1.3
	// needFactor is how many times the most that was needed a memory limit may be.
	needFactor = 4.0
	// usualOverhead is what is added to usage where the policy says nothing.
	usualOverhead = 1.3
)

// undemanded: no size that nothing demanded. attune gives no container, at admission or by a resize, a memory limit above
// the greatest of
//
//   - twice the limit of its template, which the runaway brake allows without a kill: twice the greatest that any template of
//     the workload had, or a person gave a pod of it by hand; and the minAllowed of its policy;
//   - 1.3² times the highest limit that was in force when a container of that name in the workload was OOM-killed;
//   - 4 times the most that was needed: the most memory that a container of the workload needed at any time that a multiple
//     of five minutes or a write of attune was at (needs move each five minutes), whatever its limit was. Of usage that follows its limit (page cache, a heap that is a part of the limit) that is what
//     the container would use with the limit of its template. Where the policy adds more than 30 % to usage, the 4 grow with
//     it: an overhead of 200 % is a demand of a person.
//
// A container whose template has no memory limit is not judged, nor is what a pod had before a write of attune.
type undemanded struct {
	deaf
	*scene
	facts demandFacts
	// most are limits in bytes: of templates and people, and at which containers were killed, by recommendation and container.
	most, killed map[string]float64
	// needed is the most of each recommendation, in bytes.
	needed map[types.NamespacedName]float64
	// given is the limit that a container of a pod had when it was judged last.
	given map[string]float64
}

// demandFacts are what the invariant knows of the world.
type demandFacts struct {
	// pods that are there.
	pods func() []*corev1.Pod
	// pod by its name; nil: it is gone.
	pod func(namespace, name string) *corev1.Pod
	// needs is what a container of a pod needs now, in bytes, where its template has a memory limit of so many bytes.
	needs func(pod *corev1.Pod, container string, template float64) float64
	// overhead is what the policy of a recommendation adds to usage, as a fraction, and least its minAllowed in bytes.
	overhead, least func(types.NamespacedName) float64
}

func newUndemanded(s *scene, facts demandFacts) *undemanded {
	return &undemanded{scene: s, facts: facts, most: map[string]float64{}, killed: map[string]float64{}, needed: map[types.NamespacedName]float64{}, given: map[string]float64{}}
}

func (u *undemanded) changed(e api.Event) {
	pod, ok := e.Object.(*corev1.Pod)
	if !ok {
		return
	}
	of := u.workloadOf("Pod", key2(pod.Namespace, pod.Name))
	if of.Name == "" {
		return
	}
	for _, k := range endsIn(e, of, u.now()) {
		raise(u.killed, of.String()+" "+k.container, float64(k.limit))
	}
	switch e.Type {
	case watch.Added:
		for name, r := range templateResources(pod) {
			raise(u.most, of.String()+" "+name, r.Limits.Memory().AsApproximateFloat64())
		}
		u.judge(of, pod)
	case watch.Deleted:
		for _, c := range pod.Spec.Containers {
			delete(u.given, string(pod.UID)+" "+c.Name)
		}
	}
}

// wrote: what people give a pod is theirs, what attune gives it is judged.
func (u *undemanded) wrote(w api.Write) {
	if w.Verb != "patch/resize" || w.Answer != nil && !w.Lost {
		return
	}
	key := keyOf(w.Key)
	pod, of := u.facts.pod(key.Namespace, key.Name), u.workloadOf("Pod", key)
	if pod == nil || of.Name == "" {
		return
	}
	if strings.HasPrefix(w.Actor, "attune") {
		u.judge(of, pod)
		return
	}
	for _, c := range pod.Spec.Containers {
		raise(u.most, of.String()+" "+c.Name, float64(limitOf(c)))
	}
}

func (u *undemanded) tick() {
	if u.now().Minute()%5 != 0 {
		return
	}
	for _, pod := range u.facts.pods() {
		if of := u.workloadOf("Pod", key2(pod.Namespace, pod.Name)); of.Name != "" {
			u.need(of, pod)
		}
	}
}

// need of a pod now.
func (u *undemanded) need(of types.NamespacedName, pod *corev1.Pod) {
	for _, c := range pod.Spec.Containers {
		u.needed[of] = max(u.needed[of], u.facts.needs(pod, c.Name, u.most[of.String()+" "+c.Name]))
	}
}

// judge what a pod has from attune.
func (u *undemanded) judge(of types.NamespacedName, pod *corev1.Pod) {
	u.need(of, pod)
	for _, c := range pod.Spec.Containers {
		key, had := of.String()+" "+c.Name, string(pod.UID)+" "+c.Name
		limit, before := float64(limitOf(c)), u.given[had]
		u.given[had] = limit
		if limit <= before || u.most[key] == 0 {
			continue
		}
		template, killed := max(templateFactor*u.most[key], u.facts.least(of)), killFactor*u.killed[key]
		needed := needFactor * max(1, (1+u.facts.overhead(of))/usualOverhead) * u.needed[of]
		if most := max(template, killed, needed); limit > most+mib {
			u.violate("no size that nothing demanded", of.String(), "container %s of pod %s is given a memory limit of %.0fMi; its template has %.0fMi, containers were killed at %.0fMi at most, and the most that one needed is %.0fMi",
				c.Name, pod.Name, limit/mib, u.most[key]/mib, u.killed[key]/mib, u.needed[of]/mib)
		}
	}
}

func raise(all map[string]float64, key string, to float64) { all[key] = max(all[key], to) }

// demanded are the facts of a world.
func (w *world) demanded() demandFacts {
	spec := func(of types.NamespacedName) *v1alpha1.MemorySettings {
		rec, found := w.server.Peek(&v1alpha1.AttuneRecommendation{}, of).(*v1alpha1.AttuneRecommendation)
		if !found {
			return nil
		}
		if p := w.policyOf(rec); p != nil {
			return p.Spec.Memory
		}
		return nil
	}
	return demandFacts{
		pods: w.pods, pod: w.pod,
		needs: func(pod *corev1.Pod, container string, template float64) float64 {
			for _, l := range w.lives.all[string(pod.UID)] {
				if l.container == container && l.ended.IsZero() {
					return l.of.memoryAt(w.time.now, l.started, l.pod) + l.of.elastic.without(template)
				}
			}
			return 0
		},
		overhead: func(of types.NamespacedName) float64 {
			m := spec(of)
			if m == nil || m.Overhead == nil {
				return 0
			}
			overhead, err := strconv.ParseFloat(string(*m.Overhead), 64)
			w.must(err)
			return overhead / 100
		},
		least: func(of types.NamespacedName) float64 {
			m := spec(of)
			if m == nil || m.MinAllowed == nil {
				return 0
			}
			return m.MinAllowed.AsApproximateFloat64()
		},
	}
}
