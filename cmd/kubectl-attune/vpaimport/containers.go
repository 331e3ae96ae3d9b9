package vpaimport

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/workload"
)

// containerPolicy is a VPA's policy for one container. The name * stands for all containers without their own policy.
type containerPolicy struct {
	ContainerName    string                              `json:"containerName"`
	Mode             string                              `json:"mode"`
	MinAllowed       map[string]workload.BoundedQuantity `json:"minAllowed"`
	MaxAllowed       map[string]workload.BoundedQuantity `json:"maxAllowed"`
	ControlledValues string                              `json:"controlledValues"`
	// ControlledResources means both resources if nil.
	ControlledResources []string `json:"controlledResources"`
}

// others is the name of the policy for all containers without their own.
const others = "*"

// off reports whether the VPA does not size the container.
func (p containerPolicy) off() bool { return p.Mode == "Off" }

// policyOf returns the policy of a container: its own, or the one for others, or an empty one.
func (x *importer) policyOf(container string) containerPolicy {
	var rest containerPolicy
	for _, p := range x.ResourcePolicy.ContainerPolicies {
		switch p.ContainerName {
		case container:
			return p
		case others:
			rest = p
		}
	}
	rest.ContainerName = container
	return rest
}

// sized returns the policies of the containers that the VPA sizes, and excludes the others. It also excludes
// containers that only the VPA names and the template does not have today. If the workload's containers are unknown,
// it uses the names in the VPA and "*".
func (x *importer) sized() (all []containerPolicy) {
	for _, name := range x.named() {
		p := x.policyOf(name)
		switch {
		case !p.off():
			all = append(all, p)
		case name != others:
			x.spec.ExcludedContainers = append(x.spec.ExcludedContainers, v1alpha1.ContainerName(name))
		}
	}
	slices.Sort(x.spec.ExcludedContainers)
	switch {
	case !x.policyOf(others).off():
	case x.containers == nil:
		x.recommend("the containers with mode Off (containerName *) are not known: add them to excludedContainers")
	default:
		x.note("mode Off of container * covers only the current containers: add later ones to excludedContainers, otherwise attune sizes them")
	}
	if len(all) == 0 {
		x.note("it manages no container, and neither does its policy")
	}
	return all
}

// named returns the container names for sized. It ignores a container policy without a name.
func (x *importer) named() []string {
	names := slices.Clone(x.containers)
	for _, p := range x.ResourcePolicy.ContainerPolicies {
		if p.ContainerName != "" && p.ContainerName != others && !slices.Contains(names, p.ContainerName) && (p.off() || x.containers == nil) {
			names = append(names, p.ContainerName)
		}
	}
	if x.containers == nil {
		names = append(names, others)
	}
	return names
}

// bounds translates the policies of single containers. An AttunePolicy has one minAllowed, maxAllowed and
// controlledValues per resource for all containers. If containers differ, bounds takes the widest range, so that no
// container is limited more than before. If a lower bound is lost, the policy only recommends.
func (x *importer) bounds() {
	sized := x.sized()
	for _, name := range []string{"cpu", "memory"} {
		low, lowDiffers := widest(sized, name, func(p containerPolicy) map[string]workload.BoundedQuantity { return p.MinAllowed }, -1)
		high, highDiffers := widest(sized, name, func(p containerPolicy) map[string]workload.BoundedQuantity { return p.MaxAllowed }, 1)
		x.set(name, low, high)
		switch {
		case lowDiffers && low == nil:
			x.recommend("containers differ in minAllowed.%s, but a policy has one for all: it is not set", name)
		case lowDiffers:
			x.note("containers differ in minAllowed.%s, but a policy has one for all: it is %s", name, orNone(low))
		}
		if highDiffers {
			x.note("containers differ in maxAllowed.%s, but a policy has one for all: it is %s", name, orNone(high))
		}
	}
	x.partial(sized)
	x.controlled(sized)
	for _, of := range sized {
		x.unbounded(of)
	}
}

// set writes the bounds of one resource.
func (x *importer) set(name string, low, high *resource.Quantity) {
	if low == nil && high == nil {
		return
	}
	if name == "memory" {
		input.Made(&x.spec.Memory).MinAllowed, input.Made(&x.spec.Memory).MaxAllowed = low, high
		return
	}
	input.Made(&x.spec.CPU).MinAllowed, input.Made(&x.spec.CPU).MaxAllowed = low, high
}

// widest returns the lowest (sign -1) or the highest (sign 1) bound of all containers; nil if a container has none.
// differs reports whether the containers' bounds differ.
func widest(sized []containerPolicy, name string, of func(containerPolicy) map[string]workload.BoundedQuantity, sign int) (bound *resource.Quantity, differs bool) {
	missing := false
	for _, p := range sized {
		q, set := of(p)[name]
		switch {
		case !set || q.Sign() <= 0:
			missing = true
		case bound == nil:
			bound = &q.Quantity
		case q.Cmp(*bound) != 0:
			differs = true
			if q.Cmp(*bound) == sign {
				bound = &q.Quantity
			}
		}
	}
	if missing && bound != nil {
		return nil, true
	}
	return bound, differs
}

// orNone formats a bound.
func orNone(q *resource.Quantity) string {
	if q == nil {
		return "not set"
	}
	return q.String()
}

// partial makes the policy only recommend if the VPA sizes just one resource of a container, or none. Containers that
// the VPA names count even if the template does not have them, because pods may get them later.
func (x *importer) partial(sized []containerPolicy) {
	said := map[string]bool{}
	for _, p := range slices.Concat(sized, x.ResourcePolicy.ContainerPolicies) {
		covered := p.ContainerName == others && x.containers != nil // sized has the containers that * stands for
		both := p.ControlledResources == nil || slices.Contains(p.ControlledResources, "cpu") && slices.Contains(p.ControlledResources, "memory")
		if p.off() || both || covered || said[p.ContainerName] {
			continue
		}
		said[p.ContainerName] = true
		x.recommend("controlledResources of container %s is %v, but a policy manages both cpu and memory", p.ContainerName, p.ControlledResources)
	}
}

// controlled translates controlledValues. If containers differ it takes RequestsOnly, which changes less.
func (x *importer) controlled(sized []containerPolicy) {
	only := func(p containerPolicy) bool { return p.ControlledValues == string(v1alpha1.ControlledRequestsOnly) }
	if !slices.ContainsFunc(sized, only) {
		return
	}
	input.Made(&x.spec.CPU).ControlledValues, input.Made(&x.spec.Memory).ControlledValues = new(v1alpha1.ControlledRequestsOnly), new(v1alpha1.ControlledRequestsOnly)
	if slices.ContainsFunc(sized, func(p containerPolicy) bool { return !only(p) }) {
		x.note("containers differ in controlledValues, but a policy has one for all: it is RequestsOnly")
	}
}

// unbounded notes bounds of resources that attune does not size.
func (x *importer) unbounded(p containerPolicy) {
	var names []string
	for _, of := range []map[string]workload.BoundedQuantity{p.MinAllowed, p.MaxAllowed} {
		for name := range of {
			if name != "cpu" && name != "memory" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	if names != nil {
		slices.Sort(names)
		x.note("bounds of %s have no counterpart (container %s)", strings.Join(names, ", "), p.ContainerName)
	}
}
