package answers

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/withdraw"
)

// liveExplanation is the input of an explanation of a workload in the cluster.
type liveExplanation struct {
	View
	// template has the sizes in the pod template, by container; nil if it is not known.
	template map[string]recommender.Size
	// sizes has the containers of each pod, by name.
	sizes []map[string]podview.Container
	// now is the time of the next resize step. Floors that attune learned from regressions decay until then.
	now time.Time
}

// Explain explains a workload in the cluster. fields are the settings and the level that set each; nil if they are not
// known.
//
// Current and Next of a container come from the first pod that would change. Without such a pod they come from the
// first pod, and without any pod from the template. There is no Next without settings, or under strategy Node: there
// the next size of a pod depends on its node and on the other pods of the node.
//
// An error means that the recommendation cannot be read, for example because another version wrote it.
func Explain(v View, fields []policy.Field, now time.Time) (Explanation, error) {
	v.Pods = slices.SortedFunc(slices.Values(v.Pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	l, rec := liveExplanation{View: v, template: podview.TemplateSizes(v.Workload.Template), now: now}, v.Recommendation
	for _, pod := range v.Pods { // once for all containers
		l.sizes = append(l.sizes, podview.ByName(podview.Read(pod)))
	}
	answer := Explanation{
		Workload: &ExplainedWorkload{
			Namespace: rec.Namespace,
			Kind:      string(rec.Spec.Workload.Kind),
			Name:      rec.Spec.Workload.Name,
			Policy:    policy.NameOf(rec.Spec.Policy),
			Mode:      string(rec.Spec.Mode),
			Identity:  rec.Spec.Identity,

			Unreadable: v.Workload.Unreadable, AdmissionWithdrawn: withdrawal(rec.Status.AdmissionWithdrawn, now), NewPods: newPods(&v),
			NextResize: NextResize(rec),
		},
		Containers: []ExplainedContainer{},
		Settings:   SettingsOf(fields, rec),
	}
	// Containers keep the order of the recommendation; callers rely on it.
	for i := range rec.Spec.Containers {
		container, err := l.container(&rec.Spec.Containers[i])
		if err != nil {
			return Explanation{}, fmt.Errorf("AttuneRecommendation %s/%s: %w", rec.Namespace, rec.Name, err)
		}
		answer.Containers = append(answer.Containers, container)
	}
	answer.NotSized = l.injected()
	return answer, nil
}

// injected returns the containers of running pods that the pod template does not have. Without the template it returns
// none.
func (l liveExplanation) injected() (found []InjectedContainer) {
	if l.Workload.Template == nil {
		return nil
	}
	for _, pod := range l.Pods {
		for _, c := range podview.Read(pod) {
			if _, known := podview.TemplateSize(l.Workload.Template, c.Name); known {
				continue
			}
			i := slices.IndexFunc(found, func(x InjectedContainer) bool { return x.Name == c.Name })
			if i < 0 {
				reason := "injected, not in the pod template"
				if l.Workload.Rollout.InProgress { // a pod of an older template may have had it there
					reason = "not in the newest pod template"
				}
				if l.Settings != nil && l.Settings.Resize.Excludes(c.Name) {
					reason += ", and the policy excludes it"
				}
				i = len(found)
				found = append(found, InjectedContainer{
					Name: c.Name, Sidecar: podview.IsSidecar(pod, podview.ContainerOf(pod, c.Name)), Current: AmountsOf(c.Size), Of: len(l.Pods), Reason: reason,
				})
			}
			found[i].Pods++
		}
	}
	slices.SortFunc(found, func(a, b InjectedContainer) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// container explains one container with the stored holds and steps. addPods adds those of the next resize step.
func (l liveExplanation) container(stored *v1alpha1.ContainerTarget) (ExplainedContainer, error) {
	confidence, err := strconv.ParseFloat(stored.Confidence, 64)
	if err != nil {
		return ExplainedContainer{}, fmt.Errorf("container %s has the confidence %q, which is not a number: another version of the operator wrote it", stored.Name, stored.Confidence)
	}
	explained := ExplainedContainer{
		Name:       stored.Name,
		Confidence: confidence,
		DataPoints: int(stored.DataPoints),
		Current:    AmountsOf(l.template[stored.Name]),
		Target:     AmountsOf(podview.FromResources(stored.Target)),
		Holds:      append([]Hold{}, stored.Holds...),
		Steps:      append([]Step{}, stored.Steps...),
	}
	if l.Settings != nil && l.Settings.Strategy != v1alpha1.StrategyNode {
		l.addPods(&explained, stored)
	}
	return explained, nil
}

// addPods adds the next resize step of every pod that has the container. Without a pod and a template there is no next
// step. Settings must be known.
func (l liveExplanation) addPods(explained *ExplainedContainer, stored *v1alpha1.ContainerTarget) {
	var shown *podStep
	to := heading{
		move: recommender.Move{Container: stored.Name, Settings: *l.Settings.For(stored.Name), Largest: podview.LargestNode(l.Recommendation.Spec.LargestNode),
			CPULimitFloor:    podview.FromPointer(recommender.CPU, stored.CPULimitFloor),
			MemoryLimitFloor: podview.FromPointer(recommender.Memory, stored.MemoryLimitFloor),
			OOMFloor:         resize.OOMFloorOf(l.Recommendation.Status.Floors, stored.Name, l.now)},
		holds: stored.Holds,
	}
	next := func(live, original recommender.Size, facts resize.SpecFacts) *podStep { // the workload loop plans with the same functions
		target := resize.TargetFrom(*stored, live, l.Recommendation.Status.Floors, l.now)
		return &podStep{live: live, change: allowed(&facts, live, to.toward(target, live, original))}
	}
	// The template is shown if no pod runs. The first pod replaces it.
	var created []Hold
	if template, known := l.template[stored.Name]; known {
		facts := l.factsOfTemplate(stored.Name)
		to.move.Guaranteed = podview.CreatesGuaranteed(&l.Workload.Template.Spec, func(c *corev1.Container) recommender.Size { return podview.ReadSpec(c.Resources) })
		shown = next(template, template, facts)
		if policy.SizesNewPods(l.Recommendation.Spec.Mode, l.Settings.Admission) && l.NotSized == "" { // new pods get the whole target
			whole := resize.Merge(template, resize.Unheld(*stored))
			if !l.Settings.For(stored.Name).Of[recommender.Memory].AllowDecrease {
				whole[recommender.Memory] = podview.Greater(whole[recommender.Memory], template[recommender.Memory])
			}
			created = holdsOf(allowed(&facts, template, recommender.Change{Next: whole}).Holds)
		}
	}
	for i, pod := range l.Pods {
		has, ok := l.sizes[i][stored.Name]
		if !ok {
			continue
		}
		to.move.Guaranteed = podview.Guaranteed(pod)
		taken := next(has.Size, l.original(pod, stored.Name, has.Size), resize.FactsOf(pod, podview.ContainerOf(pod, stored.Name), l.now))
		if len(explained.Pods) == 0 || taken.moves() && !shown.moves() {
			shown = taken
		}
		explained.Pods = append(explained.Pods, ExplainedPod{
			Name:    pod.Name,
			Current: AmountsOf(has.Size),
			Next:    to.next(taken.change),
			Holds:   holdsOf(taken.change.Holds),
		})
	}
	if shown == nil {
		return
	}
	explained.Current, explained.Next = AmountsOf(shown.live), to.next(shown.change)
	explained.Holds = joinHolds(explained.Holds, holdsOf(shown.change.Holds))
	for _, hold := range created {
		if !slices.ContainsFunc(explained.Holds, func(h Hold) bool { return h.Resource == hold.Resource && h.Reason == hold.Reason }) {
			hold.Message = "new pods: " + hold.Message
			explained.Holds = joinHolds(explained.Holds, []Hold{hold})
		}
	}
	explained.Steps = joinSteps(explained.Steps, stepsOf(shown.change.Steps))
}

// factsOfTemplate returns the facts of a created pod and one of its containers.
func (l liveExplanation) factsOfTemplate(container string) resize.SpecFacts {
	template := l.Workload.Template
	c := podview.First(podview.ResizableIn(&template.Spec), func(c *corev1.Container) bool { return c.Name == container })
	facts := resize.FactsOfTemplate(template, c)
	if l.Workload.Queue != "" {
		facts.Queue = podview.Kueue
	}
	return facts
}

// allowed returns the part of a change that the rules for the pod's spec allow, with their reasons for the rest.
func allowed(facts *resize.SpecFacts, live recommender.Size, change recommender.Change) recommender.Change {
	for _, r := range recommender.Resources {
		left, refusal := resize.AllowedBySpec(facts, r, live[r], change.Next[r])
		if change.Next[r] = left; refusal != nil {
			change.Holds = append(slices.Clone(change.Holds), recommender.Hold{Resource: r, Reason: recommender.Reason(refusal.Reason), Message: refusal.Message})
		}
	}
	return change
}

// podStep is the size of a container and its next change.
type podStep struct {
	live   recommender.Size
	change recommender.Change
}

// moves returns whether the step changes anything.
func (s podStep) moves() bool { return s.change.Next != s.live }

// original returns the size that the container had before attune: the size recorded for the pod's template, or else the
// size in the current template, or else the live size.
func (l liveExplanation) original(pod *corev1.Pod, container string, live recommender.Size) recommender.Size {
	if size, noted := podview.OriginalsOf(l.Recommendation, podview.TemplateHash(pod))[container]; noted {
		return size
	}
	if template, known := l.template[container]; known {
		return template
	}
	return live
}

// heading is the destination of a container: the move without its sizes, and the holds on its resources.
type heading struct {
	move  recommender.Move
	holds []Hold
}

// toward returns the next resize step from the size live to a target.
func (h heading) toward(target, live, original recommender.Size) recommender.Change {
	h.move.Target, h.move.Live, h.move.Original = target, live, original
	return recommender.NextStep(h.move)
}

// next returns the size after the resize step. A resource without measurements has no next size.
func (h heading) next(change recommender.Change) Amounts {
	size := change.Next
	for _, r := range recommender.Resources {
		if h.unmeasured(r) {
			size[r] = recommender.Allocation{}
		}
	}
	return AmountsOf(size)
}

// unmeasured reports whether the resource has no data (hold NoData).
func (h heading) unmeasured(r recommender.Resource) bool {
	return slices.ContainsFunc(h.holds, func(hold Hold) bool {
		return hold.Resource == r.String() && hold.Reason == string(recommender.NoData)
	})
}

// newPods says why new pods keep the resources of their template although the mode sizes them; empty: nothing prevents it,
// or it is not known.
func newPods(v *View) string {
	why := v.NotSized
	if v.Settings != nil {
		why = cmp.Or(v.Settings.NotSized(), why)
	} else if v.Recommendation.Spec.SeedBlocked == v1alpha1.ReasonAdmissionDisabled {
		why = policy.AdmissionDisabled
	}
	if why == "" {
		return ""
	}
	return "New pods keep the resources of their template: " + why + "."
}

// NextResize says when the next resize of a running pod may start, or what it waits for; empty: none is planned.
func NextResize(rec *v1alpha1.AttuneRecommendation) string {
	switch next := rec.Status.NextResize; {
	case next == nil:
		return ""
	case next.At != nil:
		return fmt.Sprintf("Next resize: not before %s (%s).", next.At.UTC().Format(time.RFC3339), next.Reason)
	default:
		return fmt.Sprintf("Next resize: no time is known (%s).", next.Reason)
	}
}

// withdrawal says why admission sets no resources on the new pods of a workload; empty: it sets them.
func withdrawal(w *v1alpha1.AdmissionWithdrawn, now time.Time) string {
	if !withdraw.Stands(w, now) {
		return ""
	}
	return fmt.Sprintf("New pods are created without admission resources until %s, %s: %s", w.Until.UTC().Format(time.RFC3339), w.Reason, w.Message)
}
