package vpaimport

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

// containerPolicy is a VPA's policy for one container.
type containerPolicy struct {
	ContainerName    string                              `json:"containerName"`
	Mode             word                                `json:"mode"`
	MinAllowed       map[string]workload.BoundedQuantity `json:"minAllowed"`
	MaxAllowed       map[string]workload.BoundedQuantity `json:"maxAllowed"`
	ControlledValues string                              `json:"controlledValues"`
	// ControlledResources means both resources if nil.
	ControlledResources []string      `json:"controlledResources"`
	StartupBoost        *startupBoost `json:"startupBoost"`
}

// everyOther is the name in the policy for all containers without their own.
const everyOther = "*"

// mostEntries is the greatest number of entries in a policy's containerPolicies.
const mostEntries = 64

// off reports whether the policy does not size the container. An unknown mode counts as Off.
func (p containerPolicy) off() bool {
	return p.Mode != "" && p.Mode != word(v1alpha1.ContainerAuto) || p.ControlledResources != nil && !p.sizes("cpu") && !p.sizes("memory")
}

// sizes reports whether the VPA sizes a resource of the container, unless the container is off.
func (p containerPolicy) sizes(name string) bool {
	return p.ControlledResources == nil || slices.Contains(p.ControlledResources, name)
}

// containers translates containerPolicies. A VPA and an AttunePolicy apply the same entry to a container: the one with
// its name, otherwise *.
func (x *importer) containers() {
	x.ResourcePolicy.ContainerPolicies = x.effective()
	for _, p := range x.ResourcePolicy.ContainerPolicies {
		x.spec.ContainerPolicies = append(x.spec.ContainerPolicies, x.entry(p))
	}
}

// effective returns the policies that apply to a container, in their order. Of several policies with one name, a VPA
// applies the first one; of several *, the last one.
func (x *importer) effective() (all []containerPolicy) {
	at := map[string]int{}
	for i, p := range x.ResourcePolicy.ContainerPolicies {
		first, twice := at[p.ContainerName]
		switch {
		case p.ContainerName != everyOther && validation.IsDNS1123Label(p.ContainerName) != nil:
			x.note("containerPolicies[%d]: containerName %q is no name of a container, so it has no effect", i, shown(p.ContainerName))
		case twice && p.ContainerName == everyOther:
			all[first] = p
			fallthrough
		case twice:
			x.note("containerPolicies has several entries for container %s: the policy has the one that applies", p.ContainerName)
		case len(all) == mostEntries && p.ContainerName != everyOther:
			x.recommend("containerPolicies has more than %d entries: the one of container %s is left out", mostEntries, p.ContainerName)
		case len(all) == mostEntries:
			x.recommend("containerPolicies has more than %d entries: the one of container %s is left out", mostEntries, all[mostEntries-1].ContainerName)
			all[mostEntries-1] = p
		default:
			at[p.ContainerName] = len(all)
			all = append(all, p)
		}
	}
	return all
}

// entry translates the policy of one container.
func (x *importer) entry(p containerPolicy) v1alpha1.ContainerPolicy {
	entry := v1alpha1.ContainerPolicy{ContainerName: v1alpha1.ContainerName(p.ContainerName)}
	if p.Mode != "" && p.Mode != word(v1alpha1.ContainerAuto) && p.Mode != word(v1alpha1.ContainerOff) {
		x.note("mode %q of container %s is unknown, so it is Off", shown(string(p.Mode)), p.ContainerName)
	}
	if p.off() {
		entry.Mode = new(v1alpha1.ContainerOff)
		if len(p.MinAllowed)+len(p.MaxAllowed) > 0 || p.ControlledValues != "" {
			x.note("container %s is not sized: its bounds and controlledValues have no effect and are left out", p.ContainerName)
		}
		return entry
	}
	if p.Mode != "" {
		entry.Mode = new(v1alpha1.ContainerAuto)
	}
	x.controlled(p, &entry)
	x.bounds(p, &entry)
	x.unbounded(p)
	return entry
}

// controlled translates controlledResources and controlledValues.
func (x *importer) controlled(p containerPolicy, entry *v1alpha1.ContainerPolicy) {
	for _, name := range p.ControlledResources {
		of := v1alpha1.ControlledResource(name)
		switch {
		case of != v1alpha1.ControlledCPU && of != v1alpha1.ControlledMemory:
			x.note("controlledResources of container %s has %q, which neither VPA nor attune sizes", p.ContainerName, shown(name))
		case !slices.Contains(entry.ControlledResources, of):
			entry.ControlledResources = append(entry.ControlledResources, of)
		}
	}
	switch values := v1alpha1.ControlledValues(p.ControlledValues); values {
	case "":
	case v1alpha1.ControlledRequestsOnly, v1alpha1.ControlledRequestsAndLimits:
		entry.ControlledValues = &values
	default:
		entry.ControlledValues = new(v1alpha1.ControlledRequestsOnly)
		x.note("controlledValues %q of container %s is unknown, so it is RequestsOnly", shown(p.ControlledValues), p.ContainerName)
	}
}

// bounds translates minAllowed and maxAllowed.
func (x *importer) bounds(p containerPolicy, entry *v1alpha1.ContainerPolicy) {
	if low, high := x.bound(recommender.CPU, p, true), x.bound(recommender.CPU, p, false); low != nil || high != nil {
		cpu := input.Made(&entry.CPU)
		cpu.MinAllowed, cpu.MaxAllowed = low, high
	}
	if low, high := x.bound(recommender.Memory, p, true), x.bound(recommender.Memory, p, false); low != nil || high != nil {
		memory := input.Made(&entry.Memory)
		memory.MinAllowed, memory.MaxAllowed = low, high
	}
}

// bound returns minAllowed or maxAllowed of a resource; nil if not set or without effect. A VPA ignores a bound of 0.
func (x *importer) bound(r recommender.Resource, p containerPolicy, minimum bool) *resource.Quantity {
	of, field := p.MaxAllowed, "maxAllowed"
	if minimum {
		of, field = p.MinAllowed, "minAllowed"
	}
	q, set := of[r.String()]
	if !set || q.IsZero() {
		return nil
	}
	if !p.sizes(r.String()) {
		x.note("%s.%s of container %s has no effect and is left out: its controlledResources lack %s", field, r, p.ContainerName, r)
		return nil
	}
	return &q.Quantity
}

// unbounded notes bounds of resources that neither product sizes.
func (x *importer) unbounded(p containerPolicy) {
	names := map[string]bool{}
	for _, of := range []map[string]workload.BoundedQuantity{p.MinAllowed, p.MaxAllowed} {
		for name := range of {
			names[name] = name != "cpu" && name != "memory"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if names[name] {
			x.note("bounds of %s have no counterpart (container %s): neither VPA nor attune sizes it", shown(name), p.ContainerName)
		}
	}
}
