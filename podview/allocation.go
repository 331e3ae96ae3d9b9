package podview

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// Container is the size of one resizable container of a pod: what the container has, or, as a wish, what it is to
// have.
type Container struct {
	// Name of the container in the pod's spec.
	Name string
	// Sidecar is true for a native sidecar: an init container with the restart policy Always.
	Sidecar bool
	// Size is the live allocation where it was read from a pod. As a wish, an absent amount leaves that
	// value alone: Kubernetes lets a resize add a request or a limit but never remove one.
	Size recommender.Size
	// MemoryUsage, of a wish, is the memory the container's cgroup holds now, page cache included
	// (container_memory_usage_bytes); 0 is unknown.
	MemoryUsage recommender.Amount
}

// Read is what every resizable container of a pod has: the amounts its kubelet allocated. While a
// resize is under way, requests come from allocatedResources and limits from what the runtime reports,
// since the API shows no allocated limits; else the spec says it. Regular containers come first, then
// native sidecars, both in the pod's order.
// For a pod whose containers have no status yet, it returns the amounts of the spec.
func Read(pod *corev1.Pod) []Container {
	underway := ResizeUnderway(pod)
	statuses := Statuses(pod)
	containers := make([]Container, 0, len(pod.Spec.Containers))
	for _, c := range Resizable(pod) {
		size := ReadSpec(c.Resources)
		if status := statuses[c.Name]; status != nil {
			size = allocated(size, status, underway)
		}
		containers = append(containers, Container{Name: c.Name, Sidecar: IsSidecar(pod, c), Size: size})
	}
	return containers
}

// ByName indexes containers by their names, which are unique within a pod.
func ByName(containers []Container) map[string]Container {
	named := make(map[string]Container, len(containers))
	for _, c := range containers {
		named[c.Name] = c
	}
	return named
}

// Specs returns what the pod's spec asks for, by the name of the container; init containers that end are left out.
func Specs(pod *corev1.Pod) map[string]recommender.Size {
	sizes := map[string]recommender.Size{}
	for _, c := range Resizable(pod) {
		sizes[c.Name] = ReadSpec(c.Resources)
	}
	return sizes
}

// TemplateSizes are the Specs of a pod template; empty where it is not known (nil).
func TemplateSizes(template *corev1.PodTemplateSpec) map[string]recommender.Size {
	if template == nil {
		return map[string]recommender.Size{}
	}
	return Specs(&corev1.Pod{Spec: template.Spec})
}

// TemplateSize is what a template sets for one of its containers, init containers included; false: it does not have it,
// or is not known (nil).
func TemplateSize(template *corev1.PodTemplateSpec, container string) (recommender.Size, bool) {
	if template == nil {
		return recommender.Size{}, false
	}
	for _, c := range AllContainers(&corev1.Pod{Spec: template.Spec}) {
		if c.Name == container {
			return ReadSpec(c.Resources), true
		}
	}
	return recommender.Size{}, false
}

// UnschedulableSince returns when the scheduler last found no node for a pod; false: it did not try, or found one.
func UnschedulableSince(pod *corev1.Pod) (time.Time, bool) {
	if c := Condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		return c.LastTransitionTime.Time, true
	}
	return time.Time{}, false
}

// Within reports whether amounts, indexed by Resource, are no more than what there is of each resource.
func Within(needs, left [2]recommender.Amount) bool {
	return needs[0] <= left[0] && needs[1] <= left[1]
}

// OriginalsOf are the sizes that the containers of a template's pods had before attune, as they are noted for the hash of the
// template; nil: nothing is noted.
func OriginalsOf(rec *v1alpha1.AttuneRecommendation, templateHash string) map[string]recommender.Size {
	for _, o := range slices.Backward(rec.Status.Originals) { // the newest are last
		if o.TemplateHash == templateHash {
			return SizesOf(o.Containers)
		}
	}
	return nil
}

// Combine returns the size whose amounts are those that a function makes of each pair of amounts of two sizes.
func Combine(a, b recommender.Size, of func(a, b recommender.Amount) recommender.Amount) recommender.Size {
	for r := range a {
		a[r] = recommender.Allocation{Request: of(a[r].Request, b[r].Request), Limit: of(a[r].Limit, b[r].Limit)}
	}
	return a
}

// Fill returns a size with the amounts of another one where it has none.
func Fill(size, with recommender.Size) recommender.Size {
	return Combine(size, with, func(a, b recommender.Amount) recommender.Amount { return cmp.Or(a, b) })
}

// Sum adds requests and limits, resource by resource.
func Sum(a, b recommender.Size) recommender.Size {
	return Combine(a, b, func(a, b recommender.Amount) recommender.Amount { return a + b })
}

// SizesOf reads stored resources by the name of the container.
func SizesOf(stored []v1alpha1.ContainerResources) map[string]recommender.Size {
	sizes := make(map[string]recommender.Size, len(stored))
	for _, c := range stored {
		sizes[c.Name] = FromResources(c.Resources)
	}
	return sizes
}

// SeedRequests are the requests that a seed (nil: there is none) gives new pods in a container; 0: none.
func SeedRequests(seed *v1alpha1.Seed, container string) recommender.Size {
	for _, s := range ptr.Deref(seed, v1alpha1.Seed{}).Containers {
		if s.Name == container {
			return FromResources(v1alpha1.Resources{CPURequest: s.CPURequest, MemoryRequest: s.MemoryRequest})
		}
	}
	return recommender.Size{}
}

// ReadSpec reads the requests and limits of a spec. Absent or negative amounts are 0.
func ReadSpec(resources corev1.ResourceRequirements) recommender.Size {
	var size recommender.Size
	for _, r := range recommender.Resources {
		size[r] = recommender.Allocation{
			Request: AmountIn(r, resources.Requests),
			Limit:   WholeLimit(r, resources.Limits),
		}
	}
	return size
}

// WholeLimit is the limit of a resource in a list, rounded down to a whole amount (AtMost); 0: there is none.
func WholeLimit(r recommender.Resource, limits corev1.ResourceList) recommender.Amount {
	return AtMost(r, limits[NameOf(r)])
}

// AtMost reads a quantity as a bound from above, rounded down: 2.2Gi ends in a part of a byte, and a request of the next
// whole one would be above it.
// AmountOf rounds up instead, which is right for requests.
func AtMost(r recommender.Resource, q resource.Quantity) recommender.Amount {
	amount := AmountOf(r, q)
	if up := Quantity(r, amount); amount > 0 && up.Cmp(q) > 0 {
		amount--
	}
	return amount
}

// FromResources reads stored resources.
func FromResources(stored v1alpha1.Resources) recommender.Size {
	return recommender.Size{
		recommender.CPU: {
			Request: FromPointer(recommender.CPU, stored.CPURequest),
			Limit:   FromPointer(recommender.CPU, stored.CPULimit),
		},
		recommender.Memory: {
			Request: FromPointer(recommender.Memory, stored.MemoryRequest),
			Limit:   FromPointer(recommender.Memory, stored.MemoryLimit),
		},
	}
}

// HasTarget reports whether a recommendation has a target for at least one container.
func HasTarget(spec v1alpha1.AttuneRecommendationSpec) bool {
	return slices.ContainsFunc(spec.Containers, func(c v1alpha1.ContainerTarget) bool {
		return FromResources(c.Target) != (recommender.Size{})
	})
}

// LargestNode reads a stored bound, in millicores and bytes, indexed by resource; nil or 0: not known.
func LargestNode(stored *v1alpha1.LargestNode) [2]recommender.Amount {
	if stored == nil {
		return [2]recommender.Amount{}
	}
	return [2]recommender.Amount{
		recommender.CPU:    FromPointer(recommender.CPU, stored.CPU),
		recommender.Memory: FromPointer(recommender.Memory, stored.Memory),
	}
}

// ToResources is the stored form of a size; absent amounts stay absent.
func ToResources(size recommender.Size) v1alpha1.Resources {
	return v1alpha1.Resources{
		CPURequest:    ToPointer(recommender.CPU, size[recommender.CPU].Request),
		CPULimit:      ToPointer(recommender.CPU, size[recommender.CPU].Limit),
		MemoryRequest: ToPointer(recommender.Memory, size[recommender.Memory].Request),
		MemoryLimit:   ToPointer(recommender.Memory, size[recommender.Memory].Limit),
	}
}

// ToRequirements is the pod spec's form of a size; absent amounts stay absent.
func ToRequirements(size recommender.Size) corev1.ResourceRequirements {
	var requirements corev1.ResourceRequirements
	for _, r := range recommender.Resources {
		requirements.Requests = Put(requirements.Requests, r, size[r].Request)
		requirements.Limits = Put(requirements.Limits, r, size[r].Limit)
	}
	return requirements
}

// Quantity is an amount as Kubernetes writes it: whole millicores, whole bytes.
func Quantity(r recommender.Resource, amount recommender.Amount) resource.Quantity {
	if r == recommender.Memory {
		return *resource.NewQuantity(int64(amount), resource.BinarySI)
	}
	return *resource.NewMilliQuantity(int64(amount), resource.DecimalSI)
}

// AmountOf reads a quantity: CPU rounded up to a millicore, memory up to a byte. What is negative is
// absent, and what no machine has is the greatest amount there is.
func AmountOf(r recommender.Resource, q resource.Quantity) recommender.Amount {
	if q.Sign() <= 0 {
		return 0
	}
	if q.Cmp(greatest[r]) >= 0 {
		return recommender.MaxAmount
	}
	if r == recommender.Memory {
		return recommender.Amount(q.Value())
	}
	return recommender.Amount(q.MilliValue())
}

// greatest are the quantities of MaxAmount, against which AmountOf compares.
var greatest = [2]resource.Quantity{
	recommender.CPU:    Quantity(recommender.CPU, recommender.MaxAmount),
	recommender.Memory: Quantity(recommender.Memory, recommender.MaxAmount),
}

// Plausible is far above any machine, in millicores and bytes (10^12 cores, a pebibyte), and low enough that sums, products
// and ratios of a pod's or a node's amounts stay exact. What is greater is not computed with.
const Plausible = recommender.Amount(1) << 50

// NameOf is the key of a resource in a Kubernetes ResourceList.
func NameOf(r recommender.Resource) corev1.ResourceName {
	if r == recommender.Memory {
		return corev1.ResourceMemory
	}
	return corev1.ResourceCPU
}

// allocated replaces a spec's amounts by those that the container's status says it has. Limits within
// the machine's rounding are taken as the spec has them.
func allocated(spec recommender.Size, status *corev1.ContainerStatus, underway bool) recommender.Size {
	size := spec
	for _, r := range recommender.Resources {
		if status.AllocatedResources != nil {
			size[r].Request = AmountIn(r, status.AllocatedResources)
		}
		if !underway || status.Resources == nil {
			continue
		}
		if limit := AmountIn(r, status.Resources.Limits); !NearLimit(r, limit, spec[r].Limit) {
			size[r].Limit = limit
		}
	}
	return size
}

// ResizeUnderway reports whether the pod may have other amounts than its spec asks for: a resize is pending, in
// progress, not observed, or not allocated. Kubelets of 1.33 report no observed generation, so the last check
// compares amounts.
func ResizeUnderway(pod *corev1.Pod) bool {
	observed := pod.Status.ObservedGeneration
	return Condition(pod, corev1.PodResizePending) != nil ||
		Condition(pod, corev1.PodResizeInProgress) != nil ||
		observed != 0 && observed < pod.Generation || !IsAllocated(pod)
}

// ContainerOf is the container of a name among those that a resize may change, or nil.
func ContainerOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, c := range Resizable(pod) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

// Resizable lists the containers that a resize may change.
func Resizable(pod *corev1.Pod) []*corev1.Container { return ResizableIn(&pod.Spec) }

// AllContainers are regular and init containers, in the order in which the API server looks at them.
func AllContainers(pod *corev1.Pod) []*corev1.Container {
	list := make([]*corev1.Container, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
	for _, of := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range of {
			list = append(list, &of[i])
		}
	}
	return list
}

// ResizableIn lists the containers of a pod, or of a template, that can be sized: regular ones, then native sidecars. Printed
// columns show the first.
func ResizableIn(spec *corev1.PodSpec) []*corev1.Container {
	list := make([]*corev1.Container, 0, len(spec.Containers))
	for i := range spec.Containers {
		list = append(list, &spec.Containers[i])
	}
	for i := range spec.InitContainers {
		if RestartsAlways(&spec.InitContainers[i]) {
			list = append(list, &spec.InitContainers[i])
		}
	}
	return list
}

// IsSidecar reports whether the container is a native sidecar: an init container that always restarts. A regular
// container may have a restart policy of its own too, so the list decides.
func IsSidecar(pod *corev1.Pod, c *corev1.Container) bool {
	return RestartsAlways(c) && slices.ContainsFunc(pod.Spec.InitContainers, func(init corev1.Container) bool { return init.Name == c.Name })
}

// RestartsAlways reports whether the container has a restart policy of its own with the value Always.
func RestartsAlways(c *corev1.Container) bool {
	return c.RestartPolicy != nil && IsAlways(*c.RestartPolicy)
}

// IsAlways reports whether a container's own restart policy is Always; the empty policy, for a container without
// one, is not.
func IsAlways[P ~string](policy P) bool {
	return corev1.ContainerRestartPolicy(policy) == corev1.ContainerRestartPolicyAlways
}

// Statuses finds container and init container statuses by name; names are unique across both.
func Statuses(pod *corev1.Pod) map[string]*corev1.ContainerStatus {
	statuses := make(map[string]*corev1.ContainerStatus, len(pod.Status.ContainerStatuses))
	for _, of := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range of {
			statuses[of[i].Name] = &of[i]
		}
	}
	return statuses
}

// Condition is a pod's condition of a type, or nil.
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Running reports whether a pod runs and is not being deleted.
func Running(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
}

// IsReady reports whether the pod's Ready condition is True; false where it has none.
func IsReady(pod *corev1.Pod) bool {
	c := Condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// AmountIn is the amount of a resource in a list; 0: none.
func AmountIn(r recommender.Resource, list corev1.ResourceList) recommender.Amount {
	return AmountOf(r, list[NameOf(r)])
}

// FromPointer is AmountOf a quantity that may be absent.
func FromPointer(r recommender.Resource, q *resource.Quantity) recommender.Amount {
	return AmountOf(r, ptr.Deref(q, resource.Quantity{}))
}

// ToPointer returns the quantity of an amount; nil for 0 and below.
func ToPointer(r recommender.Resource, amount recommender.Amount) *resource.Quantity {
	if amount <= 0 {
		return nil
	}
	q := Quantity(r, amount)
	return &q
}

// Put sets an amount in a list, which is created where it is nil, and returns the list; 0 is left out.
func Put(list corev1.ResourceList, r recommender.Resource, amount recommender.Amount) corev1.ResourceList {
	if amount <= 0 {
		return list
	}
	if list == nil {
		list = corev1.ResourceList{}
	}
	list[NameOf(r)] = Quantity(r, amount)
	return list
}

// IsAllocated reports whether the kubelet has allocated every request of every container that has started. Limits
// are not compared: the API shows no allocated limits.
func IsAllocated(pod *corev1.Pod) bool {
	statuses := Statuses(pod)
	for _, c := range Resizable(pod) {
		status := statuses[c.Name]
		if status == nil || status.AllocatedResources == nil {
			continue
		}
		for _, r := range recommender.Resources {
			if AmountIn(r, status.AllocatedResources) != AmountIn(r, c.Resources.Requests) {
				return false
			}
		}
	}
	return true
}

// RestartPolicyFor returns whether a change of the resource restarts the container: NotRequired where its
// resizePolicy does not name the resource, as in the API server.
func RestartPolicyFor(c *corev1.Container, name corev1.ResourceName) corev1.ResourceResizeRestartPolicy {
	for _, p := range c.ResizePolicy {
		if p.ResourceName == name {
			return p.RestartPolicy
		}
	}
	return corev1.NotRequired
}
