// Package kubelet plays nodes before a real API server: what a kubelet does with pods and their resizes,
// a scheduler that binds them, and the controllers that make them. Nothing runs by itself: a test moves
// its clock and asks each part to look (Sync), so that hours pass in milliseconds and every run is the
// same.
//
// It keeps the ledgers apart that a kubelet keeps apart: desired (the pod's spec), allocated, actuated,
// and what the status shows of them.
package kubelet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Times of a kubelet.
const (
	// statsLag is how old a memory usage may be, statsMissing how long it is unknown after a start.
	statsLag     = 15 * time.Second
	statsMissing = 30 * time.Second
	// retryError is how often a failed actuation is tried again, retryDeferred a deferred resize.
	retryError    = 10 * time.Second
	retryDeferred = 3 * time.Minute
	// oomAfter is how long a process takes to fill its memory again, where only Usage is known.
	oomAfter = 10 * time.Second
)

// Options of a Node. Zero values have defaults.
type Options struct {
	// Minor version of the kubelet, 1.33 to 1.37: 36.
	Minor int
	// CPU and Memory that are allocatable: 64 cores, 256Gi.
	CPU, Memory string
	// StartAfter is how long containers take to start, ActuateAfter a resize to be carried out: 1s, 2s.
	StartAfter, ActuateAfter time.Duration
	// StaticCPU: the CPU manager's policy is static.
	StaticCPU bool
	// Usage is the memory that a container's cgroup holds, page cache included, in bytes. Nil: nothing.
	Usage func(pod *corev1.Pod, container string) int64
	// Ready says whether a started pod passes its probe. Nil: always.
	Ready func(pod *corev1.Pod) bool
	// Processes run in the containers, in place of what Usage and Ready say. Nil: they do.
	Processes Processes
	// RestartAfter is how long the status shows that a container has ended before it starts again or waits to: 0.
	RestartAfter time.Duration
	// StopAfter is how long a pod takes to end when it is deleted: 0.
	StopAfter time.Duration
	// PodCgroup: pods whose containers all have memory limits have one themselves, and show it (kubelet 1.36).
	PodCgroup bool
	// CgroupV1: a container whose CPU quota is above that of its pod's cgroup does not start.
	CgroupV1 bool
	// Swap: the node has swap, and pods may use some.
	Swap bool
	// HeartbeatEvery is how often the node's status is written though nothing has changed: never. A kubelet's is 5 min.
	HeartbeatEvery time.Duration
	// Labels of the node besides those that every one has.
	Labels map[string]string
}

// Faults are what may be wrong with a node; a test sets and clears them.
type Faults struct {
	// Down: the kubelet is stopped, and its node not ready.
	Down bool
	// PrematureClear: PodResizeInProgress is gone, although nothing is carried out yet.
	PrematureClear bool
	// Error: the runtime refuses every change with these words.
	Error string
	// StatusLag is how much later than it should a status is written.
	StatusLag time.Duration
	// Taken is CPU, in millicores, that something holds which the API does not show.
	Taken int64
	// Rounding is added to the CPU limit that the runtime reports, in millicores.
	Rounding int64
	// Rejects is why every resize is deferred, decreases too, such as "The node had condition: [DiskPressure]. ".
	Rejects string
	// NoStats: the memory that containers use is not known.
	NoStats bool
	// LeastMemory: no pod starts in which a container has a lower memory limit, in bytes; the runtime needs some of it
	// before the process runs. TooSmall is the reason that a container waits with; empty: ContainerCreating, as where a
	// volume cannot be mounted (the event FailedMount says why).
	LeastMemory int64
	TooSmall    string
}

// Node is one node with its kubelet. It is for one goroutine.
type Node struct {
	Name   string
	Faults Faults
	// Failures are the messages of changes that could not be carried out, each time.
	Failures []string

	client  client.Client
	options Options
	pods    map[types.UID]*podState
	// retry: something happened that may have made room.
	retry   bool
	retryAt time.Time
	boots   int
	// now is when it looked last, heartbeat when it wrote the node's status last.
	now, heartbeat time.Time
	// silentSince is when the kubelet was stopped or cut off.
	silentSince time.Time
	processes   Processes
	// seen are the faults as they were when it looked last.
	seen Faults
}

// NewNode makes the Node object, at no particular time.
func NewNode(ctx context.Context, c client.Client, name string, options Options) (*Node, error) {
	return Join(ctx, c, name, options, time.Time{})
}

// Join makes the Node object, and its kubelet ready.
func Join(ctx context.Context, c client.Client, name string, options Options, now time.Time) (*Node, error) {
	n := &Node{Name: name, client: c, options: withDefaults(options), pods: map[types.UID]*podState{}, now: now, heartbeat: now}
	n.processes = cmp.Or[Processes](options.Processes, simple{n})
	object := n.Object()
	object.Labels = map[string]string{corev1.LabelOSStable: "linux", corev1.LabelHostname: name}
	maps.Copy(object.Labels, options.Labels)
	if err := c.Create(ctx, object); err != nil {
		return nil, fmt.Errorf("creating node %s: %w", name, err)
	}
	return n, n.writeNode(ctx)
}

// Object names the Node.
func (n *Node) Object() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
}

func withDefaults(o Options) Options {
	if o.Minor == 0 {
		o.Minor = 36
	}
	o.CPU, o.Memory = cmp.Or(o.CPU, "64"), cmp.Or(o.Memory, "256Gi")
	o.StartAfter, o.ActuateAfter = cmp.Or(o.StartAfter, time.Second), cmp.Or(o.ActuateAfter, 2*time.Second)
	if o.Usage == nil {
		o.Usage = func(*corev1.Pod, string) int64 { return 0 }
	}
	if o.Ready == nil {
		o.Ready = func(*corev1.Pod) bool { return true }
	}
	return o
}

// SetAllocatable changes what the node has.
func (n *Node) SetAllocatable(ctx context.Context, cpu, memory string) error {
	n.options.CPU, n.options.Memory = cpu, memory
	n.retry = true
	return n.writeNode(ctx)
}

// Reconfigure changes what the kubelet starts with the next time.
func (n *Node) Reconfigure(change func(*Options)) { change(&n.options) }

// writeNode writes the node's status as its kubelet would.
func (n *Node) writeNode(ctx context.Context) error {
	object := &corev1.Node{}
	if err := n.client.Get(ctx, types.NamespacedName{Name: n.Name}, object); err != nil {
		return err
	}
	before := object.DeepCopy()
	ready := corev1.ConditionTrue
	if n.Faults.Down {
		ready = corev1.ConditionUnknown
	}
	object.Status.Conditions = []corev1.NodeCondition{n.readiness(before, ready)}
	if n.options.HeartbeatEvery > 0 {
		object.Status.Conditions[0].LastHeartbeatTime = stored(n.now)
	}
	object.Status.Capacity, object.Status.Allocatable = n.allocatable(), n.allocatable()
	object.Status.NodeInfo.KubeletVersion = fmt.Sprintf("v1.%d.0", n.options.Minor)
	object.Status.NodeInfo.OperatingSystem = "linux"
	object.Status.NodeInfo.BootID = fmt.Sprintf("%s-%d", n.Name, n.boots)
	return n.client.Status().Patch(ctx, object, client.MergeFrom(before))
}

// readiness keeps the time of the last transition.
func (n *Node) readiness(before *corev1.Node, ready corev1.ConditionStatus) corev1.NodeCondition {
	for _, c := range before.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == ready {
			return c
		}
	}
	return corev1.NodeCondition{Type: corev1.NodeReady, Status: ready, Reason: "Fake", LastTransitionTime: stored(n.now)}
}

func (n *Node) allocatable() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(n.options.CPU),
		corev1.ResourceMemory: resource.MustParse(n.options.Memory),
		corev1.ResourcePods:   resource.MustParse("1000"),
	}
}

// Stop stops the kubelet, and has its node not ready at once: nothing is seen or written until Start.
func (n *Node) Stop(ctx context.Context) error {
	n.Cut(n.now)
	return n.writeNode(ctx)
}

// Cut stops the kubelet, or cuts its node off, and says nothing: that its node is not ready is for the control plane to
// find out. Containers run on.
func (n *Node) Cut(now time.Time) {
	if !n.Faults.Down {
		n.Faults.Down, n.silentSince = true, now
	}
}

// Touch has the kubelet look at every container anew: what its processes do is another thing than was foreseen.
func (n *Node) Touch() {
	for _, s := range n.pods {
		s.touch()
	}
	n.retry = true
}

// Silent says since when the kubelet is not heard, if it is not.
func (n *Node) Silent() (since time.Time, silent bool) { return n.silentSince, n.Faults.Down }

// Start starts it again: every resize that is not carried out is decided about anew, and all of its
// conditions look as if they had begun just now.
func (n *Node) Start(ctx context.Context, now time.Time) error {
	n.Faults.Down, n.now, n.heartbeat = false, now, now
	for _, s := range n.pods {
		s.restarted(now)
	}
	n.retry = true
	return n.writeNode(ctx)
}

// Reboot starts the machine anew: its kubelet comes back at once, and what containers did is the test's to say.
func (n *Node) Reboot(ctx context.Context, now time.Time) error {
	n.boots++
	return n.Start(ctx, now)
}

// Boot starts a machine anew that was cut off: no container has survived that, and none was seen to end. They start
// again without a back-off, which a kubelet keeps in memory.
func (n *Node) Boot(ctx context.Context, now time.Time) error {
	for _, s := range n.pods {
		for _, c := range s.containers {
			if c.ended == nil {
				c.ended = &corev1.ContainerStateTerminated{
					Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated",
					ExitCode: 137, ContainerID: c.id, StartedAt: stored(c.startedAt), FinishedAt: stored(now),
				}
			}
			c.backOff, c.startAgain, c.shownUntil = 0, now.Add(n.options.StartAfter), time.Time{}
		}
		s.touch()
	}
	return n.Reboot(ctx, now)
}

// Sync is one look at every pod of the node.
func (n *Node) Sync(ctx context.Context, now time.Time) error {
	n.now = now
	if n.Faults.Down {
		return nil
	}
	pods, err := n.list(ctx)
	if err != nil {
		return err
	}
	return n.SyncPods(ctx, now, pods)
}

// SyncPods is one look at the pods of the node, which are all that are bound to it. They are not written into.
func (n *Node) SyncPods(ctx context.Context, now time.Time, pods []*corev1.Pod) error {
	n.now = now
	if n.Faults.Down {
		return nil
	}
	if err := n.beat(ctx, now); err != nil {
		return err
	}
	if n.seen != n.Faults {
		n.seen = n.Faults
		for _, s := range n.pods {
			s.touch()
		}
	}
	n.forget(pods)
	pods, err := n.endAll(ctx, pods, now)
	if err != nil {
		return err
	}
	n.accept(ctx, pods, now)
	n.resize(pods, now)
	for _, pod := range pods {
		n.actuate(pod, now)
		n.live(pod, now)
	}
	for _, pod := range pods {
		if err := n.publish(ctx, pod, now); err != nil {
			return err
		}
	}
	return nil
}

// beat writes the node's status once in a while.
func (n *Node) beat(ctx context.Context, now time.Time) error {
	if n.options.HeartbeatEvery == 0 || now.Before(n.heartbeat.Add(n.options.HeartbeatEvery)) {
		return nil
	}
	n.heartbeat = now
	return n.writeNode(ctx)
}

// endAll lets pods go that are being deleted; it returns the others.
func (n *Node) endAll(ctx context.Context, pods []*corev1.Pod, now time.Time) ([]*corev1.Pod, error) {
	stay := make([]*corev1.Pod, 0, len(pods))
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			stay = append(stay, pod)
			continue
		}
		if err := n.end(ctx, pod, now); err != nil {
			return nil, err
		}
	}
	return stay, nil
}

// list is the node's pods, oldest first as the kubelet saw them, then by name.
func (n *Node) list(ctx context.Context) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	selector := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", n.Name)}
	if err := n.client.List(ctx, list, selector); err != nil {
		return nil, fmt.Errorf("listing the pods of node %s: %w", n.Name, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return pods, nil
}

// forget pods that are gone: their room is free.
func (n *Node) forget(pods []*corev1.Pod) {
	there := map[types.UID]bool{}
	for _, pod := range pods {
		there[pod.UID] = true
	}
	for uid := range n.pods {
		if !there[uid] {
			delete(n.pods, uid)
			n.retry = true
		}
	}
}

// end lets a pod that is being deleted go, once its containers have ended. It may stay for its finalizers.
func (n *Node) end(ctx context.Context, pod *corev1.Pod, now time.Time) error {
	s := n.pods[pod.UID]
	if s == nil {
		s = &podState{}
		n.pods[pod.UID] = s
	}
	if s.leaving {
		return nil
	}
	if n.options.StopAfter > 0 && s.containers != nil {
		if s.startAt.IsZero() {
			s.startAt = now.Add(n.options.StopAfter)
		}
		if now.Before(s.startAt) {
			return nil
		}
	}
	s.leaving, s.startAt = true, time.Time{}
	n.retry = true
	err := n.client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	return client.IgnoreNotFound(err)
}

// Next is when something will happen on the node by itself; zero: nothing will.
func (n *Node) Next(now time.Time) time.Time {
	var next time.Time
	if n.Faults.Down {
		return next
	}
	if n.options.HeartbeatEvery > 0 {
		next = earlier(next, n.heartbeat.Add(n.options.HeartbeatEvery), now)
	}
	for _, s := range n.pods {
		for _, at := range []time.Time{s.startAt, s.actuateAt, s.publishAt, s.nextAt} {
			next = earlier(next, at, now)
		}
		if s.pending != nil && s.pending.reason == corev1.PodReasonDeferred {
			next = earlier(next, n.retryAt, now)
		}
	}
	return next
}

// Due: there may be something to do although no object has changed since it looked last.
func (n *Node) Due(now time.Time) bool {
	if n.Faults.Down {
		return false
	}
	if _, unforeseen := n.processes.(simple); unforeseen || n.retry || n.seen != n.Faults {
		return true
	}
	at := n.Next(n.now)
	return !at.IsZero() && !now.Before(at)
}

// earlier is the earlier of two times that are still to come.
func earlier(a, b, now time.Time) time.Time {
	if !b.After(now) || !a.IsZero() && a.Before(b) {
		return a
	}
	return b
}
