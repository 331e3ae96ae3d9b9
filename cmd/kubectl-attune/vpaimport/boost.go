package vpaimport

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/workload"
)

// startupBoost is additional CPU for starting pods. A container's own takes precedence over the VPA's.
type startupBoost struct {
	CPU *cpuBoost `json:"cpu"`
}

// set reports whether there is a boost.
func (b *startupBoost) set() bool { return b != nil && b.CPU != nil }

// cpuBoost multiplies the CPU request, or adds a quantity to it, until DurationSeconds after the pod is ready.
type cpuBoost struct {
	Type            string                   `json:"type"`
	Factor          int64                    `json:"factor"`
	Quantity        workload.BoundedQuantity `json:"quantity"`
	DurationSeconds int64                    `json:"durationSeconds"`
}

// The durations of attune's boosts.
const leastBoost, longestBoost = time.Second, time.Hour

// noBoost disables the boost of the policy for one container.
var noBoost = v1alpha1.StartupBoost{Multiplier: "1", Duration: v1alpha1.Duration{Duration: metav1.Duration{Duration: leastBoost}}}

// boost translates the startup boosts.
func (x *importer) boost() {
	boosts := func(p containerPolicy) bool { return p.StartupBoost.set() }
	if !x.StartupBoost.set() && !slices.ContainsFunc(x.ResourcePolicy.ContainerPolicies, boosts) {
		return
	}
	switch *x.spec.UpdateStrategy.Type {
	case v1alpha1.UpdateInitial:
		x.note("startupBoost has no counterpart with updateMode Initial: attune could not remove it from running pods. Use updateStrategy.type Auto with cpu.startupBoost")
		return
	case v1alpha1.UpdateRecommend:
		x.note("startupBoost: VPA boosts pods in any updateMode, attune only with updateStrategy.type Canary or Auto")
	}
	x.note("attune does not resize a workload while its VerticalPodAutoscaler has a startupBoost, whatever its updateMode: remove it there before the policy acts")
	if of := x.boostOf(x.StartupBoost, "startupBoost"); of != nil {
		input.Made(&x.spec.CPU).StartupBoost = of
	}
	for i, p := range x.ResourcePolicy.ContainerPolicies {
		x.boostContainer(p, &x.spec.ContainerPolicies[i])
	}
}

// boostContainer translates the boost of a container: its own, otherwise the VPA's.
func (x *importer) boostContainer(p containerPolicy, entry *v1alpha1.ContainerPolicy) {
	path, own := "startupBoost of container "+p.ContainerName, p.StartupBoost != nil
	boosted := p.StartupBoost.set() || !own && x.StartupBoost.set()
	switch {
	case p.off() && p.StartupBoost.set():
		x.note("%s has no counterpart: attune does not change a container with mode Off", path)
	case p.off(), !boosted && !p.sizes("cpu"):
	case !p.sizes("cpu"):
		x.note("%s has no counterpart: attune boosts no container whose controlledResources lack cpu", path)
	case own:
		of := x.boostOf(p.StartupBoost, path)
		if of == nil && x.spec.CPU != nil {
			of = new(noBoost)
		}
		if of != nil {
			input.Made(&entry.CPU).StartupBoost = of
		}
	}
}

// boostOf translates one boost; nil if there is none or it has no counterpart.
func (x *importer) boostOf(of *startupBoost, path string) *v1alpha1.StartupBoost {
	if !of.set() {
		return nil
	}
	b := *of.CPU
	switch {
	case b.Type == "Quantity":
		x.note("%s has no counterpart: it adds %s to the CPU request, attune multiplies it. Set cpu.startupBoost.multiplier", path, b.Quantity.String())
		return nil
	case b.Type != "Factor" && b.Type != "" || b.Factor < 1:
		x.note("%s has no effect: its type is %q and its factor is %d", path, shown(b.Type), b.Factor)
		return nil
	case b.Factor > v1alpha1.MaxBoost:
		x.note("%s: factor %d is more than attune's greatest multiplier, so it is %d", path, b.Factor, v1alpha1.MaxBoost)
	}
	// Compared as seconds: a great number of seconds is no duration.
	seconds := min(max(b.DurationSeconds, int64(leastBoost/time.Second)), int64(longestBoost/time.Second))
	if b.DurationSeconds > seconds {
		x.note("%s: durationSeconds %d is more than attune's longest duration, so it is 1h", path, b.DurationSeconds)
	}
	if b.DurationSeconds > 0 {
		x.note("%s: VPA counts durationSeconds from when the pod is ready, attune from the start of the container. Add the time that the pod needs to become ready", path)
	}
	return &v1alpha1.StartupBoost{
		Multiplier: v1alpha1.Decimal(strconv.FormatInt(min(b.Factor, v1alpha1.MaxBoost), 10)),
		Duration:   v1alpha1.Duration{Duration: metav1.Duration{Duration: time.Duration(seconds) * time.Second}},
	}
}
