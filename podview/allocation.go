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

// Container is the size of one resizable container of a pod: either its current size or a wished one.
type Container struct {
	// Name of the container in the pod's spec.
	Name string
	// Sidecar is true for a native sidecar: an init container with the restart policy Always.
	Sidecar bool
	// Size is the live allocation if it was read from a pod. In a wish, an absent amount leaves the current value
	// unchanged: a resize can add a request or a limit, but Kubernetes never lets it remove one.
	Size recommender.Size
	// MemoryUsage is set in a wish only: the memory of the container's cgroup now, in bytes, page cache included
	// (container_memory_usage_bytes). 0: not known.
	MemoryUsage recommender.Amount
}

// Read returns the amounts that the kubelet allocated to each resizable container of the pod. While a resize is under
// way, requests come from allocatedResources and limits from the runtime's report, since the API shows no allocated
// limits. Otherwise limits come from the spec. Containers without a status have the amounts of the spec. Regular
// containers come first, then native sidecars, both in the pod's order.
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

// Specs returns the sizes in the pod's spec by container name, without init containers that terminate.
func Specs(pod *corev1.Pod) map[string]recommender.Size {
	sizes := map[string]recommender.Size{}
	for _, c := range Resizable(pod) {
		sizes[c.Name] = ReadSpec(c.Resources)
	}
	return sizes
}

// TemplateSizes returns the Specs of a pod template. It is empty if the template is not known (nil).
func TemplateSizes(template *corev1.PodTemplateSpec) map[string]recommender.Size {
	if template == nil {
		return map[string]recommender.Size{}
	}
	return Specs(&corev1.Pod{Spec: template.Spec})
}

// TemplateSize returns the size that a template sets for one container, init containers included. It is false if the
// template is not known (nil) or has no such container.
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

// UnschedulableSince returns when the scheduler last failed to find a node for the pod. It is false if the scheduler
// has not tried, or found a node.
func UnschedulableSince(pod *corev1.Pod) (time.Time, bool) {
	if c := Condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		return c.LastTransitionTime.Time, true
	}
	return time.Time{}, false
}

// Within reports whether needs are at most left, for both resources (indexed by Resource).
func Within(needs, left [2]recommender.Amount) bool {
	return needs[0] <= left[0] && needs[1] <= left[1]
}

// OriginalsOf returns the original resources that the recommendation stores for pods of the template with this hash. It
// is nil if none are stored.
func OriginalsOf(rec *v1alpha1.AttuneRecommendation, templateHash string) map[string]recommender.Size {
	for _, o := range slices.Backward(rec.Status.Originals) { // the newest are last
		if o.TemplateHash == templateHash {
			return SizesOf(o.Containers)
		}
	}
	return nil
}

// Combine returns the size that results from applying a function to each pair of amounts of two sizes.
func Combine(a, b recommender.Size, of func(a, b recommender.Amount) recommender.Amount) recommender.Size {
	for r := range a {
		a[r] = recommender.Allocation{Request: of(a[r].Request, b[r].Request), Limit: of(a[r].Limit, b[r].Limit)}
	}
	return a
}

// Greater returns the greater request and the greater limit of two allocations.
func Greater(a, b recommender.Allocation) recommender.Allocation {
	return recommender.Allocation{Request: max(a.Request, b.Request), Limit: max(a.Limit, b.Limit)}
}

// Fill returns size, with its absent amounts taken from another size.
func Fill(size, with recommender.Size) recommender.Size {
	return Combine(size, with, func(a, b recommender.Amount) recommender.Amount { return cmp.Or(a, b) })
}

// Sum adds requests and limits, resource by resource.
func Sum(a, b recommender.Size) recommender.Size {
	return Combine(a, b, func(a, b recommender.Amount) recommender.Amount { return a + b })
}

// SizesOf reads stored resources, by container name.
func SizesOf(stored []v1alpha1.ContainerResources) map[string]recommender.Size {
	sizes := make(map[string]recommender.Size, len(stored))
	for _, c := range stored {
		sizes[c.Name] = FromResources(c.Resources)
	}
	return sizes
}

// SeedRequests returns the requests that a seed sets on a container of new pods. Absent amounts are 0; so are all
// amounts if the seed is nil.
func SeedRequests(seed *v1alpha1.Seed, container string) recommender.Size {
	s := First(ptr.Deref(seed, v1alpha1.Seed{}).Containers, func(s v1alpha1.ContainerSeed) bool { return s.Name == container })
	return FromResources(v1alpha1.Resources{CPURequest: s.CPURequest, MemoryRequest: s.MemoryRequest})
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

// WholeLimit returns the limit of a resource in a list, rounded down to a whole amount (AtMost). 0: not set.
func WholeLimit(r recommender.Resource, limits corev1.ResourceList) recommender.Amount {
	return AtMost(r, limits[NameOf(r)])
}

// AtMost reads a quantity as an upper bound and rounds it down: 2.2Gi is not a whole number of bytes, and a request of
// the next whole byte would exceed it. AmountOf rounds up instead, which is right for requests.
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

// LargestNode reads a stored bound, in millicores and bytes, indexed by resource. nil or 0: not known.
func LargestNode(stored *v1alpha1.LargestNode) [2]recommender.Amount {
	if stored == nil {
		return [2]recommender.Amount{}
	}
	return [2]recommender.Amount{
		recommender.CPU:    FromPointer(recommender.CPU, stored.CPU),
		recommender.Memory: FromPointer(recommender.Memory, stored.Memory),
	}
}

// ToResources converts a size to its stored form; absent amounts stay absent.
func ToResources(size recommender.Size) v1alpha1.Resources {
	return v1alpha1.Resources{
		CPURequest:    ToPointer(recommender.CPU, size[recommender.CPU].Request),
		CPULimit:      ToPointer(recommender.CPU, size[recommender.CPU].Limit),
		MemoryRequest: ToPointer(recommender.Memory, size[recommender.Memory].Request),
		MemoryLimit:   ToPointer(recommender.Memory, size[recommender.Memory].Limit),
	}
}

// ToRequirements converts a size to the form of the pod spec; absent amounts stay absent.
func ToRequirements(size recommender.Size) corev1.ResourceRequirements {
	var requirements corev1.ResourceRequirements
	for _, r := range recommender.Resources {
		requirements.Requests = Put(requirements.Requests, r, size[r].Request)
		requirements.Limits = Put(requirements.Limits, r, size[r].Limit)
	}
	return requirements
}

// Quantity converts an amount to a Kubernetes quantity: whole millicores, whole bytes.
func Quantity(r recommender.Resource, amount recommender.Amount) resource.Quantity {
	if r == recommender.Memory {
		return *resource.NewQuantity(int64(amount), resource.BinarySI)
	}
	return *resource.NewMilliQuantity(int64(amount), resource.DecimalSI)
}

// AmountOf reads a quantity: CPU rounded up to a millicore, memory up to a byte. A negative quantity is 0 (absent). A
// quantity above MaxAmount is MaxAmount.
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

// greatest has MaxAmount as a quantity, for the comparison in AmountOf.
var greatest = [2]resource.Quantity{
	recommender.CPU:    Quantity(recommender.CPU, recommender.MaxAmount),
	recommender.Memory: Quantity(recommender.Memory, recommender.MaxAmount),
}

// Plausible is far above any machine, in millicores and bytes (10^12 cores, a pebibyte). It is low enough that sums,
// products and ratios of a pod's or a node's amounts stay exact. Larger amounts are not used in computations.
const Plausible = recommender.Amount(1) << 50

// NameOf returns the key of a resource in a Kubernetes ResourceList.
func NameOf(r recommender.Resource) corev1.ResourceName {
	if r == recommender.Memory {
		return corev1.ResourceMemory
	}
	return corev1.ResourceCPU
}

// allocated replaces amounts of the spec by the amounts in the container's status. A reported limit that differs from
// the spec by rounding only (NearLimit) does not replace it.
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

// ResizeUnderway reports whether the pod may have other amounts than its spec: a resize is pending, in progress, not
// observed, or not allocated. Kubelets of 1.33 report no observed generation, so the last check compares amounts.
func ResizeUnderway(pod *corev1.Pod) bool {
	observed := pod.Status.ObservedGeneration
	return Condition(pod, corev1.PodResizePending) != nil ||
		Condition(pod, corev1.PodResizeInProgress) != nil ||
		observed != 0 && observed < pod.Generation || !IsAllocated(pod)
}

// ContainerOf returns the resizable container with this name, or nil.
func ContainerOf(pod *corev1.Pod, name string) *corev1.Container {
	return First(Resizable(pod), func(c *corev1.Container) bool { return c.Name == name })
}

// Resizable lists the containers that a resize may change.
func Resizable(pod *corev1.Pod) []*corev1.Container { return ResizableIn(&pod.Spec) }

// AllContainers lists regular and init containers, in the order in which the API server validates them.
func AllContainers(pod *corev1.Pod) []*corev1.Container {
	list := make([]*corev1.Container, 0, len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
	for _, of := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range of {
			list = append(list, &of[i])
		}
	}
	return list
}

// ResizableIn lists the resizable containers of a pod or template: regular ones, then native sidecars. Printed columns
// show the first.
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

// EndingIn lists the init containers of a pod or template that end before the regular containers start.
func EndingIn(spec *corev1.PodSpec) (list []*corev1.Container) {
	for i := range spec.InitContainers {
		if !RestartsAlways(&spec.InitContainers[i]) {
			list = append(list, &spec.InitContainers[i])
		}
	}
	return list
}

// IsSidecar reports whether the container is a native sidecar: an init container that always restarts. A regular
// container may have its own restart policy too, so only an init container counts.
func IsSidecar(pod *corev1.Pod, c *corev1.Container) bool {
	return RestartsAlways(c) && slices.ContainsFunc(pod.Spec.InitContainers, func(init corev1.Container) bool { return init.Name == c.Name })
}

// RestartsAlways reports whether the container's own restart policy is Always.
func RestartsAlways(c *corev1.Container) bool {
	return c.RestartPolicy != nil && IsAlways(*c.RestartPolicy)
}

// IsAlways reports whether a container's own restart policy is Always. It is false for the empty policy, which means
// that the container has no policy of its own.
func IsAlways[P ~string](policy P) bool {
	return corev1.ContainerRestartPolicy(policy) == corev1.ContainerRestartPolicyAlways
}

// Statuses returns container and init container statuses by name; names are unique across both.
func Statuses(pod *corev1.Pod) map[string]*corev1.ContainerStatus {
	statuses := make(map[string]*corev1.ContainerStatus, len(pod.Status.ContainerStatuses))
	for _, of := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range of {
			statuses[of[i].Name] = &of[i]
		}
	}
	return statuses
}

// Condition returns the pod's condition of this type, or nil.
func Condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	return FirstIn(pod.Status.Conditions, func(c *corev1.PodCondition) bool { return c.Type == kind })
}

// Running reports whether a pod runs and is not being deleted.
func Running(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
}

// IsReady reports whether the pod's Ready condition is True; false if it is absent.
func IsReady(pod *corev1.Pod) bool {
	c := Condition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

// AmountIn returns the amount of a resource in a list; 0 if absent.
func AmountIn(r recommender.Resource, list corev1.ResourceList) recommender.Amount {
	return AmountOf(r, list[NameOf(r)])
}

// FromPointer is AmountOf for an optional quantity; nil is 0.
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

// Put sets an amount in a list and returns the list. It creates a nil list, and ignores amounts of 0 and below.
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

// IsAllocated reports whether the kubelet has allocated the requests of the spec, for every container with allocated
// resources in its status. Limits are not compared: the API shows no allocated limits.
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

// RestartPolicyFor returns whether a change of the resource restarts the container. It is NotRequired if the
// resizePolicy does not name the resource, as in the API server.
func RestartPolicyFor(c *corev1.Container, name corev1.ResourceName) corev1.ResourceResizeRestartPolicy {
	for _, p := range c.ResizePolicy {
		if p.ResourceName == name {
			return p.RestartPolicy
		}
	}
	return corev1.NotRequired
}
