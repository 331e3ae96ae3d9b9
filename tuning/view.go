package tuning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/climb"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/resize/withdraw"
)

// View has all inputs of one reconcile of a workload, as values only, so that a test can repeat a reconcile. Decide
// does not change it. The loop adds to Looked, Usage and Begin between two calls of Decide.
type View struct {
	// Now is the time of the whole reconcile. It does not advance between two calls of Decide.
	Now time.Time
	// Part is how much of the reconcile is decided; the zero value is the whole reconcile.
	Part Part
	// Rec is the stored recommendation, never nil.
	Rec *v1alpha1.AttuneRecommendation
	// Workload is nil if the workload is deleted. Its records are still finished.
	Workload *workload.Workload
	// Pods are sorted by name, so that every reconcile sees the same order.
	Pods []*corev1.Pod
	// Nodes are the nodes of the pods, by name. A node that is deleted or could not be read is missing.
	Nodes map[string]Node
	// Autoscalers are the resources of the workload that HPAs and VPAs block.
	Autoscalers autoscale.Holds
	// Grants are the sizes that nodes grant their pods, by pod (strategy Node).
	Grants map[types.UID]board.Pod

	// Policy has the policy's settings, and whether they can be used.
	Policy PolicyView
	// Namespace has the limits, quotas and budgets of the namespace.
	Namespace NamespaceView
	// Operator has the permissions of this operator.
	Operator OperatorView
	// Usage has the measurements of usage sources.
	Usage UsageView
	// Past is in-memory state of earlier reconciles; zero after a restart.
	Past PastView
	// Begin limits new resizes; the zero value does not limit them.
	Begin BeginView
	// Looked has the answers to Unknowns; the zero value in the first round.
	Looked LookedView
}

// PolicyView is the policy of the workload.
type PolicyView struct {
	// Settings are resolved over all levels. If the policy is deleted, the remaining levels apply.
	Settings policy.Settings
	// Usable reports that the policy exists, is not being deleted, and has valid settings. Otherwise open records are
	// finished and no new resize begins.
	Usable bool
	// Gone reports that the policy does not exist, is being deleted, or is a different object of the same name.
	Gone bool
}

// NamespaceView has the limits, quotas and budgets of the workload's namespace.
type NamespaceView struct {
	// Limits are the LimitRanges of the namespace, from the cache.
	Limits []corev1.LimitRange
	// Quotas are its ResourceQuotas.
	Quotas []corev1.ResourceQuota
	// Budgets are its PodDisruptionBudgets.
	Budgets []policyv1.PodDisruptionBudget
	// Terminating reports that the namespace is being deleted.
	Terminating bool
	// NotSized is why the webhook does not size new pods of the namespace; empty: it sizes them. If it does not, the
	// successor of an evicted pod would be created with the old size.
	NotSized string
}

// OperatorView has the permissions of this operator and the features of its API server.
type OperatorView struct {
	// Namespace is the namespace of this operator; empty: not known.
	Namespace string
	// MayEvict reports that the operator may evict pods.
	MayEvict bool
	// NoRights is why no new resize may be sent. NoRightsUrgent is why not even a revert of a regression may be sent.
	// Empty: allowed.
	NoRights, NoRightsUrgent string
	// ServerVersion is the version of the API server, such as v1.36.3.
	ServerVersion string
	// HPASync is the sync period of the cluster's HPAs; 0: raises below them have the time of other resizes.
	HPASync time.Duration
	// NoResize reports that the API server does not serve pods/resize (KEP-1287 switched off or too old).
	NoResize bool
}

// UsageView has the measurements of usage sources.
type UsageView struct {
	// Confirmed is the time until which the stored targets are known to be unchanged (board.Confirmed); zero: not
	// known.
	Confirmed time.Time
	// Signals are the measurements of pods whose observation has ended, by pod uid. A pod without an entry was not
	// measured.
	Signals map[string]harm.Signals
	// Memory is the memory usage of containers in bytes, by pod and container. Only pods in Unknowns have an entry.
	// An empty entry: the usage was read and is not known.
	Memory map[types.UID]map[string]recommender.Amount
	// Climbs are the newest samples of containers with a memory limit, by pod and container. Unknown ones are
	// missing.
	Climbs map[types.UID]map[string]Climb
	// Lately is the recent usage of containers, by pod and container. Only pods in Unknowns have an entry. An empty
	// entry: it was read and is not known.
	Lately map[types.UID]map[string]resize.Lately
	// NoRecent reports that the loop has no source of recent usage, so that no raise is due.
	NoRecent bool
	// Ends are measurements about recent terminations of containers, by podview.Evidence.
	Ends map[string]harm.KillFacts
	// MemorySoon reports that the pod's memory usage will be known within seconds.
	MemorySoon map[types.UID]bool
}

// Climb has the recent memory measurements of one container.
type Climb struct {
	// Samples are its working set, oldest first.
	Samples []climb.Sample
	// Stalled is the fraction of time, 0 to 1, in which it waited for memory; 0 also if not known.
	Stalled float64
}

// PastView is in-memory state of earlier reconciles. If it is lost, the maps are nil and each pod counts as new.
type PastView struct {
	// AskedAt is when the operator last tried to revert each pod. A pod without an entry was not tried lately.
	AskedAt map[types.UID]time.Time
	// WaitingSince is since when pods wait for the resize to their nodes' grants (strategy Node).
	WaitingSince map[types.UID]time.Time
	// TookOver reports that this process has stored its operator as the one that manages the workload (status.operator).
	TookOver bool
	// Rejected is the API server's newest rejection of a pod that the workload's controller tried to create; nil: not
	// known.
	Rejected *withdraw.Rejection
	// Deletions is Decision.Deletions of the last reconcile.
	Deletions withdraw.Deletions
}

// BeginView limits the new resizes of a reconcile.
type BeginView struct {
	// Closed is why no resize except a restore begins (starter.restore); nil: resizes may begin.
	Closed *resize.Refusal
	// Wait is how long new resizes are delayed in all workloads, because the operator's rate limit is used up; 0: no
	// delay. Restores and UrgentPart do not wait.
	Wait time.Duration
	// Reserved is the room of other workloads' in-flight resizes that the cache does not show yet.
	Reserved Reservations
	// TargetSoon reports that requests wait only seconds for the target of an HPA (autoscale.Holds.Await). A plan with such
	// a request waits as a whole.
	TargetSoon bool
}

// LookedView has the answers to Unknowns of an earlier decision in the same reconcile. The zero value: nothing was
// read.
type LookedView struct {
	// Rooms is the footprint of the pods of a node, by node. A node without an entry was not summed.
	Rooms map[string]*resize.Room
	// Cluster has all nodes of the cluster; nil: not read.
	Cluster []*corev1.Node
	// Stalled is the kubelet's reason why a pod does not start, by pod; empty: it reports no reason. A pod without an
	// entry was not read.
	Stalled map[types.UID]string
	// Before has the results of queries before new resizes; nil: they were not sent.
	Before map[harm.Question]harm.Answer
	// Live are the pods that were read from the API server instead of the cache.
	Live map[types.UID]bool
	// CacheLags are the pods for which the API server has returned a newer version than the cache has.
	CacheLags map[types.UID]bool
	// Unread is the data that could not be read, and the refusals of new resizes that need it.
	Unread Unread
}

// outOfDate reports whether the view has the pod from the cache although the API server has returned a newer version.
func (l LookedView) outOfDate(pod *corev1.Pod) bool { return l.CacheLags[pod.UID] && !l.Live[pod.UID] }

// Node is a node with the limitations that the operator has learned.
type Node struct {
	// Node is the object from the cache.
	*corev1.Node
	// Facts are limitations learned from the node's kubelet, such as until when no resize is tried on it.
	Facts resize.NodeFacts
	// Booted is when the node was first seen after its last boot; zero: no boot was seen.
	Booted time.Time
}

// Pod returns the pod with a uid; nil: it is deleted.
func (v *View) Pod(uid types.UID) *corev1.Pod {
	return podview.First(v.Pods, func(p *corev1.Pod) bool { return p.UID == uid })
}

// owner returns the workload; zero: it is deleted. Records outlive their workload.
func (v *View) owner() workload.Workload {
	return ptr.Deref(v.Workload, workload.Workload{})
}

// target returns the stored target of a container; zero: it has no target.
func (v *View) target(container string) v1alpha1.ContainerTarget {
	return podview.First(v.Rec.Spec.Containers, func(t v1alpha1.ContainerTarget) bool { return t.Name == container })
}

// scaledOn returns the requests on which an HPA scales, or did within the last day. Open records are advanced before the
// autoscalers are read, so the stored ones count too.
func (v *View) scaledOn() resize.ScaledRequests {
	all := v.Autoscalers.ScaledOn()
	for _, r := range recommender.Resources {
		for _, b := range v.Rec.Spec.HPABindings {
			if b.Resource == r.String() {
				all.Add(b.Container, r)
			}
		}
		for _, t := range v.Rec.Spec.Containers {
			if resize.ScaledOn(t, r) {
				all.Add(t.Name, r)
			}
		}
	}
	return all
}

// requestsMore reports whether a pod requests more than it has of a resource on which an HPA scales. A cached pod that is
// older than its resize does not show that yet.
func (v *View) requestsMore(pod *corev1.Pod, record v1alpha1.ResizeRecord) bool {
	if pod == nil || pod.UID != record.PodUID {
		return false
	}
	scaled := v.scaledOn()
	return lifecycle.RequestsMore(pod, scaled) || pod.Generation < record.Generation && resize.AnyChange(record, func(m resize.Move) bool {
		return slices.ContainsFunc(recommender.Resources[:], func(r recommender.Resource) bool {
			return m.To[r].Request > m.From[r].Request && scaled.Has(m.Container, r)
		})
	})
}

// dataUntil returns the time of the newest usage sample that confirms the stored targets: the stored time, or the
// later one at which the policy loop found them unchanged. Zero: not known.
func (v *View) dataUntil() time.Time {
	stored := v.Rec.Spec.DataUntil
	switch {
	case stored == nil:
		return time.Time{}
	case v.Usage.Confirmed.After(stored.Time):
		return v.Usage.Confirmed
	}
	return stored.Time
}

// capabilitiesOn returns the capabilities of a node. They depend on the versions of the API server and of the kubelet
// (in-place resize: KEP-1287), and on the learned limitations of the node.
func (v *View) capabilitiesOn(name string) resize.Capabilities {
	node := v.Nodes[name]
	caps := resize.CapabilitiesOf(node.Node, v.Operator.ServerVersion).With(node.Facts)
	caps.Resizable = caps.Resizable && !v.Operator.NoResize
	return caps
}

// signals returns the measurements of a record's pod, and the state of its workload and its node. Siblings are
// compared only for a pod with signs of a regression, because that costs a loop over all pods.
func (v *View) signals(record v1alpha1.ResizeRecord) harm.Signals {
	signals := v.Usage.Signals[string(record.PodUID)]
	signals.Rollout = v.owner().Rollout.InProgress && !v.standingRollout().newest[record.PodUID]
	signals.NodeBooted = v.Nodes[record.Node].Booted
	signals.NodeNotReady = v.nodeNotReady(record.Node)
	signals.Evicted = slices.ContainsFunc(v.Pods, evicted)
	if pod := v.Pod(record.PodUID); pod != nil && (anyContainerTerminated(pod) || !podview.IsReady(pod)) {
		signals.SiblingsUnready = harm.SiblingsUnready(v.Pods, record, v.Rec.Status.Records, v.nodeNotReady)
	}
	return signals
}

// evicted reports whether a pod is being deleted because it was evicted or preempted.
func evicted(pod *corev1.Pod) bool {
	c := podview.Condition(pod, corev1.DisruptionTarget)
	return pod.DeletionTimestamp != nil && c != nil && c.Status == corev1.ConditionTrue
}

// nodeNotReady reports that a node is known and not ready. A node that could not be read counts as ready: missing
// data must not make all pods unreachable.
func (v *View) nodeNotReady(name string) bool {
	view, known := v.Nodes[name]
	return known && !resize.NodeReady(view.Node)
}

// WatchEnded reports whether the observation period of a record is over, so that its pod is to be assessed.
func (v *View) WatchEnded(record v1alpha1.ResizeRecord) bool {
	return record.Phase == v1alpha1.RecordWatching && record.WatchUntil != nil && !v.Now.Before(record.WatchUntil.Time)
}

// SetMemory adds the answer to Unknowns.Memory: the memory usage of a pod's containers in bytes. soon: it is not
// known yet, but will be within seconds. It changes the View; the maps must exist.
func (v *View) SetMemory(pod types.UID, held map[string]recommender.Amount, soon bool) {
	v.Usage.Memory[pod] = held
	if soon {
		v.Usage.MemorySoon[pod] = true
	}
}

// ByNode reports whether the pods are sized by their nodes' grants (strategy Node) and not by one target. Cooldown,
// canary, waves and the change filter do not apply then; plans, gates, records, observation and reverts do. It stays
// true while the recommendation still has the strategy after the policy has changed, because the pods still have
// shares.
func (v *View) ByNode() bool {
	return v.Rec.Spec.Strategy == v1alpha1.StrategyNode || v.Policy.Settings.Strategy == v1alpha1.StrategyNode
}

// unreachable returns the nodes of records that are not ready. A record whose pod no kubelet can revert does not take
// a place in a wave (resize.Wave).
func (v *View) unreachable(records []v1alpha1.ResizeRecord) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		if v.nodeNotReady(r.Node) {
			out[r.Node] = true
		}
	}
	return out
}

// resumed returns the annotation that kubectl attune resume writes, cut to 64 bytes. It is copied into the status,
// and users can write any text.
func (v *View) resumed() string {
	const most = 64
	text := v.owner().Annotations[v1alpha1.ResumedAnnotation]
	return text[:min(len(text), most)]
}

// commandLine returns the arguments that name the workload for kubectl attune.
func (v *View) commandLine() string {
	return fmt.Sprintf("%s/%s -n %s", strings.ToLower(string(v.Rec.Spec.Workload.Kind)), v.Rec.Spec.Workload.Name, v.Rec.Namespace)
}

// orphaned reports that the policy or the workload is deleted, or that the recommendation is being deleted, so that
// the pods are no longer sized.
func (v *View) orphaned() bool {
	return v.Policy.Gone || v.Workload == nil || v.Rec.DeletionTimestamp != nil
}

// Close blocks new resizes of a reconcile, except restores. The first reason counts.
func (v *View) Close(why *resize.Refusal) {
	v.Begin.Closed = cmp.Or(v.Begin.Closed, why)
}

// Live returns the pods that have not terminated and are not being deleted, as a new slice. Terminated pods stay in
// Pods for a while, such as failed attempts of a Job: floors are learned from their OOM kills, and they are not
// resized.
func (v *View) Live() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(v.Pods), ended)
}

// ended reports whether the pod has terminated or is being deleted.
func ended(pod *corev1.Pod) bool {
	return resize.Finished(pod) || pod.DeletionTimestamp != nil
}

// Killed reports whether the pod's status shows an OOM kill of a container. A container status keeps only the last
// termination.
func Killed(pod *corev1.Pod) bool { return len(podview.OOMKills(pod)) > 0 }

// batch reports whether the workload is a Job or a CronJob, whose pods are sized at admission.
func (v *View) batch() bool {
	return workload.Batch(v.Rec.Spec.Workload.Kind)
}

func (v *View) sizesPods() bool {
	return v.resizesPods() || v.Policy.Usable && v.Workload != nil && v.Policy.Settings.Resize.Mode == v1alpha1.UpdateInitial
}

// notSized returns why new pods are not sized at admission, as a clause; empty: they are.
func notSized(v *View) string {
	return cmp.Or(v.Policy.Settings.NotSized(), v.Namespace.NotSized)
}

func (v *View) resizesPods() bool {
	return v.Policy.Usable && v.Workload != nil && resize.ChangesPods(v.Policy.Settings.Resize.Mode)
}

// Part is how much of a reconcile is decided. Open records come first, then raises before or after OOM kills. Neither
// waits for a usage source, which is queried only for the rest.
type Part string

const (
	// WholePass decides everything.
	WholePass Part = ""
	// OpenPart decides records, floors and other results that depend only on the pods. The whole reconcile assesses
	// pods whose observation ends.
	OpenPart Part = "open"
	// UrgentPart decides OpenPart, and raises before and after OOM kills. If autoscalers cannot be listed, the blocks
	// stored with the targets apply.
	UrgentPart Part = "urgent"
)
