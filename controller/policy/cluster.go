package policy

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

// A cluster policy is reconciled in each of its namespaces like a policy of that namespace (policy.Instance), under
// the key NAMESPACE/AttuneClusterPolicy/NAME. Each of these reconciles stores its part here. The reconcile of the key
// without a namespace writes the status of the whole, and sets or removes its finalizer.

// summarized is how often a cluster policy's status is compared with its parts, and so written at most.
const summarized = 15 * time.Second

// parts are the results of the last reconciles of instances.
type parts struct {
	board.Table[types.NamespacedName, part]
}

// part is the summary of one namespace for a cluster policy's status. It is small, because there may be thousands.
type part struct {
	// status has the counts, the savings and the conditions for status.observedGeneration of the cluster policy. The
	// messages are cut.
	status v1alpha1.AttunePolicyStatus
	// open: a resize is in flight or under observation.
	open bool
}

// condition returns a condition of the part; without one, the zero value.
func (p part) condition(kind string) metav1.Condition {
	return ptr.Deref(meta.FindStatusCondition(p.status.Conditions, kind), metav1.Condition{})
}

// mostOfPart limits the message of a condition in a part, in bytes.
const mostOfPart = 256

// note stores the part of an instance.
func (x *parts) note(p *v1alpha1.AttunePolicy, s v1alpha1.AttunePolicyStatus) {
	s.Recommendations, s.ResizeHistory, s.Conflicts, s.Conditions = nil, nil, nil, slices.Clone(s.Conditions)
	for i := range s.Conditions {
		s.Conditions[i].Message = clip.Text(s.Conditions[i].Message, mostOfPart)
	}
	x.change(p, func(of *part) { of.status = s })
}

// unfinished stores why the reconcile of an instance ended early; the counts of an earlier one remain.
func (x *parts) unfinished(p *v1alpha1.AttunePolicy, reason string, err error, now time.Time) {
	x.change(p, func(of *part) {
		of.status = unready(p, of.status, reason, clip.Text(clip.Line(err.Error()), mostOfPart), now)
	})
}

// opened stores whether a resize is in flight or under observation for an instance.
func (x *parts) opened(p *v1alpha1.AttunePolicy, open bool) {
	x.change(p, func(of *part) { of.open = open })
}

func (x *parts) change(p *v1alpha1.AttunePolicy, change func(*part)) {
	if policy.OfCluster(p) {
		x.Change(client.ObjectKeyFromObject(p), func(of part) part {
			change(&of)
			return of
		})
	}
}

// of returns the parts of some namespaces in their order, and whether each of them has been reconciled since the
// cluster policy was changed; open reports a resize in flight or under observation in any namespace.
func (x *parts) of(name string, namespaces []string, generation int64) (found []part, complete, open bool) {
	instance := policy.InstanceName(name)
	complete = true
	for _, namespace := range namespaces {
		p, known := x.Find(types.NamespacedName{Namespace: namespace, Name: instance})
		complete = complete && known && p.status.ObservedGeneration == generation
		found = append(found, p)
	}
	open = x.Any(func(key types.NamespacedName, p part) bool { return key.Name == instance && p.open })
	return found, complete, open
}

// summarizer writes the status and the finalizer of a cluster policy as a whole.
type summarizer struct {
	client   client.Client
	settings lookup.Reader
	events   *event.Recorder
	clock    clock.PassiveClock
	// operator is the namespace of this attune installation.
	operator string
	// sized are the kinds of workloads that the loop watches.
	sized workload.Sized
	parts *parts
}

// look updates the status and the finalizer of a cluster policy. It requeues itself.
func (c summarizer) look(ctx context.Context, name string) (reconcile.Result, error) {
	used, beyond, err := c.settings.ClusterPolicies(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	again := reconcile.Result{RequeueAfter: summarized}
	named := func(p v1alpha1.AttuneClusterPolicy) bool { return p.Name == name }
	if i := slices.IndexFunc(beyond, named); i >= 0 {
		p := beyond[i].DeepCopy()
		if err := c.guard(ctx, p, false); err != nil {
			return again, err
		}
		return again, c.write(ctx, p, unreadyCluster(p, v1alpha1.ReasonTooManyPolicies, policy.TooManyClusterPolicies(), c.clock.Now()))
	}
	i := slices.IndexFunc(used, named)
	if i < 0 {
		return reconcile.Result{}, nil // it is deleted, and so are its instances
	}
	p := used[i].DeepCopy()
	if p.DeletionTimestamp != nil {
		return again, c.guard(ctx, p, false)
	}
	return again, c.summarize(ctx, p)
}

// summarize writes the status of a used cluster policy. If a namespace has not been reconciled since the start or the
// last change, the old numbers remain: the new ones would be too small.
func (c summarizer) summarize(ctx context.Context, p *v1alpha1.AttuneClusterPolicy) error {
	instance := policy.Instance(p, "", true)
	settings, err := c.settings.Settings(ctx, instance)
	invalid := lookup.Invalid(err)
	if err != nil && invalid == nil {
		return err
	}
	scope, problem := policy.ScopeOf(p, c.operator)
	selected, lacking, err := c.selected(ctx, scope)
	if err != nil {
		return err
	}
	found, complete, open := c.parts.of(p.Name, selected, p.Generation)
	if err := c.guard(ctx, p, open); err != nil {
		return err
	}
	if invalid != nil {
		problem = invalid
	}
	if problem != nil {
		reason := problem.Error()
		if !saysInvalid(p.Status.Conditions, reason) {
			c.events.Send(p, nil, event.Warning(v1alpha1.EventInvalidConfig, "%s", reason))
		}
		return c.write(ctx, p, unreadyCluster(p, v1alpha1.ReasonInvalidConfig, reason, c.clock.Now()))
	}
	if !complete {
		return nil
	}
	return c.write(ctx, p, summary{c.clock.Now(), p, settings, selected, lacking, found, c.sized}.status())
}

// selected returns the namespaces of a scope, by name. lacking are those whose new pods are not sized only because they
// do not have the label.
func (c summarizer) selected(ctx context.Context, scope policy.Scope) (out []string, lacking map[string]bool, err error) {
	namespaces, err := c.settings.Namespaces(ctx)
	lacking = map[string]bool{}
	for _, of := range namespaces {
		if !scope.Selects(of.Name, of.Labels) {
			continue
		}
		out = append(out, of.Name)
		if c.settings.Admission != nil && c.settings.Admission.Lacks(of.Name, of.Labels) {
			lacking[of.Name] = true
		}
	}
	slices.Sort(out)
	return out, lacking, err
}

// write patches the status.
func (c summarizer) write(ctx context.Context, p *v1alpha1.AttuneClusterPolicy, status v1alpha1.AttuneClusterPolicyStatus) error {
	return patchStatus(ctx, c.client, p, &p.Status, status, "cluster policy")
}

// guard sets or removes the finalizer of a cluster policy, as Controller.guard does for a policy. It removes it only
// if no recommendation of any namespace has an open record: after a start, not every namespace has a part yet.
func (c summarizer) guard(ctx context.Context, p *v1alpha1.AttuneClusterPolicy, open bool) error {
	has := controllerutil.ContainsFinalizer(p, v1alpha1.CleanupFinalizer)
	if has == open {
		return nil
	}
	if has {
		watched, err := c.watched(ctx, p.Name)
		if err != nil || watched {
			return err
		}
	}
	if _, err := loop.Guard(ctx, c.client, p, v1alpha1.CleanupFinalizer, open); err != nil {
		return fmt.Errorf("updating the finalizer of cluster policy %s: %w", p.Name, err)
	}
	return nil
}

// watched reports whether a resize of a cluster policy is in flight or under observation in a namespace that is not
// terminating.
func (c summarizer) watched(ctx context.Context, name string) (bool, error) {
	list := &v1alpha1.AttuneRecommendationList{}
	err := c.client.List(ctx, list, client.MatchingFields{policy.RecommendationsByPolicy: policy.InstanceName(name)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("listing recommendations of cluster policy %s: %w", name, err)
	}
	for i := range list.Items {
		if len(list.Items[i].Status.Records) == 0 {
			continue
		}
		of := lookup.Namespace()
		err := c.client.Get(ctx, client.ObjectKey{Name: list.Items[i].Namespace}, of, client.UnsafeDisableDeepCopy)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return false, fmt.Errorf("reading namespace %s: %w", list.Items[i].Namespace, err)
		case err == nil && of.DeletionTimestamp == nil:
			return true, nil
		}
	}
	return false, nil
}

// summaryOf is the key of a cluster policy as a whole.
func summaryOf(name string) types.NamespacedName {
	return types.NamespacedName{Name: policy.InstanceName(name)}
}

// maxUnready is how many namespaces a cluster policy's status names.
const maxUnready = 20

// summary holds all inputs of a cluster policy's status. Do not change it.
type summary struct {
	// now is the time of the reconcile.
	now    time.Time
	policy *v1alpha1.AttuneClusterPolicy
	// settings over the AttuneDefaults alone.
	settings policy.Settings
	// namespaces are the selected ones by name, parts the results for each.
	namespaces []string
	// lacking are the namespaces whose new pods are not sized only because they do not have the label.
	lacking map[string]bool
	parts   []part
	// sized are the kinds of workloads that the loop watches.
	sized workload.Sized
}

// status adds up the parts. It is pure.
func (x summary) status() v1alpha1.AttuneClusterPolicyStatus {
	s := v1alpha1.AttuneClusterPolicyStatus{
		ObservedGeneration: x.policy.Generation,
		Mode:               x.settings.Resize.Mode,
		Admission:          admissionOf(&x.settings),
		Conditions:         slices.Clone(x.policy.Status.Conditions),
		Namespaces:         &v1alpha1.NamespaceCounts{Selected: int32(len(x.namespaces))},
		Workloads:          &v1alpha1.WorkloadCounts{},
		Savings:            x.savings(),
	}
	for i, p := range x.parts {
		if counts := p.status.Workloads; counts != nil {
			s.Workloads.Discovered += counts.Discovered
			s.Workloads.WithRecommendations += counts.WithRecommendations
			s.Workloads.Resized += counts.Resized
			s.Workloads.Pending += counts.Pending
		}
		ready := p.condition(v1alpha1.ConditionReady)
		if ready.Status == metav1.ConditionTrue {
			s.Namespaces.Ready++
		}
		if wants(ready) && len(s.Unready) < maxUnready {
			s.Unready = append(s.Unready, v1alpha1.UnreadyNamespace{Namespace: x.namespaces[i], Reason: ready.Reason, Message: ready.Message})
		}
	}
	for _, c := range []metav1.Condition{
		x.ready(*s.Namespaces, s.Workloads.Discovered),
		x.first(v1alpha1.ConditionResizing, v1alpha1.ReasonIdle),
		x.first(v1alpha1.ConditionDegraded, v1alpha1.ReasonHealthy),
		x.first(v1alpha1.ConditionResizeBlocked, v1alpha1.ReasonNotBlocked),
	} {
		v1alpha1.SetCondition(&s.Conditions, c, x.policy.Generation, x.now)
	}
	return s
}

// wants reports, from the condition in a namespace, that the policy is not ready there and a user should know. A
// namespace without workloads, or whose own policies size all of them, needs no attention.
func wants(ready metav1.Condition) bool {
	return ready.Status != metav1.ConditionTrue && ready.Reason != v1alpha1.ReasonNoWorkloadsFound && ready.Reason != v1alpha1.ReasonConflict
}

// ready is True if the policy is ready in any namespace. Otherwise it has the most frequent reason.
func (x summary) ready(of v1alpha1.NamespaceCounts, workloads int32) metav1.Condition {
	reasons, example := map[string]int{}, map[string]string{}
	unready := 0
	for i, p := range x.parts {
		ready := p.condition(v1alpha1.ConditionReady)
		if !wants(ready) {
			continue
		}
		unready++
		if reasons[ready.Reason]++; reasons[ready.Reason] == 1 {
			example[ready.Reason] = x.namespaces[i] + ": " + ready.Message
		}
	}
	if of.Ready > 0 {
		c := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring,
			Message: fmt.Sprintf("watching %s in %s", answers.Counted(int(workloads), "workload"), answers.Counted(int(of.Ready), "namespace")) + runningOnly(&x.settings)}
		if unready > 0 {
			c.Message += fmt.Sprintf("; not ready in %s: status.unready lists the first", answers.Counted(unready, "namespace"))
		}
		if why := x.settings.ChangesNoPods(); why != "" {
			c.Message += "; " + why
		}
		c.Message += x.unlabelled()
		return c
	}
	switch {
	case of.Selected == 0:
		return falseCondition(v1alpha1.ConditionReady, v1alpha1.ReasonNoWorkloadsFound, "no namespace matches namespaceSelector")
	case unready == 0:
		kind := ptr.Deref(x.policy.Spec.TargetRef, v1alpha1.ClusterTargetRef{}).Kind
		return falseCondition(v1alpha1.ConditionReady, v1alpha1.ReasonNoWorkloadsFound,
			fmt.Sprintf("no workloads to size in %s: no workload matches, or other policies take precedence", answers.Counted(int(of.Selected), "namespace"))+notSized(x.sized, kind))
	}
	most := slices.MaxFunc(slices.Sorted(maps.Keys(reasons)), func(a, b string) int { return cmp.Compare(reasons[a], reasons[b]) })
	return falseCondition(v1alpha1.ConditionReady, most, fmt.Sprintf("in %d of %d namespaces, such as %s", reasons[most], of.Selected, example[most]))
}

// maxUnlabelled is how many namespaces without the label the condition Ready names.
const maxUnlabelled = 5

// unlabelled remarks the namespaces in which the policy has workloads and would size their new pods, but which do not
// have the label for it.
func (x summary) unlabelled() string {
	var names []string
	for i, p := range x.parts {
		has := p.status.Workloads != nil && p.status.Workloads.Discovered > 0
		if has && x.lacking[x.namespaces[i]] && policy.SizesNewPods(p.status.Mode, p.status.Admission) {
			names = append(names, x.namespaces[i])
		}
	}
	if len(names) == 0 {
		return ""
	}
	more := ""
	if left := len(names) - maxUnlabelled; left > 0 {
		more = fmt.Sprintf(" and %d more", left)
	}
	return fmt.Sprintf("; new pods are not sized in %d namespaces without the label %s=%s: %s%s", len(names), v1alpha1.InjectLabel, v1alpha1.InjectEnabled,
		strings.Join(names[:min(len(names), maxUnlabelled)], ", "), more)
}

// first returns the condition of the first namespace in which it is True, with the namespace's name; otherwise a
// False one with the given reason.
func (x summary) first(kind, otherwise string) metav1.Condition {
	n, first := 0, falseCondition(kind, otherwise, "")
	for i, p := range x.parts {
		c := p.condition(kind)
		if c.Status != metav1.ConditionTrue {
			continue
		}
		if n++; n == 1 {
			first.Status, first.Reason, first.Message = c.Status, c.Reason, x.namespaces[i]+": "+c.Message
		}
	}
	if n > 1 {
		first.Message += fmt.Sprintf("; and in %d more namespaces", n-1)
	}
	return first
}

// savings adds up the savings of the parts; nil in the mode Observe. Money is computed with the prices of the
// AttuneDefaults.
func (x summary) savings() *v1alpha1.Savings {
	var sum answers.SavedAmounts
	any := false
	for _, p := range x.parts {
		if of := p.status.Savings; of != nil {
			any, sum = true, sum.Plus(answers.SavedAmounts{
				recommender.CPU:    recommender.Amount(of.CPURequestReduction.MilliValue()),
				recommender.Memory: recommender.Amount(of.MemoryRequestReduction.Value()),
			})
		}
	}
	if !any {
		return nil
	}
	return savingsOf(sum, x.settings.Pricing)
}

// unreadyCluster sets the condition Ready to False. All fields except the other conditions are empty.
func unreadyCluster(p *v1alpha1.AttuneClusterPolicy, reason, message string, now time.Time) v1alpha1.AttuneClusterPolicyStatus {
	return v1alpha1.AttuneClusterPolicyStatus{ObservedGeneration: p.Generation, Conditions: notReady(p.Status.Conditions, p.Generation, reason, message, now)}
}
