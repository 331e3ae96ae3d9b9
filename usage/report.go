package usage

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// Drop is why a sample was not used.
type Drop string

// Reasons to drop a sample.
const (
	// DropNotANumber is a NaN: a server computes it from missing data.
	DropNotANumber Drop = "not a number"
	// DropInfinite is an infinite value.
	DropInfinite Drop = "infinite"
	// DropNegative is a negative value, such as a rate over a counter that ran backwards.
	DropNegative Drop = "negative"
	// DropUnnamed lacks the namespace, pod or container label.
	DropUnnamed Drop = "without namespace, pod or container"
	// DropLabels has a label twice.
	DropLabels Drop = "duplicate label"
	// DropOutside is outside the queried span.
	DropOutside Drop = "outside the queried span"
	// DropHistogram is a native histogram where a number was expected.
	DropHistogram Drop = "native histogram"
	// DropClock has a time that the source's clock rules out.
	DropClock Drop = "impossible timestamp"
	// DropImplausible exceeds the largest node, DropNode the pod's node, DropLimit the container's limit.
	DropImplausible Drop = "more than any node has"
	DropNode        Drop = "more than the pod's node has"
	DropLimit       Drop = "more than 1.5 times the limit"
	// DropZero is memory of 0 bytes: a running container uses more, so it was not measured.
	DropZero Drop = "memory of 0 bytes"
	// DropIdle is CPU of 0 while almost all containers of the source have 0: CPU was not measured.
	DropIdle Drop = "CPU of 0 like almost all containers"
	// DropStartup is CPU of a container's start, which says nothing about its later usage.
	DropStartup Drop = "CPU of the start"
	// DropElsewhere belongs to a pod that is not on the reporting kubelet's node, according to the API server.
	DropElsewhere Drop = "pod is not on the node"
	// DropForeign belongs to a namespace that was not queried.
	DropForeign Drop = "namespace not queried"
	// DropAmbiguous has a pod name that several workloads of different kinds could have generated.
	DropAmbiguous Drop = "ambiguous pod name"
	// DropFull found no room: in the store, or among the series of its node.
	DropFull Drop = "no room left"
)

// labels are the values of the label reason in metrics.
var labels = map[Drop]string{
	DropNotANumber: "not_a_number", DropInfinite: "infinite", DropNegative: "negative", DropUnnamed: "unnamed",
	DropLabels: "duplicate_label", DropOutside: "outside", DropHistogram: "histogram", DropClock: "clock",
	DropImplausible: "largest", DropNode: "node", DropLimit: "limit", DropZero: "zero", DropIdle: "idle",
	DropStartup: "startup", DropElsewhere: "elsewhere", DropForeign: "foreign", DropAmbiguous: "ambiguous", DropFull: "full",
}

// Label is the value of the label reason in metrics.
func (d Drop) Label() string { return labels[d] }

// Impossible reports whether the reason says that no container uses the amount of the sample. Such samples count
// towards the block of a resource (UsageImplausible).
func (d Drop) Impossible() bool {
	return d == DropImplausible || d == DropNode || d == DropLimit || d == DropZero
}

// DropOf returns why a value is not an amount, or empty.
func DropOf(value float64) Drop {
	switch {
	case math.IsNaN(value):
		return DropNotANumber
	case math.IsInf(value, 0):
		return DropInfinite
	case value < 0:
		return DropNegative
	}
	return ""
}

// maxWarnings bounds the kept warnings of a server: enough for one per store of a large installation.
const maxWarnings = 10

// Report describes the content of an answer. Its zero value is ready for use.
type Report struct {
	// Series and Samples count the used data.
	Series, Samples int
	// Dropped counts unused samples by reason.
	Dropped map[Drop]int
	// Warnings of the server, each once; only the first ones.
	Warnings []string
	// Partial: the server reports that it did not have all data.
	Partial bool
	// Missing says why the data of some namespaces is partial, by namespace; nil: it is not, unless Partial.
	Missing map[string]string
}

// Lack records why the data of a namespace is partial.
func (r *Report) Lack(namespace, why string) {
	if r.Missing == nil {
		r.Missing = map[string]string{}
	}
	switch before := r.Missing[namespace]; {
	case before == "":
		r.Missing[namespace] = why
	case !strings.Contains(before, why):
		r.Missing[namespace] = before + "; " + why
	}
}

// Lacks reports whether the data of a namespace is partial.
func (r Report) Lacks(namespace string) bool { return r.Partial || r.Missing[namespace] != "" }

// About returns the report of one namespace: what it lacks is the last warning.
func (r Report) About(namespace string) Report {
	if why := r.Missing[namespace]; why != "" {
		r.Warnings = append(slices.Clone(r.Warnings), why)
	}
	r.Partial, r.Missing = r.Lacks(namespace), nil
	return r
}

// Drop counts n dropped samples.
func (r *Report) Drop(reason Drop, n int) {
	if n == 0 {
		return
	}
	if r.Dropped == nil {
		r.Dropped = map[Drop]int{}
	}
	r.Dropped[reason] += n
}

// Warn adds a warning of the server.
func (r *Report) Warn(warning string) {
	if len(r.Warnings) < maxWarnings && !slices.Contains(r.Warnings, warning) {
		r.Warnings = append(r.Warnings, warning)
	}
}

// Add adds another report to this one.
func (r *Report) Add(other Report) {
	r.Series += other.Series
	r.Samples += other.Samples
	r.Partial = r.Partial || other.Partial
	for reason, n := range other.Dropped {
		r.Drop(reason, n)
	}
	for _, warning := range other.Warnings {
		r.Warn(warning)
	}
	for namespace, why := range other.Missing {
		r.Lack(namespace, why)
	}
}

// DropReasons returns the reasons with dropped samples, in alphabetical order.
func (r Report) DropReasons() []Drop { return slices.Sorted(maps.Keys(r.Dropped)) }
