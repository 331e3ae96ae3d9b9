package workload_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/internal/workload"
)

func TestEveryKindHasItsObjects(t *testing.T) {
	for _, kind := range workload.Kinds {
		read, ok := workload.From(workload.NewObject(kind))
		require.True(t, ok, kind)
		assert.Equal(t, kind, read.Kind)
		assert.NotNil(t, workload.NewList(kind), kind)
	}
	assert.Nil(t, workload.NewObject("Pod"))
	assert.Nil(t, workload.NewList("Pod"))
}
