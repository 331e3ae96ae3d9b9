package sim

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/bridge"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/test/sim/api"
)

const (
	// spokenEvery is how many minutes lie between two looks at what is told: at other minutes of each hour.
	spokenEvery = 17
	// unpublishedWithin is how long a workload may be gone and still be told of by the bridge.
	unpublishedWithin = 10 * time.Minute
)

// spoken: what is told of workloads is what is stored of them.
type spoken struct {
	deaf
	*scene
	minutes int
	// words of this moment.
	words func() []words
	// compute is answers.View.Compute.
	compute func(answers.View) answers.SavingsFigures
	// gone is since when workloads are, sized the pods whose sizes somebody changed.
	gone  map[types.NamespacedName]time.Time
	sized map[types.UID]bool
	// seen counts what was there to look at.
	seen map[string]int
}

func newSpoken(s *scene, of func() []words) *spoken {
	return &spoken{scene: s, words: of, compute: answers.View.Compute, gone: map[types.NamespacedName]time.Time{}, sized: map[types.UID]bool{}, seen: map[string]int{}}
}

func (t *spoken) changed(e api.Event) {
	if pod, ok := e.Object.(*corev1.Pod); ok {
		t.changedPod(pod, e)
		return
	}
	if e.Type == watch.Modified {
		return
	}
	if of, is := workload.From(e.Object); is {
		key := key2(of.Namespace, of.RecommendationName())
		if delete(t.gone, key); e.Type == watch.Deleted {
			t.gone[key] = t.now()
		}
	}
}

func (t *spoken) changedPod(pod *corev1.Pod, e api.Event) {
	old, _ := e.Old.(*corev1.Pod)
	switch {
	case e.Type == watch.Deleted: // the operator's cache may still have it
	case old == nil:
		if pod.Annotations[v1alpha1.SeededAnnotation] != "" {
			t.sized[pod.UID] = true
		}
	case old.Generation != pod.Generation && !sameSizes(old, pod):
		t.sized[pod.UID] = true
	}
}

func sameSizes(a, b *corev1.Pod) bool {
	return slices.EqualFunc(a.Spec.Containers, b.Spec.Containers, func(a, b corev1.Container) bool { return equality.Semantic.DeepEqual(a.Resources, b.Resources) })
}

func (t *spoken) tick() {
	if t.minutes++; t.minutes%spokenEvery != 0 {
		return
	}
	var entries []answers.SavingsEntry
	for _, of := range t.words() {
		about := key2(of.rec.Namespace, of.rec.Name)
		if of.failed != "" {
			t.violate("told", about.String(), "what is told of %s cannot be computed: %s", about, of.failed)
			continue
		}
		figures := t.compute(of.view)
		t.count(&of, figures)
		entries = append(entries, of.entry(figures))
		for _, wrong := range [][2]string{{"explained", of.explained()}, {"saved", t.saved(&of, figures)}, {"published", t.published(&of)}, {"predicted", of.mispredicted()}} {
			if wrong[1] != "" {
				t.violate(wrong[0], about.String(), "%s: %s", about, wrong[1])
			}
		}
	}
	if wrong := summed(entries); wrong != "" {
		t.violate("sums agree", "", "%s", wrong)
	}
}

func (t *spoken) count(of *words, figures answers.SavingsFigures) {
	for what, is := range map[string]bool{
		"explained": len(of.page.Containers) > 0, "explained twice": of.stored != nil, "saving": figures.Saved != answers.SavedAmounts{}, "would save": figures.Available != answers.SavedAmounts{},
		"left out": len(figures.NotCounted) > 0, "published": of.vpa != nil, "next pod": of.next.created != nil,
		"predicted": of.vpa != nil && of.next.created != nil && of.vpa.Spec.UpdatePolicy.UpdateMode == autoscale.VPAModeInitial,
	} {
		if is {
			t.seen[what]++
		}
	}
}

// fields of the resources of a recommendation and of an explanation, in the same order.
func fields(of v1alpha1.Resources) [4]*resource.Quantity {
	return [4]*resource.Quantity{of.CPURequest, of.CPULimit, of.MemoryRequest, of.MemoryLimit}
}

func shownFields(of answers.Amounts) [4]*string {
	return [4]*string{of.CPURequest, of.CPULimit, of.MemoryRequest, of.MemoryLimit}
}

// explained is what is wrong with the explanations; empty: nothing. Both show the targets of the recommendation that they
// are about, at any time. Where the cache has the version that is stored, both show the same but for steps, which the
// cache does not keep.
func (of *words) explained() string {
	if wrong := showsTargets(of.page, of.rec); wrong != "" || of.stored == nil {
		return wrong
	}
	if wrong := showsTargets(of.program, of.stored); wrong != "" {
		return wrong
	}
	if _, err := of.program.Human(true); err != nil {
		return "no text for people: " + err.Error()
	}
	for i := range of.page.Containers {
		page, program := of.page.Containers[i], of.program.Containers[i]
		if page.Steps, program.Steps = nil, nil; !reflect.DeepEqual(page, program) {
			return "the page says of container " + page.Name + " what the program does not"
		}
	}
	return ""
}

func showsTargets(shown answers.Explanation, rec *v1alpha1.AttuneRecommendation) string {
	if len(shown.Containers) != len(rec.Spec.Containers) {
		return "not all containers are explained"
	}
	for i, c := range rec.Spec.Containers {
		says := shownFields(shown.Containers[i].Target)
		for j, want := range fields(c.Target) {
			var got resource.Quantity
			if says[j] != nil {
				got = resource.MustParse(*says[j])
			}
			if want == nil {
				want = &resource.Quantity{}
			}
			if shown.Containers[i].Name != c.Name || got.Cmp(*want) != 0 {
				return "container " + c.Name + " has the target " + want.String() + ", and " + got.String() + " is shown of " + shown.Containers[i].Name
			}
		}
	}
	return ""
}

// saved is what is wrong with the figures of a workload; empty: nothing.
func (t *spoken) saved(of *words, figures answers.SavingsFigures) string {
	var nothing answers.SavedAmounts
	w := of.view.Workload
	if saved := of.view.Saved(); saved != figures.Saved {
		return "the metrics have other savings than the pages"
	}
	if _, skipped := w.Skipped(); (skipped || w.Template == nil) && (figures.Saved != nothing || figures.Available != nothing) {
		return "the workload is left alone or gone, and saves something"
	}
	if (of.rec.Status.Paused != nil || of.rec.Spec.Strategy == v1alpha1.StrategyNode) && figures.Available != nothing {
		return "the whole workload is blocked, and would save something"
	}
	if t.compute(otherwiseBlocked(of.view)).Available != figures.Available {
		return "what is held would save something"
	}
	var sum answers.SavedAmounts
	for _, pod := range of.view.Pods {
		alone := of.view
		alone.Pods, alone.Workload.Replicas = []*corev1.Pod{pod}, 0
		its := t.compute(alone)
		if sum = sum.Plus(its.Saved); pod.Annotations[v1alpha1.SkipAnnotation] == "true" && its.Available.Plus(its.Saved) != nothing {
			return "pod " + pod.Name + " is left alone, and saves something"
		}
		if !t.sized[pod.UID] && its.Saved != nothing {
			return "pod " + pod.Name + " was never resized, and has saved CPU " + answers.FormatSaved(recommender.CPU, its.Saved[recommender.CPU]) +
				", memory " + answers.FormatSaved(recommender.Memory, its.Saved[recommender.Memory])
		}
	}
	if sum != figures.Saved {
		return "the pods have saved other amounts than their workload"
	}
	return ""
}

// otherwiseBlocked is a view in which all that is held has other targets.
func otherwiseBlocked(v answers.View) answers.View {
	rec := *v.Recommendation
	rec.Spec.Containers = slices.Clone(rec.Spec.Containers)
	for i := range rec.Spec.Containers {
		c := &rec.Spec.Containers[i]
		for _, h := range c.Holds {
			switch {
			case h.Reason == string(recommender.NotRunning):
			case h.Resource == recommender.CPU.String():
				c.Target.CPURequest = ptr(resource.MustParse("1m"))
			case h.Resource == recommender.Memory.String():
				c.Target.MemoryRequest = ptr(resource.MustParse("1Mi"))
			}
		}
	}
	v.Recommendation = &rec
	return v
}

// summed is what is wrong with the sums of the report; empty: nothing.
func summed(entries []answers.SavingsEntry) string {
	var total answers.SavingsAdder
	namespaces := map[string]*answers.SavingsAdder{}
	for _, e := range entries {
		if namespaces[e.Recommendation.Namespace] == nil {
			namespaces[e.Recommendation.Namespace] = &answers.SavingsAdder{}
		}
		namespaces[e.Recommendation.Namespace].Add(e)
		total.Add(e)
	}
	var parts []answers.SavingsSum
	for _, of := range namespaces {
		parts = append(parts, of.Sum(true))
	}
	return addUp(total.Sum(true), parts)
}

// amount of a sum, by what it is of.
func amount(of answers.SavingsSum) map[string]int64 {
	out := map[string]int64{
		"workloads": int64(of.Workloads), "skipped": int64(of.NotCounted.SkippedWorkloads), "blocked": int64(of.NotCounted.BlockedWorkloads), "blocked resources": int64(of.NotCounted.BlockedResources),
	}
	for name, saved := range map[string]answers.Saved{"saved": *of.Saved, "available": of.Available} {
		cpu, memory := resource.MustParse(saved.CPU), resource.MustParse(saved.Memory)
		out[name+" CPU"], out[name+" memory"] = cpu.MilliValue(), memory.Value()
		for _, money := range saved.Monthly {
			units, err := strconv.ParseFloat(money.Amount, 64)
			if err != nil {
				units = math.NaN()
			}
			out[name+" "+money.Currency] = int64(math.Round(units * 100))
		}
	}
	return out
}

// addUp: a total is the sum of its parts.
func addUp(total answers.SavingsSum, parts []answers.SavingsSum) string {
	sum := amount(answers.SavingsSum{Saved: &answers.Saved{CPU: "0", Memory: "0"}, Available: answers.Saved{CPU: "0", Memory: "0"}})
	for _, part := range parts {
		for name, of := range amount(part) {
			sum[name] += of
		}
	}
	all := amount(total)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name] != sum[name] {
			return name + " of all is " + strconv.FormatInt(all[name], 10) + ", of the namespaces together " + strconv.FormatInt(sum[name], 10)
		}
	}
	return ""
}

// published is what is wrong with the VPA by itself; empty: nothing.
func (t *spoken) published(of *words) string {
	if of.vpa == nil {
		return ""
	}
	if since := t.gone[key2(of.rec.Namespace, of.rec.Name)]; !since.IsZero() && !t.excused() && t.now().Sub(since) > unpublishedWithin {
		return "its workload is gone since " + since.String() + ", and a VPA is published"
	}
	for _, c := range of.vpa.Status.Recommendation.ContainerRecommendations {
		for name, target := range c.Target {
			low, high := c.LowerBound[name], c.UpperBound[name]
			if low.Cmp(target) > 0 || target.Cmp(high) > 0 {
				return "the " + string(name) + " of container " + c.ContainerName + " is " + target.String() + ", not within " + low.String() + " and " + high.String()
			}
		}
	}
	return ""
}

// mispredicted is what the VPA says of the next pod and the webhook would not do; empty: nothing. Readers are told of pods of
// the group apps alone.
func (of *words) mispredicted() string {
	if of.vpa == nil || of.next.created == nil || of.next.unseen || workload.GroupKindOf(of.rec.Spec.Workload.Kind).Group != appsv1.GroupName {
		return ""
	}
	for i, c := range of.next.created.Spec.Containers {
		for _, r := range recommender.Resources {
			name := corev1.ResourceName(r.String())
			said, more, controlled := predicts(of.vpa, c.Name, name)
			given, comes := c.Resources.Requests[name], of.next.comes.Spec.Containers[i].Resources.Requests[name]
			boosted := said.DeepCopy()
			boosted.Add(more)
			switch {
			case controlled && given.Cmp(boosted) == 0, !controlled && given.Cmp(comes) == 0:
			case controlled && of.next.quota && (given.Cmp(said) == 0 || given.Cmp(comes) == 0): // the quota has no room for more
			case controlled:
				return "the next pod's " + string(name) + " of container " + c.Name + " is said to be " + boosted.String() + ", the webhook would give " + given.String() + " in place of " + comes.String()
			default:
				return "of the next pod's " + string(name) + " of container " + c.Name + " nothing is said, the webhook would give " + given.String() + " in place of " + comes.String()
			}
		}
	}
	return ""
}

// predicts what a VPA says of a resource of a container of new pods, and how much more for its start; false: nothing.
func predicts(vpa *bridge.VPA, container string, r corev1.ResourceName) (said, more resource.Quantity, controlled bool) {
	if vpa.Spec.UpdatePolicy.UpdateMode != autoscale.VPAModeInitial || vpa.Spec.ResourcePolicy == nil {
		return said, more, false
	}
	for _, p := range vpa.Spec.ResourcePolicy.ContainerPolicies {
		if p.ContainerName != container || !slices.Contains(p.ControlledResources, r) {
			continue
		}
		if controlled = true; p.StartupBoost != nil && r == corev1.ResourceCPU {
			more = resource.MustParse(p.StartupBoost.CPU.Quantity)
		}
	}
	for _, c := range vpa.Status.Recommendation.ContainerRecommendations {
		if c.ContainerName == container {
			said = c.Target[r]
		}
	}
	return said, more, controlled
}
