package tuning

import (
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
	"attune.io/attune/resize/withdraw"
)

// View is everything that one pass over a workload sees: values only, so that a pass can be repeated in a
// test. Decide does not change it; the loop adds to Looked, Usage and Begin between two calls of Decide.
type View struct {
	// Now is the time of the whole pass. It does not advance while the pass looks closer.
	Now time.Time
	// Part is how much of the pass is decided; the zero value is the whole pass.
	Part Part
	// Rec is the stored recommendation, never nil.
	Rec *v1alpha1.AttuneRecommendation
	// Workload is nil where the workload is gone; its records are still finished.
	Workload *workload.Workload
	// Pods are sorted by name, so that every pass sees the same order.
	Pods []*corev1.Pod
	// Nodes are the nodes of the pods, by name. A node that is gone or could not be read is missing.
	Nodes map[string]Node
	// Autoscalers is what HPAs and VPAs hold of the workload.
	Autoscalers autoscale.Holds
	// Grants are the sizes that nodes grant their pods, by pod (strategy Node).
	Grants map[types.UID]board.Pod

	// Policy is the policy's part: settings, and whether they can be used.
	Policy PolicyView
	// Namespace is what the namespace allows.
	Namespace NamespaceView
	// Operator is what this operator may do.
	Operator OperatorView
	// Usage is what usage sources have measured.
	Usage UsageView
	// Past is what the loop remembers; the zero value after a restart.
	Past PastView
	// Begin limits what is new; the zero value does not limit it.
	Begin BeginView
	// Looked has the answers to Unknowns; the zero value in the first round.
	Looked LookedView
}

// PolicyView is the policy of the workload.
type PolicyView struct {
	// Settings are resolved over all levels. Where the policy is gone, they are those of its levels that are left.
	Settings policy.Settings
	// Usable reports that the policy exists, is not being deleted, and has valid settings. Otherwise open
	// records are finished and nothing new begins.
	Usable bool
	// Gone reports that the policy does not exist, is being deleted, or is another one of the same name.
	Gone bool
}

// NamespaceView is what the namespace of the workload allows.
type NamespaceView struct {
	// Limits are the LimitRanges of the namespace, from the cache.
	Limits []corev1.LimitRange
	// Quotas are its ResourceQuotas.
	Quotas []corev1.ResourceQuota
	// Budgets are its PodDisruptionBudgets.
	Budgets []policyv1.PodDisruptionBudget
	// Terminating reports that the namespace is being deleted.
	Terminating bool
	// Seeded reports that the webhook sizes new pods of the namespace (its label). Without it, the
	// successor of an evicted pod would be born with the old size.
	Seeded bool
}

// OperatorView is what this operator may do, and which API server it talks to.
type OperatorView struct {
	// Namespace is the namespace of this operator; empty: not known.
	Namespace string
	// MayEvict reports that the operator has the right to evict pods.
	MayEvict bool
	// NoRights is why no new resize may be sent, NoRightsUrgent why not even one that takes harm back;
	// empty: it may.
	NoRights, NoRightsUrgent string
	// ServerVersion is that of the API server, such as v1.36.3.
	ServerVersion string
	// NoResize reports that the API server does not serve pods/resize (KEP-1287 switched off or too old).
	NoResize bool
}

// UsageView is what usage sources know.
type UsageView struct {
	// Confirmed is until when the stored targets are known to hold (board.Confirmed); zero: not known.
	Confirmed time.Time
	// Signals are the measurements of pods whose watch has ended, by pod uid; a pod without an entry was
	// not measured.
	Signals map[string]harm.Signals
	// Memory is what containers hold in bytes, by pod and container. Only pods that were asked for
	// (Unknowns) have an entry; an empty entry: asked, and nothing is known.
	Memory map[types.UID]map[string]recommender.Amount
	// Climbs are the newest samples of containers with a memory limit, by pod and container; what is not known is missing.
	Climbs map[types.UID]map[string]Climb
	// MemorySoon reports that what the pod's containers hold will be known within seconds.
	MemorySoon map[types.UID]bool
}

// Climb is what was measured of one container lately.
type Climb struct {
	// Samples of its working set, the oldest first.
	Samples []climb.Sample
	// Stalled is the fraction of time, 0 to 1, in which it waited for memory; 0 also where that is not known.
	Stalled float64
}

// PastView is what the loop remembers of earlier passes. It may be lost: nil maps, and each pod counts as
// new.
type PastView struct {
	// AskedAt is when the operator last asked for each pod to be put back; a pod without an entry was not
	// asked lately.
	AskedAt map[types.UID]time.Time
	// WaitingSince is since when pods wait to be resized as their nodes grant (strategy Node).
	WaitingSince map[types.UID]time.Time
	// Rejected is the newest answer of the API server to the workload's controller, where it did not create a pod;
	// nil: none is known.
	Rejected *withdraw.Rejection
}

// BeginView limits what a pass may begin beyond what is open.
type BeginView struct {
	// Closed is why nothing new begins, whatever the pods need; nil: it may.
	Closed *resize.Refusal
	// Wait is how long nothing new begins in any workload, because the rate of new resizes is used up; 0:
	// it may begin.
	Wait time.Duration
	// Reserved is the room that resizes of other workloads take and that the cache does not show yet.
	Reserved Reservations
}

// LookedView is what the loop has read because an earlier decision of the same pass asked for it
// (Unknowns). The zero value: nothing was asked for.
type LookedView struct {
	// Rooms is what the pods of a node take, by node; a node without an entry was not summed.
	Rooms map[string]*resize.Room
	// Cluster is all nodes of the cluster; nil: not asked for.
	Cluster []*corev1.Node
	// Stalled is why the kubelet does not start a pod, in its words, by pod; empty: it reports nothing. A pod without
	// an entry was not asked for.
	Stalled map[types.UID]string
	// Live are the pods that were read from the API server instead of the cache.
	Live map[types.UID]bool
	// CacheLags are the pods of which the API server has returned a newer version than the cache has.
	CacheLags map[types.UID]bool
	// Unread is what could not be read, and why nothing new begins for it.
	Unread Unread
}

// outOfDate reports whether the view has a pod as the cache has it, and the API server has returned a newer version.
func (l LookedView) outOfDate(pod *corev1.Pod) bool { return l.CacheLags[pod.UID] && !l.Live[pod.UID] }

// Node is a node as it is, with what its kubelet taught.
type Node struct {
	// Node is the object from the cache.
	*corev1.Node
	// Facts are what the operator has learned of the node's kubelet, such as until when resizes on it are
	// not tried.
	Facts resize.NodeFacts
	// Booted is when the node was first seen after its last boot; zero: it did not boot since it is known.
	Booted time.Time
}

// Pod returns the pod with a uid, or nil where it is gone.
func (v *View) Pod(uid types.UID) *corev1.Pod {
	for _, p := range v.Pods {
		if p.UID == uid {
			return p
		}
	}
	return nil
}

// owner returns the workload as it is, and the zero value where it is gone: records outlive their
// workload.
func (v *View) owner() workload.Workload {
	return ptr.Deref(v.Workload, workload.Workload{})
}

// target is the stored target of a container; the zero value: there is none.
func (v *View) target(container string) v1alpha1.ContainerTarget {
	for _, t := range v.Rec.Spec.Containers {
		if t.Name == container {
			return t
		}
	}
	return v1alpha1.ContainerTarget{}
}

// dataUntil returns the time of the newest usage sample by which the stored targets hold: the time stored
// with them, or the later one at which the policy loop found them unchanged. Zero: there is none.
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

// capabilitiesOn is capabilities by the node's name. The versions of the API server and of the kubelet
// both count (in-place resize: KEP-1287), and what the node has taught.
func (v *View) capabilitiesOn(name string) resize.Capabilities {
	node := v.Nodes[name]
	caps := resize.CapabilitiesOf(node.Node, v.Operator.ServerVersion).With(node.Facts)
	caps.Resizable = caps.Resizable && !v.Operator.NoResize
	return caps
}

// signals returns what was measured of a record's pod, and what is known of its workload and its node.
// Siblings are compared only for a pod that looks harmed, because that costs a pass over all pods.
func (v *View) signals(record v1alpha1.ResizeRecord) harm.Signals {
	signals := v.Usage.Signals[string(record.PodUID)]
	signals.Rollout = v.owner().Rollout.InProgress
	signals.NodeBooted = v.Nodes[record.Node].Booted
	signals.NodeNotReady = v.nodeNotReady(record.Node)
	if pod := v.Pod(record.PodUID); pod != nil && (suffered(pod) || !podview.IsReady(pod)) {
		signals.SiblingsUnready = harm.SiblingsUnready(v.Pods, record, v.Rec.Status.Records, v.nodeNotReady)
	}
	return signals
}

// nodeNotReady reports that a node is known and not ready. A node that could not be read counts as ready:
// missing data must not make every pod unreachable.
func (v *View) nodeNotReady(name string) bool {
	view, known := v.Nodes[name]
	return known && !resize.NodeReady(view.Node)
}

// WatchEnded reports whether the time of a record's watch is over, so that its pod is to be judged.
func (v *View) WatchEnded(record v1alpha1.ResizeRecord) bool {
	return record.Phase == v1alpha1.RecordWatching && record.WatchUntil != nil && !v.Now.Before(record.WatchUntil.Time)
}

// SetMemory adds the answer to Unknowns.Memory: the bytes that a pod's containers hold. soon: it is not
// known yet, but will be within seconds. It changes the View; the maps must exist.
func (v *View) SetMemory(pod types.UID, held map[string]recommender.Amount, soon bool) {
	v.Usage.Memory[pod] = held
	if soon {
		v.Usage.MemorySoon[pod] = true
	}
}

// ByNode reports whether the pods are sized by their nodes' grants (strategy Node) and not by one target.
// Cooldown, canary, waves and the change filter do not apply then; plans, gates, records, watches and
// reverts do. It is also true while the recommendation still has the strategy and the policy has changed:
// its pods hold shares.
func (v *View) ByNode() bool {
	return v.Rec.Spec.Strategy == v1alpha1.StrategyNode || v.Policy.Settings.Strategy == v1alpha1.StrategyNode
}

// unreachable returns the nodes of records that are not ready. A record whose pod no kubelet can put back
// does not take a place in a wave (resize.Wave).
func (v *View) unreachable(records []v1alpha1.ResizeRecord) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		if v.nodeNotReady(r.Node) {
			out[r.Node] = true
		}
	}
	return out
}

// resumed returns the annotation that kubectl attune resume writes, cut to 64 bytes: it is copied into the
// status, and users can write any text.
func (v *View) resumed() string {
	const most = 64
	text := v.owner().Annotations[v1alpha1.ResumedAnnotation]
	return text[:min(len(text), most)]
}

// commandLine names the workload as a person types it behind kubectl attune.
func (v *View) commandLine() string {
	return fmt.Sprintf("%s/%s -n %s", strings.ToLower(string(v.Rec.Spec.Workload.Kind)), v.Rec.Spec.Workload.Name, v.Rec.Namespace)
}

// orphaned reports that the policy is gone, that the workload is gone, or that the recommendation is being
// deleted, so that the pods are no longer sized.
func (v *View) orphaned() bool {
	return v.Policy.Gone || v.Workload == nil || v.Rec.DeletionTimestamp != nil
}

// Close makes a pass begin nothing new; the first reason stands.
func (v *View) Close(why *resize.Refusal) {
	if v.Begin.Closed == nil {
		v.Begin.Closed = why
	}
}

// Live returns the pods that have not ended and are not being deleted, as a new slice. Ended pods stay in
// Pods for a while, such as failed attempts of a Job: what killed them is still learned, and nothing is
// done about them.
func (v *View) Live() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(v.Pods), ended)
}

// ended reports whether the pod has finished or is being deleted.
func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
}

// Killed reports whether the kernel killed a container of the pod for memory, as far as its status still
// shows it: a container status keeps only the last termination.
func Killed(pod *corev1.Pod) bool { return len(podview.OOMKills(pod)) > 0 }

// batch reports whether the workload is a Job or a CronJob, whose pods are sized at admission.
func (v *View) batch() bool {
	return workload.Batch(v.Rec.Spec.Workload.Kind)
}

// sizesPods reports whether running pods are resized or new ones are seeded.
func (v *View) sizesPods() bool {
	return v.resizesPods() || v.Policy.Usable && v.Workload != nil && v.Policy.Settings.Resize.Mode == v1alpha1.UpdateInitial
}

// resizesPods reports whether the mode lets running pods be changed and the policy is usable.
func (v *View) resizesPods() bool {
	return v.Policy.Usable && v.Workload != nil && resize.ChangesPods(v.Policy.Settings.Resize.Mode)
}

// Part is how much of a pass is decided. What is open comes first, and growth after an OOM kill before
// anything else that is new: neither waits for a usage source, which is asked only for the rest.
type Part string

const (
	// WholePass decides everything.
	WholePass Part = ""
	// OpenPart decides records, floors and what else follows from the pods alone. Watches that end are
	// judged in the whole pass.
	OpenPart Part = "open"
	// UrgentPart decides the open part, and growth after OOM kills. If autoscalers cannot be listed, the
	// holds that were stored with the targets are believed.
	UrgentPart Part = "urgent"
)
