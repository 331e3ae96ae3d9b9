// Package policy resolves what holds for a workload: which policy owns it, and
// which settings apply after the four layers built-in, cluster, namespace and
// policy. It is pure.
package policy

import (
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/usage"
)

// Level is the layer that set a field.
type Level string

const (
	BuiltIn   Level = "built-in"
	Cluster   Level = "cluster"
	Namespace Level = "namespace"
	Policy    Level = "policy"
)

// Settings are complete: no pointers but for what may be absent, validated once in Resolve.
type Settings struct {
	Recommender recommender.Settings
	Resize      resize.Rules
	Source      usage.SourceSettings

	Strategy        v1alpha1.Strategy
	Risk            v1alpha1.Risk
	NodeEviction    bool
	EvictionRanking v1alpha1.EvictionRanking // empty: by rule
	// NodeGroup of the pods that spike together; empty: those of one workload.
	NodeGroup     string
	StartupBoost  *Boost
	SLOGuardrails []v1alpha1.SLOGuardrail
	Weight        int32
	Pricing       Pricing

	// Origin says which level set each field, by its path in the spec, such as cpu.percentile.
	Origin map[string]Level
}

// Boost is more CPU for a starting pod.
type Boost struct {
	Multiplier float64
	Duration   time.Duration
}

// Pricing prices savings; zero prices are unknown.
type Pricing struct {
	CPUPerCoreHour, MemoryPerGiBHour float64
	Currency                         string
}
