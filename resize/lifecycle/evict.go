package lifecycle

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Eviction holds the facts that MayEvict needs besides the pod, which it does not change. The caller sets them for one
// decision.
type Eviction struct {
	// Now is the time of the decision.
	Now time.Time
	// Allowed is true if attune may evict pods at all (the chart's node.eviction.enabled).
	Allowed bool
	// Paused has the levels of settings that paused the policy; empty: not paused.
	Paused []string
	// Annotations are the annotations of the workload and of its template; any of them may forbid the eviction.
	Annotations []map[string]string
	// Siblings are the workload's other pods, including finished ones.
	Siblings []*corev1.Pod
	// Replicas is the number of pods that the workload wants.
	Replicas int
	// Records are the open records of the workload.
	Records []v1alpha1.ResizeRecord
	// Rollout is one sentence about the rollout's progress; empty: no rollout is in progress.
	Rollout string
	// NamespaceTerminating is true while the pod's namespace is being deleted.
	NamespaceTerminating bool

	// Wanted is the plan that the pod's node refuses. nil: the eviction has another reason, and the size of the
	// successor does not matter.
	Wanted *resize.Plan
	// NotSized is why admission does not size new pods of the namespace; empty: it sizes them.
	NotSized string
	// Seed is the size that admission sets on the successor; nil: there is no seed.
	Seed *v1alpha1.Seed
	// Tries of the workload.
	Tries []v1alpha1.Try
	// Nodes of the cluster. Without them the rule noOtherNode is skipped.
	Nodes []*corev1.Node
}

// MayEvict is the only rule for evictions. It returns nil, or why the pod is not evicted. It does not check
// PodDisruptionBudgets: the API server does, atomically with the eviction. Transient refusals lift without a user's
// action.
func MayEvict(pod *corev1.Pod, e Eviction) *resize.Refusal {
	if refusal := standing(pod, e); refusal != nil {
		return refusal
	}
	return cmp.Or(resize.NamespaceGoing(pod, e.NamespaceTerminating), resize.RollingOut(e.Rollout), siblingsUnwell(pod, e))
}

// Stays returns why a pod is not evicted until a setting or a spec is changed, or nil. It does not check other pods.
func Stays(pod *corev1.Pod, e Eviction) *resize.Refusal {
	if refusal := standing(pod, e); refusal != nil && !refusal.Transient {
		return refusal
	}
	return nil
}

// standing returns why a pod is not evicted, independent of the state of other pods, or nil. A transient refusal lifts
// with time. The first rule that refuses gives the reason. MayEvict checks these rules before those that always lift
// with time, so that it reports the reason that a user can act on.
func standing(pod *corev1.Pod, e Eviction) *resize.Refusal {
	if !e.Allowed {
		return resize.Refuse(resize.ReasonEvictionOff, "the operator may not evict pods. Set the chart's value node.eviction.enabled: true to allow it")
	}
	if refusal := cmp.Or(notEvictable(pod), doNotDisrupt(pod, e.Annotations)); refusal != nil {
		return refusal
	}
	if len(e.Paused) > 0 {
		return resize.Refuse(resize.ReasonPaused, "paused by the %s settings", strings.Join(e.Paused, " and "))
	}
	if refusal := cmp.Or(successorNotSized(pod, e), lastSuccessorNotSized(e), noOtherNode(pod, e)); refusal != nil {
		return refusal
	}
	if e.Replicas <= 1 { // the workload would have no pod until the successor is ready
		return resize.Refuse(resize.ReasonLastReplica, "the workload has %d replicas, so no pod would be left", e.Replicas)
	}
	return nil
}

// Tied returns why a tool that respects a pod's annotations does not move the pod to another node, or nil.
func Tied(pod *corev1.Pod) *resize.Refusal {
	return cmp.Or(notEvictable(pod), doNotDisrupt(pod, nil))
}

// notEvictable refuses pods that no controller would replace on another node, or whose work would be lost.
func notEvictable(pod *corev1.Pod) *resize.Refusal {
	if refusal := resize.Untouchable(pod); refusal != nil {
		return refusal
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return resize.Refuse(resize.ReasonNoController, "the pod has no controller that would replace it")
	}
	// The group does not matter: other API groups have kinds with these names, and these create pods in the same way.
	switch v1alpha1.WorkloadKind(owner.Kind) {
	case v1alpha1.KindDaemonSet:
		return resize.Refuse(resize.ReasonDaemonPod, "the DaemonSet would create the new pod on the same node")
	case v1alpha1.KindJob:
		return resize.Refuse(resize.ReasonBatchPod, "the work of the Job's pod would be lost")
	}
	return nil
}

// doNotDisrupt respects annotations on the pod, its workload and its template that forbid moving pods. It also refuses
// if attune's caches keep only a part of an object: an annotation could be in the missing part.
func doNotDisrupt(pod *corev1.Pod, of []map[string]string) *resize.Refusal {
	for _, annotations := range append([]map[string]string{pod.Annotations}, of...) {
		if name := keeping(annotations); name != "" {
			return resize.Refuse(resize.ReasonDoNotDisrupt, "the annotation %s=%s prevents an eviction", name, annotations[name])
		}
		if workload.Large(annotations) {
			return resize.Refuse(resize.ReasonTooLarge, "the pod or its workload %s", workload.WhatIsTooLarge)
		}
	}
	return nil
}

// keeping returns the name of the annotation that forbids moving a pod, or "". For annotations that forbid disruption,
// any value other than "false" counts.
func keeping(annotations map[string]string) string {
	for _, name := range []string{workload.KarpenterDoNotDisrupt, workload.KarpenterDoNotEvict, workload.DeschedulerPrefersNot, v1alpha1.UndoAnnotation} {
		if value, set := annotations[name]; set && value != "false" {
			return name
		}
	}
	for _, a := range []struct{ name, value string }{{workload.AutoscalerSafe, "false"}, {v1alpha1.SkipAnnotation, "true"}, {v1alpha1.PausedAnnotation, "true"}} {
		if annotations[a.name] == a.value {
			return a.name
		}
	}
	return ""
}

// successorNotSized refuses while the successor would be created without the wanted size: it would not fit either, and
// each eviction would lead to the next.
func successorNotSized(pod *corev1.Pod, e Eviction) *resize.Refusal {
	switch {
	case e.Wanted == nil:
		return nil
	case e.NotSized != "":
		return resize.Refuse(resize.ReasonSuccessorNotSized, "the new pod would get its template's resources: %s", e.NotSized)
	case e.Seed == nil || !e.Now.Before(e.Seed.ValidUntil.Time):
		return resize.RefuseForNow(resize.ReasonSuccessorNotSized, "the new pod would get its template's resources: the recommendation has no valid seed now")
	}
	largest, needs := podview.FromResources(e.Seed.LargestPod), e.Wanted.Needs(pod)
	for _, m := range e.Wanted.Moves {
		for _, r := range recommender.Resources {
			if most := largest[r].Request; most > 0 && needs[r] > most && m.To[r].Request > m.From[r].Request {
				return resize.RefuseForNow(resize.ReasonSuccessorNotSized, "the new pod would get its template's resources: with the target it would request %s of %s, but the largest node on which it may run has %s",
					recommender.Format(r, needs[r]), r, recommender.Format(r, most))
			}
			given := podview.SeedRequests(e.Seed, m.Container)[r].Request
			if m.To[r].Request > m.From[r].Request && given < m.To[r].Request {
				return resize.RefuseForNow(resize.ReasonSuccessorNotSized, "container %s of the new pod would get %s of %s, but needs %s; new pods get more after a running pod has verified it",
					m.Container, recommender.Format(r, given), r, recommender.Format(r, m.To[r].Request))
			}
		}
	}
	return nil
}

// lastSuccessorNotSized refuses while the pod that was created after the last eviction shows that the webhook does not
// size the workload's pods (JudgeSuccessor).
func lastSuccessorNotSized(e Eviction) *resize.Refusal {
	row := unsizedSuccessor(e.Tries, e.Now)
	if e.Wanted == nil || row == nil {
		return nil
	}
	refusal := resize.Refuse(resize.ReasonLastSuccessor, "pod %s, created after the last eviction, was not sized at admission; check the webhook with kubectl attune doctor, other webhooks that change pods, and the quotas and LimitRanges of the namespace; "+
		"attune evicts again once a new pod of the workload is sized at admission, or after %s", row.Pod, row.Until.UTC().Format(time.RFC3339))
	refusal.Until = row.Until.Time
	return refusal
}

// noOtherNode refuses if no other node could ever hold the successor, which would then be pending for ever. The
// scheduler and the cluster autoscaler decide whether another node has room now.
func noOtherNode(pod *corev1.Pod, e Eviction) *resize.Refusal {
	if e.Nodes == nil || e.Wanted == nil {
		return nil
	}
	needs, accepts := e.Wanted.Needs(pod), Accepting(pod)
	for _, node := range e.Nodes {
		if node.Name != pod.Spec.NodeName && resize.NodeReady(node) && Holds(node, needs) && accepts(node) {
			return nil
		}
	}
	return resize.Refuse(resize.ReasonNoOtherNode, "no other node on which the pod may run has %s of CPU and %s of memory in total",
		recommender.Format(recommender.CPU, needs[recommender.CPU]), recommender.Format(recommender.Memory, needs[recommender.Memory]))
}

// Takes reports whether a node is ready, accepts the pod (Accepting), and could hold it if it were empty.
func Takes(node *corev1.Node, pod *corev1.Pod, needs [2]recommender.Amount) bool {
	return resize.NodeReady(node) && Holds(node, needs) && Accepting(pod)(node)
}

// unschedulable is the taint that a pod must tolerate to run on a cordoned node (plugin NodeUnschedulable of the
// scheduler).
var unschedulable = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// Holds reports whether a node could hold a pod of that size if it were empty.
func Holds(node *corev1.Node, needs [2]recommender.Amount) bool {
	return podview.Within(needs, resize.CapabilitiesOf(node, "").Allocatable)
}

// Accepting returns a function that reports whether the scheduler accepts a node for a pod by taints and required
// affinity. Pods of DaemonSets tolerate nodes that are cordoned or not ready. Parsing the affinity takes much longer than
// matching it, so use one function for many nodes.
func Accepting(pod *corev1.Pod) func(node *corev1.Node) bool {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	toleratesCordoned := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		return t.ToleratesTaint(logr.Discard(), &unschedulable, true)
	})
	holds := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	return func(node *corev1.Node) bool {
		if node.Spec.Unschedulable && !toleratesCordoned {
			return false
		}
		if _, tainted := scheduling.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, pod.Spec.Tolerations, holds, true); tainted {
			return false
		}
		matches, err := affinity.Match(node)
		return err == nil && matches
	}
}

// siblingsUnwell allows one eviction of a workload at a time, and only while all its other wanted pods exist and are
// ready.
func siblingsUnwell(pod *corev1.Pod, e Eviction) *resize.Refusal {
	for _, r := range e.Records {
		if r.Phase == v1alpha1.RecordEvicting && r.PodUID != pod.UID {
			return resize.RefuseForNow(resize.ReasonReplicasNotReady, "pod %s of the workload is being evicted", r.PodName)
		}
	}
	ready := 0
	for _, other := range e.Siblings {
		switch {
		case other.UID == pod.UID || resize.Finished(other):
		case other.DeletionTimestamp != nil:
			return resize.RefuseForNow(resize.ReasonReplicasNotReady, "pod %s of the workload is being deleted", other.Name)
		case !podview.IsReady(other):
			return resize.RefuseForNow(resize.ReasonReplicasNotReady, "pod %s of the workload is not ready", other.Name)
		default:
			ready++
		}
	}
	if ready < e.Replicas-1 || ready == 0 {
		return resize.RefuseForNow(resize.ReasonReplicasNotReady, "%d of the workload's %d other pods are ready", ready, e.Replicas-1)
	}
	return nil
}

// EvictionOutcome is the meaning of the answer to an eviction; the word labels the metric.
type EvictionOutcome string

const (
	// EvictionGranted: the API server evicts the pod.
	EvictionGranted EvictionOutcome = "success"
	// EvictionDenied: a PodDisruptionBudget or missing permissions do not allow it now. The pod stays.
	EvictionDenied EvictionOutcome = "denied"
	// EvictionUnknown: the eviction may or may not have been granted, or the pod has changed since it was read. The
	// next reconcile of the pod shows the result.
	EvictionUnknown EvictionOutcome = "unknown"
)

// ClassifyEviction returns the meaning of the API server's answer to an eviction. attune tries no other way: it never
// deletes a pod that may not be evicted.
func ClassifyEviction(err error) EvictionOutcome {
	switch {
	case err == nil:
		return EvictionGranted
	// The cause distinguishes the 429 of a PodDisruptionBudget from the 429 of an overloaded API server.
	case apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause), apierrors.IsForbidden(err):
		return EvictionDenied
	}
	return EvictionUnknown
}

// Denied explains why the pod of a record still exists although attune requested its eviction; nil if no eviction of it
// was denied.
func Denied(record v1alpha1.ResizeRecord) *resize.Refusal {
	if record.Phase != v1alpha1.RecordEvictionDenied || record.Deadline == nil {
		return nil
	}
	refusal := resize.RefuseForNow(resize.ReasonEvictionDenied, "a PodDisruptionBudget or missing permissions deny the eviction of pod %s, which has its previous resources again; attune retries every minute until %s",
		record.PodName, record.WrittenAt.Add(evictFor).UTC().Format(time.RFC3339))
	refusal.Until = record.Deadline.Time
	return refusal
}

// LeavePlan returns the plan for a pod that does not fit on its node with the other pods (strategy Node). The pod is
// not changed: it is evicted, and its successor is created with the workload's seed. Without a seed the plan has the
// current requests. It has a move for every container, changed or not, so that the record covers the pod.
func LeavePlan(pod *corev1.Pod, seed *v1alpha1.Seed) resize.Plan {
	plan := resize.PlanOf(pod)
	plan.Elsewhere, plan.Reason = true, resize.ReasonDoesNotFit
	for _, c := range podview.Resizable(pod) {
		from := podview.ReadSpec(c.Resources)
		to := resize.Merge(from, podview.SeedRequests(seed, c.Name))
		plan.Moves = append(plan.Moves, resize.Move{Container: c.Name, Sidecar: podview.IsSidecar(pod, c), From: from, To: to})
	}
	return plan
}

// Leaving reports whether the record belongs to a pod that has to leave its node because it does not fit.
func Leaving(record v1alpha1.ResizeRecord) bool {
	return record.Reason == resize.ReasonDoesNotFit && resize.PuttingBack(record)
}

// WithoutLeaving returns the records without those for pods that have to leave for lack of room. These pods are not
// changed, so they block no other pod, and their nodes still count them among the pods that share.
func WithoutLeaving(records []v1alpha1.ResizeRecord) []v1alpha1.ResizeRecord {
	return slices.DeleteFunc(slices.Clone(records), Leaving)
}
