package board

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"
)

func TestConfirm(t *testing.T) {
	web, db := types.NamespacedName{Namespace: "shop", Name: "deployment-web"}, types.NamespacedName{Namespace: "shop", Name: "statefulset-db"}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	table := &Confirmed{}
	assert.Zero(t, table.Until(web))
	assert.Zero(t, table.Confirm(web, noon), "nothing was known")
	assert.Equal(t, noon, table.Confirm(web, noon.Add(time.Minute)))
	assert.Equal(t, noon.Add(time.Minute), table.Until(web))
	assert.Zero(t, table.Until(db))
	table.Forget(web)
	assert.Zero(t, table.Until(web))
}

// Without a table there is nobody to meet.
func TestNobodyKnows(t *testing.T) {
	var table *Confirmed
	assert.Zero(t, table.Confirm(types.NamespacedName{}, time.Now()))
	assert.Zero(t, table.Until(types.NamespacedName{}))
	table.Forget(types.NamespacedName{})
}
