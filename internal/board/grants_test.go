package board

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/recommender"
)

var web, db = types.NamespacedName{Namespace: "shop", Name: "deployment-web"}, types.NamespacedName{Namespace: "shop", Name: "statefulset-db"}

func cpu(amount recommender.Amount) map[string]recommender.Size {
	return map[string]recommender.Size{"app": {recommender.CPU: {Request: amount}}}
}

// Publish returns only the pods whose grants are new, changed or removed.
func TestPublishReturnsChanges(t *testing.T) {
	table := &Grants{}
	first := map[types.UID]Pod{"a": {Recommendation: web, Sizes: cpu(1)}, "b": {Recommendation: db, Sizes: cpu(2)}}
	assert.Equal(t, []types.NamespacedName{web, db}, table.Publish("node-1", first), "by name")
	assert.Empty(t, table.Publish("node-1", map[types.UID]Pod{"a": {Recommendation: web, Sizes: cpu(1)}, "b": {Recommendation: db, Sizes: cpu(2)}}))
	assert.Equal(t, []types.NamespacedName{db}, table.Publish("node-1", map[types.UID]Pod{"a": {Recommendation: web, Sizes: cpu(1)}, "b": {Recommendation: db, Sizes: cpu(2), Evict: "no room"}}))
	assert.Equal(t, []types.NamespacedName{web}, table.Publish("node-1", map[types.UID]Pod{"b": {Recommendation: db, Sizes: cpu(2), Evict: "no room"}}))
	_, known := table.Of("a")
	assert.False(t, known)
	assert.Empty(t, table.Publish("node-2", nil), "a node without pods")
	assert.Equal(t, []types.NamespacedName{db}, table.Publish("node-1", nil))
}

func TestHoldReplacesReasonsOfWorkload(t *testing.T) {
	table := &Grants{}
	assert.True(t, table.Hold(web, map[types.UID]string{"a": "Paused"}, map[types.UID]string{"b": "LastReplica"}))
	assert.False(t, table.Hold(web, map[types.UID]string{"a": "Paused"}, map[types.UID]string{"b": "LastReplica"}))
	assert.True(t, table.Hold(db, map[types.UID]string{"c": "Mode"}, nil))
	assert.Equal(t, "Paused", table.Held(web, "a"))
	assert.Equal(t, "LastReplica", table.Stays(web, "b"))
	assert.Empty(t, table.Stays(web, "a"))
	assert.True(t, table.Hold(web, nil, map[types.UID]string{"a": "DoNotDisrupt"}))
	assert.Empty(t, table.Held(web, "a"))
	assert.Equal(t, "DoNotDisrupt", table.Stays(web, "a"))
	assert.Empty(t, table.Stays(web, "b"))
	assert.Equal(t, "Mode", table.Held(db, "c"))
}

// After a start the holds of a workload's pods are not known, which differs from no holds.
func TestUnreconciledWorkloadIsNotLookedAt(t *testing.T) {
	table := &Grants{}
	assert.Equal(t, NotLookedAt, table.Held(web, "a"))
	assert.Equal(t, NotLookedAt, table.Stays(web, "a"))
	assert.True(t, table.Hold(web, nil, nil), "its nodes are told that nothing holds it")
	assert.Empty(t, table.Held(web, "a"))
	assert.Empty(t, table.Stays(web, "a"))
	assert.Equal(t, NotLookedAt, table.Held(db, "c"))
	assert.False(t, table.Hold(web, nil, nil))
	assert.True(t, table.Forget(web))
	assert.False(t, table.Forget(web))
	assert.Equal(t, NotLookedAt, table.Held(web, "a"))
}
