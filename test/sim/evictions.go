package sim

import (
	"strings"

	"attune.io/attune/test/sim/api"
)

// unasked: the operator deletes no pod, and evicts none whose policy does not ask for it.
type unasked struct {
	deaf
	*scene
	// asks: the policy of a workload allows evictions.
	asks func(recommendation string) bool
}

func (u *unasked) wrote(w api.Write) {
	if w.Kind != "Pod" || !strings.HasPrefix(w.Actor, "attune") || w.Verb != "delete" && w.Verb != "create/eviction" {
		return
	}
	namespace, name, _ := strings.Cut(w.Key, "/")
	of := u.workloadOf("Pod", key2(namespace, name)).String()
	if w.Verb == "delete" || !u.asks(of) {
		u.violate("no eviction unasked", of, "%s", w)
	}
}
