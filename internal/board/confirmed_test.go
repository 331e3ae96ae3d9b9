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
	assert.Zero(t, table.Of(web))
	assert.Zero(t, table.Confirm(web, noon), "nothing was known")
	assert.Equal(t, noon, table.Confirm(web, noon.Add(time.Minute)))
	assert.Equal(t, noon.Add(time.Minute), table.Of(web))
	assert.Zero(t, table.Of(db))
	table.Forget(web)
	assert.Zero(t, table.Of(web))
}
