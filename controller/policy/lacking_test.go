package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// lacking is a history whose source has partial data of some namespaces.
type lacking struct {
	*past
	missing map[string]string
}

func (l lacking) State(usage.SourceSettings) (history.State, bool) {
	return history.State{Last: usage.Report{Missing: l.missing}}, true
}

// A policy reports the nodes without usage only if pods of its namespace run there.
func TestReadyNamesMissingUsageOfItsNamespace(t *testing.T) {
	for namespace, named := range map[string]bool{"shop": true, "bank": false} {
		f := newFleet(t, 1)
		f.History = lacking{newPast(), map[string]string{namespace: "1 of 2 nodes cannot be scraped"}}
		f.pass(t)
		p := &v1alpha1.AttunePolicy{}
		assert.NoError(t, f.memory.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "all"}, p))
		message := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady).Message
		if named {
			assert.Contains(t, message, "warning from the usage source: 1 of 2 nodes cannot be scraped")
		} else {
			assert.NotContains(t, message, "warning")
		}
	}
}
