package policy

import (
	"cmp"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/table"
	"attune.io/attune/tuning/targets"
)

// memories is what the loop remembers from one look to the next. All of it may be lost with the process;
// each field says what that costs. Each field has its own mutex inside.
type memories struct {
	// published is what the gauges show. If it is lost, the next look at each policy publishes it again.
	published published
	// matchings are the newest of each namespace, forgotten with its last policy. If one is lost, the next look matches all
	// workloads of the namespace.
	matchings table.Table[string, *matching]
	// most workloads of a namespace that are sized; 0: policy.MostWorkloads.
	most int
	// refused are the writes that the API server did not take in a policy's newest look. If they are lost, each is tried once
	// more and put off anew.
	refused table.Table[types.NamespacedName, []refusal]
	// decided is what a policy's last look decided, forgotten with the policy. If it is lost, the next look decides anew.
	decided table.Table[types.NamespacedName, decided]
	// nodes are the largest nodes for each placement. If they are lost, the next look lists the nodes.
	nodes nodeIndex
	// parts are of cluster policies, forgotten with their namespaces. If they are lost, the status of a cluster policy stays
	// until each of its namespaces has been looked at.
	parts parts
}

// mostWorkloads is how many workloads of a namespace are sized; tests set a smaller number.
func (m *memories) mostWorkloads() int { return cmp.Or(m.most, policy.MostWorkloads) }

// decided is what a pass decided, by the recommendation's name, together with the settings that it had.
type decided struct {
	settings policy.Settings
	made     map[string]targets.Decision
}

// under returns the decisions if the settings are the same as then, on every level; otherwise nil, since
// each decision may be another.
func (d decided) under(settings policy.Settings) map[string]targets.Decision {
	if !reflect.DeepEqual(d.settings, settings) {
		return nil
	}
	return d.made
}
