package answers

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Reasons why a resource is not counted, in addition to the reasons of holds.
const (
	// ReasonSkipped: a user skips the workload or pod.
	ReasonSkipped = "Skipped"
	// ReasonUnknown: a compared value cannot be read or is not set.
	ReasonUnknown = "Unknown"
	// ReasonOnItsNode: under strategy Node the node loop decides the next size of a pod.
	ReasonOnItsNode = "OnItsNode"
)

// View is the input of all answers about one workload. It is only read.
type View struct {
	// Recommendation of the workload.
	Recommendation *v1alpha1.AttuneRecommendation
	// Workload is the zero value if it does not exist or cannot be read.
	Workload workload.Workload
	// Settings of its policy; nil if they are not known.
	Settings *policy.Settings
	// NotSized is why the webhook does not size new pods of the namespace although the settings do, as a clause; empty: it
	// does, or it is not known.
	NotSized string
	// LimitRanges and Quotas of the namespace; nil: there are none, or they are not known.
	LimitRanges []corev1.LimitRange
	Quotas      []corev1.ResourceQuota
	// Pods are the running pods of the workload; nil if they cannot be read.
	Pods []*corev1.Pod
}

// SavingsFigures are the savings of a workload.
type SavingsFigures struct {
	// Saved is the original requests of the running pods minus their current requests.
	Saved SavedAmounts
	// Available is what the pods would request less with the targets applied. It includes replicas that do not run yet.
	Available SavedAmounts
	// NotCounted is what neither figure includes, and why; without duplicates.
	NotCounted []NotCounted
	// HPA are the parts of requests on which HorizontalPodAutoscalers scale, by proof.
	HPA []HPAFigures
}

// HPAFigures are the figures of requests on which HorizontalPodAutoscalers scale, with one proof.
type HPAFigures struct {
	// Proof is as in Granted, or autoscale.ProofNone for blocked requests.
	Proof string
	// Saved and Available are parts of the figures of the workload.
	Saved, Available SavedAmounts
	// Blocked is what the targets of blocked requests would save; no other figure includes it.
	Blocked SavedAmounts
}

// hpa returns the figures of a request on which an HPA scales; nil: none does.
func (f *SavingsFigures) hpa(t *v1alpha1.ContainerTarget, r recommender.Resource) *HPAFigures {
	proof, _ := autoscale.Granted(t, r)
	if proof == "" {
		return nil
	}
	i := slices.IndexFunc(f.HPA, func(h HPAFigures) bool { return h.Proof == proof })
	if i < 0 {
		i = len(f.HPA)
		f.HPA = append(f.HPA, HPAFigures{Proof: proof})
	}
	return &f.HPA[i]
}

// NotCounted is a resource of a container that is left out. Container and Resource are empty if the whole workload is
// left out.
type NotCounted struct {
	Container string `json:"container"`
	Resource  string `json:"resource"`
	// Reason is a CamelCase word, Message a sentence.
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Compute returns the figures. For a pod that attune sized, Saved and Available add up to its original minus the
// target.
func (v View) Compute() SavingsFigures {
	x := &counter{View: v, template: podview.TemplateSizes(v.Workload.Template)}
	if why := v.workloadNotCounted(); why != nil {
		return SavingsFigures{NotCounted: []NotCounted{*why}}
	}
	x.pods()
	x.replicas()
	return x.out
}

// Saved returns Compute().Saved for less work: the metrics need it for every reconcile of a workload.
func (v View) Saved() SavedAmounts {
	x := &counter{View: v, template: podview.TemplateSizes(v.Workload.Template)}
	if v.workloadNotCounted() == nil {
		x.pods()
	}
	return x.out.Saved
}

// OfPod returns the figures of one of the pods.
func (v View) OfPod(pod *corev1.Pod) SavingsFigures {
	v.Pods, v.Workload.Replicas = []*corev1.Pod{pod}, 0
	return v.Compute()
}

// workloadNotCounted returns why the whole workload is not counted; nil if it is counted.
func (v View) workloadNotCounted() *NotCounted {
	switch where, skipped := v.Workload.Skipped(); {
	case v.Workload.Template == nil:
		return &NotCounted{Reason: ReasonUnknown, Message: "the workload does not exist, or cannot be read"}
	case skipped:
		return &NotCounted{Reason: ReasonSkipped, Message: where + " is skipped"}
	}
	return nil
}

// counter adds up the figures of one workload.
type counter struct {
	View
	// template has the sizes in the pod template, by container.
	template map[string]recommender.Size
	out      SavingsFigures
}

// recordNotCounted records what is not counted, without duplicates.
func (x *counter) recordNotCounted(what NotCounted) {
	same := func(n NotCounted) bool {
		return n.Container == what.Container && n.Resource == what.Resource && n.Reason == what.Reason
	}
	if !slices.ContainsFunc(x.out.NotCounted, same) {
		x.out.NotCounted = append(x.out.NotCounted, what)
	}
}

// pods counts the saved amounts.
func (x *counter) pods() {
	for _, pod := range x.Pods {
		if skips(pod) {
			x.recordNotCounted(NotCounted{Reason: ReasonSkipped, Message: "pod " + pod.Name + " and possibly other pods are skipped"})
			continue
		}
		if untouched(pod) {
			continue
		}
		has, original := podview.ByName(podview.Read(pod)), x.original(pod)
		for i := range x.Recommendation.Spec.Containers {
			t := &x.Recommendation.Spec.Containers[i]
			x.saved(t, original[t.Name], has[t.Name].Size)
		}
	}
}

// skips reports whether a pod opts out.
func skips(pod *corev1.Pod) bool { return pod.Annotations[v1alpha1.SkipAnnotation] == "true" }

// untouched reports whether attune never changed the size of a pod. Such a pod saves nothing, even if the template
// changed later: a pod without a template hash, such as one of a standalone ReplicaSet, may have an older template.
func untouched(pod *corev1.Pod) bool {
	return pod.Generation == 1 && pod.Annotations[v1alpha1.SeededAnnotation] == ""
}

// saved counts one container of a running pod. It leaves out resources that a VPA sizes.
func (x *counter) saved(t *v1alpha1.ContainerTarget, original, has recommender.Size) {
	for _, r := range recommender.Resources {
		byVPA := slices.ContainsFunc(t.Holds, func(h v1alpha1.Hold) bool { return h.Resource == r.String() && h.Reason == resize.ReasonVPA })
		if saved, known := SavedOf(original[r].Request, has[r].Request, 1); known && !byVPA {
			x.out.Saved[r] = AddSaved(x.out.Saved[r], saved)
			if of := x.out.hpa(t, r); of != nil {
				of.Saved[r] = AddSaved(of.Saved[r], saved)
			}
		}
	}
}

// original returns the sizes that the containers had before attune: the recorded ones for the pod's template, or else
// the template of the workload. During a rollout the pod may have another template, so the result is nil.
func (x *counter) original(pod *corev1.Pod) map[string]recommender.Size {
	if sizes := podview.OriginalsOf(x.Recommendation, podview.TemplateHash(pod)); sizes != nil {
		return sizes
	}
	if x.Workload.Rollout.InProgress {
		return nil
	}
	return x.template
}

// replicas counts the available savings, unless the whole workload is blocked.
func (x *counter) replicas() {
	if why := WorkloadNotCounted(x.Recommendation, x.Workload, x.Settings); why != nil {
		x.recordNotCounted(*why)
		return
	}
	containers := x.Recommendation.Spec.Containers
	for _, pod := range x.Pods {
		if skips(pod) {
			continue
		}
		has := podview.ByName(podview.Read(pod)) // once for all containers
		for i := range containers {
			x.available(&containers[i], has[containers[i].Name].Size, 1)
		}
	}
	if missing := x.missing(); missing > 0 || len(x.Pods) == 0 {
		for i := range containers {
			x.available(&containers[i], x.template[containers[i].Name], missing)
		}
	}
	place := func(n NotCounted) int {
		return slices.IndexFunc(containers, func(t v1alpha1.ContainerTarget) bool { return t.Name == n.Container })
	}
	slices.SortStableFunc(x.out.NotCounted, func(a, b NotCounted) int { return cmp.Compare(place(a), place(b)) })
}

// WorkloadNotCounted returns why no target of the workload is applied; nil if targets are applied. The status of
// policies uses the same rule. It does not cover skipped workloads: see workload.Workload.Skipped.
func WorkloadNotCounted(rec *v1alpha1.AttuneRecommendation, w workload.Workload, settings *policy.Settings) *NotCounted {
	switch {
	case settings == nil:
		return &NotCounted{Reason: ReasonUnknown, Message: fmt.Sprintf("the settings of policy %s are not known", policy.NameOf(rec.Spec.Policy))}
	case rec.Spec.Strategy == v1alpha1.StrategyNode:
		return &NotCounted{Reason: ReasonOnItsNode, Message: "the resources of pods are decided on their node: run kubectl attune node NAME"}
	case rec.Status.Paused != nil:
		return &NotCounted{Reason: v1alpha1.ReasonPaused, Message: rec.Status.Paused.Reason}
	case rec.Status.Phase == v1alpha1.PhasePaused || w.Stopped() || len(settings.Resize.Paused) > 0:
		return &NotCounted{Reason: v1alpha1.ReasonPaused, Message: "the workload, its policy or the defaults are paused, or an undo was requested"}
	}
	return nil
}

// StandingReplicas is the number of replicas that hold requests all the time. It is 0 for Jobs and CronJobs: between
// runs they reserve nothing.
func StandingReplicas(w workload.Workload) int32 {
	if workload.Batch(w.Kind) {
		return 0
	}
	return w.Replicas
}

// missing is the number of replicas that do not run.
func (x *counter) missing() int32 {
	return max(0, StandingReplicas(x.Workload)-int32(min(len(x.Pods), 1<<20)))
}

// available counts one container of that many replicas and records why resources are blocked.
func (x *counter) available(t *v1alpha1.ContainerTarget, has recommender.Size, replicas int32) {
	saved := SavedByTarget(t, x.Settings.For(t.Name), has, replicas)
	x.out.Available = x.out.Available.Plus(saved)
	target := podview.FromResources(t.Target)
	for _, r := range recommender.Resources {
		from, to := has[r].Request, target[r].Request
		if of := x.out.hpa(t, r); of != nil && of.Proof == autoscale.ProofNone {
			blocked, _ := SavedOf(from, to, replicas)
			of.Blocked[r] = AddSaved(of.Blocked[r], blocked)
		} else if of != nil {
			of.Available[r] = AddSaved(of.Available[r], saved[r])
		}
		switch reason, message := blockedBy(t.Holds, x.Settings.For(t.Name), r, from, to); {
		case reason != "":
			x.recordNotCounted(NotCounted{Container: t.Name, Resource: r.String(), Reason: reason, Message: message})
		case from == 0 && to > 0:
			x.recordNotCounted(NotCounted{Container: t.Name, Resource: r.String(), Reason: ReasonUnknown, Message: "the container has no request to compare with"})
		}
	}
}
