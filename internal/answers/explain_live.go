package answers

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
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
			NextResize: NextResize(rec), Blocked: blocksOf(rec),
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
	answer.NotSized, answer.Workload.InitContainers = l.injected(), l.initContainers()
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

// mostInitContainers limits the sentences about init containers.
const mostInitContainers = 8

// initContainers says which init containers that end keep more of the node reserved than the containers would with their
// targets, and which have an entry of containerPolicies without effect. The scheduler counts the larger amount as long as
// the pod lives.
func (l liveExplanation) initContainers() (sentences []string) {
	if l.Workload.Template == nil {
		return nil
	}
	spec := &l.Workload.Template.Spec
	runs := l.withTargets(spec)
	for _, c := range podview.EndingIn(spec) {
		var more []string
		for _, r := range recommender.Resources {
			if request := podview.ReadSpec(c.Resources)[r].Request; request > runs[r] {
				more = append(more, fmt.Sprintf("%s of %s (the containers with their targets: %s)", recommender.Format(r, request), r, recommender.Format(r, runs[r])))
			}
		}
		named := l.Settings != nil && l.Settings.Containers[c.Name] != nil && !l.Settings.Resize.Excludes(c.Name)
		if len(sentences) == mostInitContainers || more == nil && !named {
			continue
		}
		sentence := fmt.Sprintf("Init container %s ends before the other containers start, so attune does not size it.", c.Name)
		if more != nil {
			sentence += fmt.Sprintf(" Nodes reserve its request as long as the pod runs: %s. Lower it in the pod template.", strings.Join(more, ", "))
		}
		if named {
			sentence += " Its entry in containerPolicies has no effect."
		}
		sentences = append(sentences, sentence)
	}
	return sentences
}

// withTargets returns the requests of the containers of a pod that run as long as it, with their targets, in millicores
// and bytes.
func (l liveExplanation) withTargets(spec *corev1.PodSpec) (sum [2]recommender.Amount) {
	for _, c := range podview.ResizableIn(spec) {
		size := podview.ReadSpec(c.Resources)
		for i := range l.Recommendation.Spec.Containers {
			if stored := &l.Recommendation.Spec.Containers[i]; stored.Name == c.Name {
				size = resize.Merge(size, resize.Unheld(*stored))
			}
		}
		for _, r := range recommender.Resources {
			sum[r] += size[r].Request
		}
	}
	return sum
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
		Granted:    GrantedTo(stored),
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
			created = append(holdsOf(allowed(&facts, template, recommender.Change{Next: whole}).Holds), l.limitKept(stored, template, to.move)...)
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

// HasLimitRule reports whether cpu.limits of a container differs from Keep. LimitRanges and Quotas are needed only then.
func (v View) HasLimitRule() bool {
	return v.Settings != nil && slices.ContainsFunc(v.Recommendation.Spec.Containers, func(c v1alpha1.ContainerTarget) bool {
		return v.Settings.For(c.Name).Of[recommender.CPU].Limits != (recommender.LimitRule{})
	})
}

// limitKept returns why new pods keep a CPU limit that cpu.limits removes, or get a lower one than its rule: the webhook
// decides so for the same reasons.
func (l liveExplanation) limitKept(stored *v1alpha1.ContainerTarget, template recommender.Size, move recommender.Move) []Hold {
	rule, was, target := move.Settings.Of[recommender.CPU].Limits, template[recommender.CPU], podview.FromResources(stored.Target)[recommender.CPU]
	if was.Limit == 0 || target.Request == 0 || slices.ContainsFunc(stored.Holds, func(h Hold) bool { return h.Resource == recommender.CPU.String() }) {
		return nil
	}
	bounds := constraint.BoundsOf(podview.Pointers(l.LimitRanges))
	why := ""
	switch limit := rule.Limit(was, was.Limit, target.Request, move.CPULimitFloor); {
	case rule.Remove && move.Guaranteed:
		why = "the CPU limit stays: " + constraint.GuaranteedNeedsLimit
	case rule.Remove:
		if needed := cmp.Or(constraint.CPULimitNeeded(&bounds, podview.Map(podview.Pointers(l.Quotas), constraint.QuotaLeftOf)), l.sandbox()); needed != "" {
			why = "the CPU limit stays: " + needed
		}
	case rule.Sets() && !move.Guaranteed:
		fitted := bounds.Container[recommender.CPU].Clamp(recommender.CPU, recommender.Allocation{Request: target.Request, Limit: limit}, was).Limit
		if fitted < limit {
			why = fmt.Sprintf("cpu.limits asks for a limit of %s, and a LimitRange of the namespace allows %s. Raise its max of CPU", recommender.Format(recommender.CPU, limit), recommender.Format(recommender.CPU, fitted))
		}
	}
	if why == "" {
		return nil
	}
	return []Hold{{Resource: recommender.CPU.String(), Reason: constraint.LimitNeeded, Message: why}}
}

// sandbox returns why a pod of a runtime class with an overhead keeps CPU limits; empty: the pod template sets none.
// Kubernetes adds the overhead of the class at admission, so the running pods have it.
func (l liveExplanation) sandbox() string {
	overhead := func(p *corev1.PodSpec) bool { return !p.Overhead.Memory().IsZero() }
	if overhead(&l.Workload.Template.Spec) || slices.ContainsFunc(l.Pods, func(p *corev1.Pod) bool { return overhead(&p.Spec) }) {
		return constraint.SandboxNeedsLimit
	}
	return ""
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

// blocksOf returns what blocks the resizes of the whole workload. ModeMeans says what a mode blocks, and NewPods what
// blocks the size of new pods.
func blocksOf(rec *v1alpha1.AttuneRecommendation) []Blocked {
	return slices.DeleteFunc(BlockedOfWorkload(rec), func(b Blocked) bool {
		return b.Container != "" || b.Reason == SeedBlocked || b.Reason == resize.ReasonMode
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

// NextResize says when the next resize of a running pod may start, or what it waits for; empty: none is planned. The
// message of the condition ResizeBlocked says what lifts its reasons.
func NextResize(rec *v1alpha1.AttuneRecommendation) string {
	next := rec.Status.NextResize
	if next == nil {
		return ""
	}
	sentence := fmt.Sprintf("Next resize: no time is known (%s).", next.Reason)
	if next.At != nil {
		sentence = fmt.Sprintf("Next resize: not before %s (%s).", next.At.UTC().Format(time.RFC3339), next.Reason)
	}
	switch next.Reason {
	case v1alpha1.ReasonObservation:
		sentence += " attune observes the last resize until then, and reverts it after a regression."
	case v1alpha1.ReasonInProgress:
		sentence += " It follows after the resize in progress is accepted and observed."
	}
	return sentence
}

// DueIn returns the time until then for a table: "now", also for a time in the past, or "in 12m", rounded up. Empty: no
// time is known. It has at most 9 characters.
func DueIn(at *metav1.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	const day = 24 * time.Hour
	up := func(unit time.Duration) int64 { return int64((at.Sub(now) + unit - 1) / unit) }
	switch left := at.Sub(now); {
	case left <= 0:
		return "now"
	case left <= 2*time.Hour:
		return fmt.Sprintf("in %dm", up(time.Minute))
	case left <= 3*day:
		return fmt.Sprintf("in %dh", up(time.Hour))
	case left <= 99999*day:
		return fmt.Sprintf("in %dd", up(day))
	}
	return "in years"
}

// withdrawal says why admission sets no resources on the new pods of a workload; empty: it sets them.
func withdrawal(w *v1alpha1.AdmissionWithdrawn, now time.Time) string {
	if !withdraw.Stands(w, now) {
		return ""
	}
	return fmt.Sprintf("New pods are created without admission resources until %s, %s: %s", w.Until.UTC().Format(time.RFC3339), w.Reason, w.Message)
}
