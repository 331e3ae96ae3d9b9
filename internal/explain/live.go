package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/display"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/savings"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning"
)

// Live holds what a workload of the cluster is explained from. Only Recommendation and Now are needed.
type Live struct {
	// Recommendation as stored by the operator.
	Recommendation *v1alpha1.AttuneRecommendation
	// Settings of the policy; nil: they are not known, and there is no next step.
	Settings *recommender.Settings
	// Fields are the settings with the level that set each; nil: they are not known.
	Fields []policy.Field
	// Template holds the sizes of the pod template by container; nil: it is not known.
	Template map[string]recommender.Size
	// Unreadable is why there is no pod template to read; empty: there is one, or it is not known.
	Unreadable string
	// Pods are the running pods; nil: none are shown.
	Pods []LivePod
	// Now is the time of the next step. Floors that were learned from harm decay until then.
	Now time.Time
}

// LivePod is a running pod and the sizes of its containers.
type LivePod struct {
	// Name of the pod.
	Name string
	// TemplateHash is that of the pod's template. The originals are stored by it.
	TemplateHash string
	// Containers are those of the pod, with the sizes that they have at present.
	Containers []podview.Container
}

// Of returns the Live of what savings are computed from, too. Under the strategy Node there is no next step: a pod's next size
// depends on its node and on the other pods there.
func Of(v savings.View, now time.Time) Live {
	live := Live{
		Recommendation: v.Recommendation, Template: podview.TemplateSizes(v.Workload.Template), Unreadable: v.Workload.Unreadable,
		Pods: LivePods(v.Pods), Now: now,
	}
	if v.Settings != nil && v.Settings.Strategy != v1alpha1.StrategyNode {
		live.Settings = &v.Settings.Recommender
	}
	return live
}

// LivePods are the pods that run and are not being deleted, sorted by name.
func LivePods(pods []*corev1.Pod) []LivePod {
	var live []LivePod
	for _, pod := range pods {
		if podview.Running(pod) {
			live = append(live, LivePod{Name: pod.Name, TemplateHash: podview.TemplateHash(pod), Containers: podview.Read(pod)})
		}
	}
	slices.SortFunc(live, func(a, b LivePod) int { return cmp.Compare(a.Name, b.Name) })
	return live
}

// Explain explains the workload. A container's own Current and Next are those of the first pod that would change,
// else of the first pod, else of the template. An error means that the recommendation cannot be read, such as one
// of another version.
func (l Live) Explain() (Explanation, error) {
	rec := l.Recommendation
	answer := Explanation{
		Workload: &Workload{
			Namespace: rec.Namespace,
			Kind:      string(rec.Spec.Workload.Kind),
			Name:      rec.Spec.Workload.Name,
			Policy:    policy.NameOf(rec.Spec.Policy),
			Mode:      string(rec.Spec.Mode),

			Unreadable: l.Unreadable,
		},
		Containers: []Container{},
		Settings:   SettingsOf(l.Fields, rec),
	}
	// Containers keep the order of the recommendation; callers rely on it.
	for i := range rec.Spec.Containers {
		container, err := l.container(&rec.Spec.Containers[i])
		if err != nil {
			return Explanation{}, fmt.Errorf("AttuneRecommendation %s/%s: %w", rec.Namespace, rec.Name, err)
		}
		answer.Containers = append(answer.Containers, container)
	}
	return answer, nil
}

// container explains one container. The stored holds and steps are those of the recommendation; addPods adds those
// of the next step.
// Without Settings it has no next step.
func (l Live) container(stored *v1alpha1.ContainerTarget) (Container, error) {
	confidence, err := strconv.ParseFloat(stored.Confidence, 64)
	if err != nil {
		return Container{}, fmt.Errorf("container %s has the confidence %q, which is no number: the operator of another version wrote it", stored.Name, stored.Confidence)
	}
	template := display.AmountsOf(l.Template[stored.Name])
	explained := Container{
		Name:       stored.Name,
		Confidence: confidence,
		DataPoints: int(stored.DataPoints),
		Current:    template,
		Target:     display.AmountsOf(podview.FromResources(stored.Target)),
		Holds:      append([]Hold{}, stored.Holds...),
		Steps:      append([]Step{}, stored.Steps...),
	}
	if l.Settings == nil {
		return explained, nil
	}
	l.addPods(&explained, stored)
	return explained, nil
}

// heading returns where the stored recommendation leads. Settings must be known.
func (l Live) heading(stored *v1alpha1.ContainerTarget) heading {
	to := heading{
		move:  recommender.Move{Container: stored.Name, Settings: *l.Settings, Largest: podview.LargestNode(l.Recommendation.Spec.LargestNode)},
		holds: stored.Holds,
	}
	if stored.MemoryLimitFloor != nil {
		to.move.MemoryLimitFloor = podview.AmountOf(recommender.Memory, *stored.MemoryLimitFloor)
	}
	return to
}

// addPods adds the next step of every pod that has the container. Where there is neither a pod nor a template to
// start from, there is no next step.
func (l Live) addPods(explained *Container, stored *v1alpha1.ContainerTarget) {
	var shown *step
	to := l.heading(stored)
	next := func(live, original recommender.Size) *step { // by the function that the workload loop plans with
		target := tuning.TargetFrom(*stored, live, l.Recommendation.Status.Floors, l.Now)
		return &step{live: live, change: to.toward(target, live, original)}
	}
	// The template is shown where no pod runs. The first pod replaces it.
	if template, known := l.Template[stored.Name]; known {
		shown = next(template, template)
	}
	for _, pod := range l.Pods {
		has, ok := podview.ByName(pod.Containers)[stored.Name]
		if !ok {
			continue
		}
		taken := next(has.Size, l.original(pod, stored.Name, has.Size))
		if len(explained.Pods) == 0 || taken.moves() && !shown.moves() {
			shown = taken
		}
		explained.Pods = append(explained.Pods, Pod{
			Name:    pod.Name,
			Current: display.AmountsOf(has.Size),
			Next:    to.next(taken.change),
			Holds:   holdsOf(taken.change.Holds),
		})
	}
	if shown == nil {
		return
	}
	explained.Current, explained.Next = display.AmountsOf(shown.live), to.next(shown.change)
	explained.Holds = joinHolds(explained.Holds, holdsOf(shown.change.Holds))
	explained.Steps = joinSteps(explained.Steps, stepsOf(shown.change.Steps))
}

// step is the size of a container and the change that it would get.
type step struct {
	live   recommender.Size
	change recommender.Change
}

// moves returns whether the step changes anything.
func (s step) moves() bool { return s.change.Next != s.live }

// original returns the size that the container had before attune: what the operator recorded for the pod's
// template, else the size in the template, else the present one.
func (l Live) original(pod LivePod, container string, live recommender.Size) recommender.Size {
	if size, noted := podview.OriginalsOf(l.Recommendation, pod.TemplateHash)[container]; noted {
		return size
	}
	if template, known := l.Template[container]; known {
		return template
	}
	return live
}

// heading is where a container goes: the move without its sizes, and the holds on its resources.
type heading struct {
	move  recommender.Move
	holds []Hold
}

// toward returns the next step from the size live to a target.
func (h heading) toward(target, live, original recommender.Size) recommender.Change {
	h.move.Target, h.move.Live, h.move.Original = target, live, original
	return recommender.NextStep(h.move)
}

// next returns the size after the step. A resource that was never measured has no next size, because nothing is
// known of it.
func (h heading) next(change recommender.Change) Amounts {
	size := change.Next
	for _, r := range recommender.Resources {
		if h.unmeasured(r) {
			size[r] = recommender.Allocation{}
		}
	}
	return display.AmountsOf(size)
}

// unmeasured returns whether the resource has no data (hold NoData).
func (h heading) unmeasured(r recommender.Resource) bool {
	return slices.ContainsFunc(h.holds, func(hold Hold) bool {
		return hold.Resource == r.String() && hold.Reason == string(recommender.NoData)
	})
}
