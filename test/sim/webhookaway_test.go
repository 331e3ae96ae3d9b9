package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

// While the API server does not reach the webhook, attune evicts at most one pod of a workload a day: the successor
// does not have the required size, so each eviction would lead to the next.
func TestEvictionsStopWhileTheWebhookIsAway(t *testing.T) {
	web := web(7)
	web.Containers = []corev1.Container{container(amounts("500m", "1Gi"), nil)}
	web.Demand.memory = 700 * mib
	p := roomy(30*time.Hour, web)
	p.NodeCPU, p.NodeMemory, p.Nodes = "4", "8Gi", 3
	p.Labelled = true
	p.Policies[0].Spec.Strategy = ptr(v1alpha1.StrategyNode)
	p.Policies[0].Spec.Node = &v1alpha1.NodeSettings{Eviction: ptr(v1alpha1.Enabled)}
	p.Script = func(w *world) {
		w.time.after(110*time.Minute, func() { w.plan.Seeds = false })
		w.time.after(2*time.Hour, func() { w.grow("shop/web", 5) })
	}
	w := newWorld(0, p)
	heard, evictions := w.server.Journal.Heard, 0
	w.server.Journal.Heard = func(write api.Write) {
		if write.Verb == "create/eviction" {
			evictions++
		}
		heard(write)
	}
	w.run()
	assert.Positive(t, evictions, "or nothing is shown")
	assert.LessOrEqual(t, evictions, 2, "one a day")
}
