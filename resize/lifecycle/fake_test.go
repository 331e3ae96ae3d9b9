package lifecycle_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	. "attune.io/attune/resize/lifecycle"
)

// cluster is one pod on one node behind one API server. It simulates their changes of the pod's spec and status after a
// resize, second by second, without its own clock. It supports Kubernetes 1.33 to 1.37.
type cluster struct {
	t     *testing.T
	minor int
	now   time.Time
	// pod is nil after its deletion.
	pod *corev1.Pod

	// allocatable is the node's capacity, free the part that other pods leave.
	allocatable, free [2]recommender.Amount
	// believed is the operator's view of allocatable, if it differs.
	believed [2]recommender.Amount
	// usage is the memory in each container's cgroup.
	usage map[string]recommender.Amount
	// staticCPU is the node's CPU manager policy; down: its kubelet is stopped.
	staticCPU, down bool
	// observeAfter and actuateAfter are how long the kubelet takes.
	observeAfter, actuateAfter time.Duration
	// rounding is added to the CPU limit that the runtime reports.
	rounding recommender.Amount
	// noCapacityCheck: the PodResizeValidator is disabled, or older than 1.36.
	noCapacityCheck bool

	patchedAt, allocatedAt time.Time
	evaluated              int64
	allocated, actuated    map[string]recommender.Size
}

func newCluster(t *testing.T, minor int, pod *corev1.Pod) *cluster {
	c := &cluster{
		t: t, minor: minor, now: noon, pod: pod, evaluated: pod.Generation,
		allocatable:  [2]recommender.Amount{recommender.CPU: 8000, recommender.Memory: 32 * gi},
		free:         [2]recommender.Amount{recommender.CPU: 8000, recommender.Memory: 32 * gi},
		usage:        map[string]recommender.Amount{},
		observeAfter: time.Second, actuateAfter: 2 * time.Second,
		allocated: specOf(pod), actuated: specOf(pod),
		noCapacityCheck: minor < 36,
	}
	c.publish()
	return c
}

// caps returns the operator's view of the node.
func (c *cluster) caps() Capabilities {
	caps := Capabilities{Resizable: true, ServerMinor: c.minor, KubeletMinor: c.minor, NodeReady: true, Allocatable: c.allocatable}
	if c.believed[recommender.CPU] > 0 {
		caps.Allocatable = c.believed
	}
	return caps
}

// patch is PATCH pods/resize with a strategic merge patch.
func (c *cluster) patch(body []byte) (*corev1.Pod, error) {
	if c.pod == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "web-1")
	}
	before, err := json.Marshal(c.pod)
	require.NoError(c.t, err)
	merged, err := strategicpatch.StrategicMergePatch(before, body, corev1.Pod{})
	require.NoError(c.t, err)
	next := &corev1.Pod{}
	require.NoError(c.t, json.Unmarshal(merged, next))
	if err := c.validate(next); err != nil {
		return nil, err
	}
	if fmt.Sprint(specOf(next)) != fmt.Sprint(specOf(c.pod)) {
		c.pod.Spec = next.Spec
		c.pod.Generation++
		c.patchedAt = c.now
	}
	return c.pod.DeepCopy(), nil
}

// validate returns the API server's validation errors.
func (c *cluster) validate(next *corev1.Pod) error {
	invalid := func(path, message string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, next.Name, field.ErrorList{field.Invalid(field.NewPath(path), "", message)})
	}
	if next.UID != c.pod.UID {
		return invalid("metadata.uid", "field is immutable")
	}
	if len(next.Spec.Containers) != len(c.pod.Spec.Containers) {
		return invalid("spec.containers", "containers may not be added or removed on resize")
	}
	if podview.QOSClass(next) != c.pod.Status.QOSClass {
		return invalid("spec", "Pod QOS Class may not change as a result of resizing")
	}
	for name, to := range specOf(next) {
		from := specOf(c.pod)[name]
		for _, r := range recommender.Resources {
			if to[r].Limit > 0 && to[r].Request > to[r].Limit {
				return invalid("spec.containers.resources.requests", "must be less than or equal to limit")
			}
		}
		if c.minor < MinorMemoryLimitDecrease && (Plan{Moves: []Move{{From: from, To: to}}}).LowersMemoryLimit() {
			return invalid("spec.containers.resources.limits", "memory limits cannot be decreased unless resizePolicy is RestartContainer")
		}
	}
	requests := podview.Requests(next)
	for _, r := range recommender.Resources {
		if !c.noCapacityCheck && requests[r] > c.allocatable[r] {
			err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, next.Name,
				fmt.Errorf("node didn't have enough allocatable resources: %s, requested: %d, allocatable: %d", r, requests[r], c.allocatable[r]))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NodeCapacity"}}
			return err
		}
	}
	return nil
}

// pass advances the time, one second at a time.
func (c *cluster) pass(d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); {
		c.now = c.now.Add(time.Second)
		if c.pod != nil && !c.down {
			c.sync()
		}
	}
}

// sync is one sync of the pod by the kubelet.
func (c *cluster) sync() {
	if c.evaluated != c.pod.Generation && !c.now.Before(c.patchedAt.Add(c.observeAfter)) || c.deferred() {
		c.evaluate()
	}
	c.actuate()
	c.killOverLimit()
	c.publish()
}

func (c *cluster) deferred() bool {
	pending := podview.Condition(c.pod, corev1.PodResizePending)
	return pending != nil && pending.Reason == corev1.PodReasonDeferred
}

// evaluate decides about the newest spec: nothing to do, infeasible, deferred, or allocated.
func (c *cluster) evaluate() {
	c.evaluated = c.pod.Generation
	desired := specOf(c.pod)
	clearCondition(c.pod, corev1.PodResizePending)
	if fmt.Sprint(desired) == fmt.Sprint(c.allocated) {
		return
	}
	if c.staticCPU && podview.Guaranteed(c.pod) && cpuChanges(c.allocated, desired) {
		c.pend(corev1.PodReasonInfeasible, `Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"`)
		return
	}
	requests := podview.Requests(c.pod)
	for _, r := range recommender.Resources {
		if requests[r] > c.allocatable[r] && c.minor <= 35 {
			c.pend(corev1.PodReasonInfeasible, fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d", r, requests[r], c.allocatable[r]))
			return
		}
		if requests[r] > c.free[r] {
			c.pend(corev1.PodReasonDeferred, fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: 0, capacity: %d", r, requests[r], c.free[r]))
			return
		}
	}
	c.allocated, c.allocatedAt = desired, c.now
	setCondition(c.pod, corev1.PodResizeInProgress, "", "", c.generation())
}

func cpuChanges(a, b map[string]recommender.Size) bool {
	for name := range b {
		if a[name][recommender.CPU] != b[name][recommender.CPU] {
			return true
		}
	}
	return false
}

func (c *cluster) pend(reason, message string) {
	setCondition(c.pod, corev1.PodResizePending, reason, message, c.generation())
}

// generation as the kubelet reports it: 1.33 reports none.
func (c *cluster) generation() int64 {
	if c.minor < 34 {
		return 0
	}
	return c.pod.Generation
}

// actuate carries out the allocated resources, completely or not at all.
func (c *cluster) actuate() {
	if fmt.Sprint(c.allocated) == fmt.Sprint(c.actuated) || c.now.Before(c.allocatedAt.Add(c.actuateAfter)) {
		if fmt.Sprint(c.allocated) == fmt.Sprint(c.actuated) {
			clearCondition(c.pod, corev1.PodResizeInProgress)
		}
		return
	}
	for name, size := range c.allocated {
		limit := size[recommender.Memory].Limit
		if limit < c.actuated[name][recommender.Memory].Limit && c.usage[name] >= limit {
			setCondition(c.pod, corev1.PodResizeInProgress, corev1.PodReasonError, fmt.Sprintf(
				`cannot decrease memory limits: [attempting to set container "%s" memory limit (%d) below current usage (%d)]`, name, limit, c.usage[name]), c.generation())
			return
		}
	}
	for _, container := range podview.Resizable(c.pod) {
		if m := (Move{From: c.actuated[container.Name], To: c.allocated[container.Name]}); m.RestartsContainer(container) {
			c.restart(container.Name, "Completed", 0)
		}
	}
	c.actuated = c.allocated
	clearCondition(c.pod, corev1.PodResizeInProgress)
}

// killOverLimit: the kernel kills a container over its limit, and it restarts with the allocated resources.
func (c *cluster) killOverLimit() {
	for name, size := range c.actuated {
		if limit := size[recommender.Memory].Limit; limit > 0 && c.usage[name] > limit {
			c.restart(name, podview.OOMKilled, 137)
		}
	}
}

func (c *cluster) restart(name, reason string, code int32) {
	status := podview.Statuses(c.pod)[name]
	status.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		Reason: reason, ExitCode: code, ContainerID: status.ContainerID,
		StartedAt: status.State.Running.StartedAt, FinishedAt: metav1.NewTime(c.now),
	}
	status.RestartCount++
	status.ContainerID = fmt.Sprintf("containerd://%s-%d", name, status.RestartCount)
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.now)}
	actuated := map[string]recommender.Size{}
	for n, s := range c.actuated {
		actuated[n] = s
	}
	actuated[name] = c.allocated[name]
	c.actuated = actuated
}

// publish writes the pod's status.
func (c *cluster) publish() {
	statuses := podview.Statuses(c.pod)
	for name, size := range c.actuated {
		if c.rounding > 0 && size[recommender.CPU].Limit > 0 {
			size[recommender.CPU].Limit += c.rounding
		}
		resources := podview.ToRequirements(size)
		statuses[name].Resources = &resources
		statuses[name].AllocatedResources = podview.ToRequirements(c.allocated[name]).Requests
	}
	c.pod.Status.ObservedGeneration = 0
	if c.minor >= 34 {
		c.pod.Status.ObservedGeneration = c.evaluated
	}
}

// operator uses this package as the workload loop does: it decides, stores, then acts.
type operator struct {
	rules   Rules
	signals harm.Signals
	record  *v1alpha1.ResizeRecord
	floors  []v1alpha1.Floor
	backoff *v1alpha1.Backoff
	kept    []v1alpha1.VerifiedResources
	history []v1alpha1.HistoryEntry
	// loseAnswer: the next patch is stored but its answer is lost; crash: the next patch is never sent.
	loseAnswer, crash bool
	// refuse is the API server's answer to the next patch.
	refuse error
	log    []string
}

// begin starts a resize of a pod towards a wish.
func (o *operator) begin(c *cluster, wished []podview.Container) *Refusal {
	plan, refusal := PlanFor(c.pod, wished, c.caps(), c.now)
	if refusal != nil {
		return refusal
	}
	parts := Split(plan)
	record := NewRecord(parts[0], c.pod, c.now, o.rules)
	if len(parts) > 1 {
		record = WithSecond(record, parts[1], c.pod)
	}
	o.record = stored(c.t, record)
	o.send(c, parts[0])
	return nil
}

// stored returns a record as the API server returns it, with times in whole seconds.
func stored(t *testing.T, record v1alpha1.ResizeRecord) *v1alpha1.ResizeRecord {
	raw, err := json.Marshal(record)
	require.NoError(t, err)
	back := &v1alpha1.ResizeRecord{}
	require.NoError(t, json.Unmarshal(raw, back))
	return back
}

func (o *operator) send(c *cluster, plan Plan) {
	if o.crash {
		o.crash = false
		return
	}
	returned, err := (*corev1.Pod)(nil), o.refuse
	if o.refuse = nil; err == nil {
		returned, err = c.patch(plan.Patch())
	}
	if o.loseAnswer {
		o.loseAnswer = false
		return
	}
	switch outcome := Classify(err); {
	case outcome.Kind == OutcomeAccepted:
		o.record = stored(c.t, RecordReturned(*o.record, returned))
	case outcome.Refused() && InSecondPatch(*o.record):
		o.log = append(o.log, "second patch refused by the API server: "+outcome.Reason)
		o.record = stored(c.t, SecondRefused(*o.record, c.pod))
	case outcome.Refused() && o.record.Phase == v1alpha1.RecordWritten:
		o.log = append(o.log, "refused by the API server: "+outcome.Reason)
		o.record = nil
	}
}

// look is one reconcile of the open record.
func (o *operator) look(c *cluster) {
	if o.record == nil {
		return
	}
	var pod *corev1.Pod
	if c.pod != nil {
		pod = c.pod.DeepCopy()
	}
	state := harm.Assess(pod, *o.record, c.caps(), c.now, o.rules, o.signals)
	action := Next(state, *o.record, o.rules, Circumstances{}, c.now)
	o.note(state, action)
	if state.Kind == Harmed {
		o.floors = harm.LearnHarm(o.floors, state.Verdict, *o.record, false, c.now)
	}
	next := Advance(*o.record, action, c.now)
	if action.Kind == Revert && o.record.Phase != next.Phase {
		o.backoff = MoreBackoff(o.backoff, *o.record, c.now)
	}
	o.record = stored(c.t, next)
	switch action.Kind {
	case Revert, Withdraw:
		if plan, refusal := RevertPlan(pod, next, c.caps()); refusal == nil {
			o.send(c, plan)
		}
	case SendRest:
		o.send(c, RestPlan(pod, next))
	case Forget:
		o.history = AddHistory(o.history, HistoryRows("web", next, action.Result, action.Reason, c.now))
		if action.Keep {
			o.kept = harm.AddVerified(o.kept, next, o.floors, c.now)
			if EndsBackoff(o.backoff, next) {
				o.backoff = nil
			}
		}
		o.record = nil
	}
}

// note logs a change: the state, the action, its reason, and its result.
func (o *operator) note(state State, action Action) {
	line := strings.Join(strings.Fields(fmt.Sprintf("%s: %s %s %s", state.Kind, action.Kind, action.Reason, action.Result)), " ")
	if len(o.log) == 0 || o.log[len(o.log)-1] != line {
		o.log = append(o.log, line)
	}
}

// run reconciles every 5 seconds for a while.
func (o *operator) run(c *cluster, d time.Duration) {
	for end := c.now.Add(d); c.now.Before(end); {
		c.pass(5 * time.Second)
		o.look(c)
	}
}
