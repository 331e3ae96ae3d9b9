package answers

import (
	"cmp"
	"math"
	"slices"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Explanation is the answer of kubectl attune explain. Its JSON is a contract with scripts.
// For example, shortened:
//
//	{"workload": {"namespace": "shop", "kind": "Deployment", "name": "web",
//	    "policy": "web", "mode": "Auto"},
//	 "containers": [{"name": "app", "confidence": 0.9, "dataPoints": 2016,
//	    "current": {"cpuRequest": "500m"}, "target": {"cpuRequest": "200m"},
//	    "next": {"cpuRequest": "250m"}, "holds": [],
//	    "steps": [{"resource": "cpu", "name": "…", "before": "200m",
//	      "after": "240m", "reason": "…"}]}]}
type Explanation struct {
	// Workload is nil if recorded usage was explained.
	Workload *ExplainedWorkload `json:"workload,omitempty"`
	// Containers in the order of the recommendation; never nil.
	Containers []ExplainedContainer `json:"containers"`
	// NotSized are containers of running pods that the pod template does not have, by name. attune has no recommendation
	// for them and does not change them.
	NotSized []InjectedContainer `json:"notSized,omitempty"`
	// Settings of the policy; nil if recorded usage was explained, or if the settings are not known.
	Settings []Setting `json:"settings,omitempty"`
}

// ExplainedWorkload identifies the explained workload.
type ExplainedWorkload struct {
	// Namespace, Kind (such as Deployment) and Name identify it.
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	// Policy is the name of the AttunePolicy that sizes it, or AttuneClusterPolicy/NAME. Mode is the mode of that
	// policy, such as Auto.
	Policy string `json:"policy"`
	Mode   string `json:"mode"`
	// Identity with which the workload shares its usage history; empty: with none. Sharing counts the workloads of the
	// kind with that identity; 0: not known.
	Identity string `json:"identity,omitempty"`
	Sharing  int    `json:"sharing,omitempty"`
	// Unreadable is why the operator cannot read the pod template, so that it does not size the workload; empty if it
	// can.
	Unreadable string `json:"unreadable,omitempty"`
	// AdmissionWithdrawn is why new pods are created without admission resources, and until when; empty if they get them.
	AdmissionWithdrawn string `json:"admissionWithdrawn,omitempty"`
	// Blocked lists what blocks the whole workload, such as a pause or a cooldown, and what lifts it.
	Blocked []Blocked `json:"blocked,omitempty"`
	// NextResize says when the next resize of a running pod may start, or what it waits for; empty: none is planned.
	NextResize string `json:"nextResize,omitempty"`
	// InitContainers has a sentence for each init container that ends and requests more than the targets of the containers
	// together, or that an entry of containerPolicies names.
	InitContainers []string `json:"initContainers,omitempty"`
	// NewPods is why new pods keep the resources of their template although the mode sizes them, such as the setting
	// admission; empty: the mode does not size them, or nothing is known to prevent it.
	NewPods string `json:"newPods,omitempty"`
}

// InjectedContainer is a container that admission added to pods, such as a service mesh's proxy.
type InjectedContainer struct {
	// Name of the container.
	Name string `json:"name"`
	// Sidecar is true for a native sidecar, an init container with restartPolicy Always.
	Sidecar bool `json:"sidecar,omitempty"`
	// Current is what it has in the first pod by name.
	Current Amounts `json:"current"`
	// Pods is the number of running pods that have it, Of the number of running pods.
	Pods int `json:"pods"`
	Of   int `json:"of"`
	// Reason is why attune does not size it.
	Reason string `json:"reason"`
}

// ExplainedContainer is one container's recommendation, and how it was computed.
type ExplainedContainer struct {
	// Name in the pod template. For recorded usage it is the series_id.
	Name string `json:"name"`
	// Confidence is from 0 (no data) to 1.
	Confidence float64 `json:"confidence"`
	// DataPoints is the number of samples of history with data.
	DataPoints int `json:"dataPoints"`
	// Current is what the container has now. An amount that is not set or not known is null.
	Current Amounts `json:"current"`
	// Target is what the recommender computed. A single resize step may be smaller.
	Target Amounts `json:"target"`
	// Next is what would be applied now; empty if the settings of the policy are not known.
	Next Amounts `json:"next"`
	// Holds are the reasons why a resource is blocked, CPU first.
	Holds []Hold `json:"holds"`
	// Steps are the computation of the target, then the steps of Next; CPU first.
	Steps []Step `json:"steps"`
	// Pods are the running pods, each with its own next resize step; nil if recorded usage was explained.
	Pods []ExplainedPod `json:"pods,omitempty"`
	// Usage is one line of text per resource, for display only; empty if there is no usage to show.
	Usage [2]string `json:"-"`
}

// ExplainedPod is one running pod and its next resize step towards the target.
type ExplainedPod struct {
	// Name of the pod.
	Name string `json:"name"`
	// Current is what its container has.
	Current Amounts `json:"current"`
	// Next is what would be applied now.
	Next Amounts `json:"next"`
	// Holds are the reasons why the next resize step stops short of the target; never nil.
	Holds []Hold `json:"holds"`
}

// Hold is a reason why a resource has no target or is blocked.
type Hold = v1alpha1.Hold

// holdsOf formats the holds of the recommender. The result is never nil, so that the JSON has an empty list.
func holdsOf(holds []recommender.Hold) []Hold {
	return append([]Hold{}, podview.Map(holds, func(h recommender.Hold) Hold {
		return Hold{Resource: h.Resource.String(), Reason: string(h.Reason), Message: h.Message}
	})...)
}

// stepsOf formats the steps of the recommender. The result is never nil.
func stepsOf(steps []recommender.Step) []Step {
	return append([]Step{}, podview.Map(steps, StepOf)...)
}

// joinHolds joins lists of holds without duplicates, CPU first.
func joinHolds(lists ...[]Hold) []Hold {
	joined := []Hold{}
	for _, hold := range slices.Concat(lists...) {
		if !slices.Contains(joined, hold) {
			joined = append(joined, hold)
		}
	}
	slices.SortStableFunc(joined, func(a, b Hold) int { return cmp.Compare(a.Resource, b.Resource) })
	return joined
}

// joinSteps appends the steps of a pod's change that the stored trace does not have. CPU comes first, and the steps of
// a resource keep their order.
func joinSteps(trace, change []Step) []Step {
	joined := slices.Clone(trace)
	for _, step := range change {
		if !slices.ContainsFunc(trace, func(s Step) bool { return s.Resource == step.Resource && s.Name == step.Name }) {
			joined = append(joined, step)
		}
	}
	slices.SortStableFunc(joined, func(a, b Step) int { return cmp.Compare(a.Resource, b.Resource) })
	return joined
}

// ChangedField is one value of a container's resources. Both sides are Kubernetes quantities.
type ChangedField struct {
	// Name is the path under resources in a manifest, such as requests.cpu.
	Name string
	// Current is the value in the template; nil if not set.
	Current *string
	// Target is the recommended value; nil if there is no recommendation.
	Target *string
}

// Differences returns the values that differ from the target. It leaves out values without a target, and resources with a
// hold, unless lifted names its reason for CPU.
func (c ExplainedContainer) Differences(lifted ...string) (different []ChangedField) {
	counts := func(h Hold) bool { return h.Resource != recommender.CPU.String() || !slices.Contains(lifted, h.Reason) }
	for _, r := range recommender.Resources {
		if slices.ContainsFunc(c.Holds, func(h Hold) bool { return h.Resource == r.String() && counts(h) }) {
			continue
		}
		request, limit := c.Values(r)
		for _, field := range []ChangedField{{"requests." + r.String(), request.Current, request.Target}, {"limits." + r.String(), limit.Current, limit.Target}} {
			if field.Target != nil && (field.Current == nil || *field.Current != *field.Target) {
				different = append(different, field)
			}
		}
	}
	return different
}

// isBlocked reports whether a hold applies to the resource.
func isBlocked(holds []Hold, r recommender.Resource) bool {
	return slices.ContainsFunc(holds, func(hold Hold) bool { return hold.Resource == r.String() })
}

// ExplainOffline explains a container without a cluster. It computes the recommendation; the next resize step starts
// from in.Original.
func ExplainOffline(in recommender.Input) ExplainedContainer {
	rec := recommender.Recommend(in)
	// The step towards the target comes from the same function as for a running pod.
	to := heading{
		move: recommender.Move{Container: in.Container, Guaranteed: in.Guaranteed, CPULimitFloor: rec.CPULimitFloor, MemoryLimitFloor: rec.MemoryLimitFloor,
			OOMFloor: max(in.Floors[recommender.Memory].Amount, in.Killed.Amount), Settings: in.Settings},
		holds: holdsOf(rec.Holds),
	}
	// NextStep does not change a resource whose target is 0, so a hold sets it to 0.
	target := rec.Target
	for _, r := range recommender.Resources {
		if isBlocked(to.holds, r) {
			target[r] = recommender.Allocation{}
		}
	}
	// The container does not run, so its original size is also its current size.
	change := to.toward(target, in.Original, in.Original)
	return ExplainedContainer{
		Name:       in.Container,
		Confidence: rounded(rec.Confidence),
		DataPoints: rec.DataPoints,
		Current:    AmountsOf(in.Original),
		Target:     AmountsOf(rec.Target),
		Next:       to.next(change),
		Holds:      joinHolds(to.holds, holdsOf(change.Holds)),
		Steps:      joinSteps(stepsOf(rec.Steps), stepsOf(change.Steps)),
	}
}

// rounded removes floating-point noise: 0.8 instead of 0.7999999999999999.
func rounded(confidence float64) float64 { return math.Round(confidence*1e6) / 1e6 }

// Setting is one field of the settings that size a workload.
type Setting struct {
	// Field is its path in the spec of a policy, such as cpu.percentile.
	Field string `json:"field"`
	// Value as in a manifest; empty if not set.
	Value string `json:"value"`
	// SetBy names the object that sets the field, such as AttunePolicy web, or is built-in.
	SetBy   string `json:"setBy"`
	builtIn bool
}

// SettingsOf returns the settings of a recommendation's policy: first the fields that an object sets, then the built-in
// fields that have a value.
func SettingsOf(fields []policy.Field, rec *v1alpha1.AttuneRecommendation) []Setting {
	var settings []Setting
	for _, builtIn := range []bool{false, true} {
		for _, f := range fields {
			if (f.Level == policy.BuiltIn) == builtIn && (!builtIn || f.Value != "") {
				settings = append(settings, Setting{f.Path, f.Value, f.Level.Object(rec.Spec.Policy, rec.Namespace), builtIn})
			}
		}
	}
	return settings
}
