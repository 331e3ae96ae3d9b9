package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/input"
	"attune.io/attune/internal/workload"
)

func TestEveryKindHasItsNamesAndObjects(t *testing.T) {
	scheme := newScheme()
	kinds := []v1alpha1.WorkloadKind{
		v1alpha1.KindDeployment, v1alpha1.KindStatefulSet, v1alpha1.KindDaemonSet,
		v1alpha1.KindReplicaSet, v1alpha1.KindJob, v1alpha1.KindCronJob,
	}
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			require.NotEmpty(t, input.KindNames[kind])
			for _, name := range append(input.KindNames[kind], string(kind)) {
				id, err := input.ParseWorkload(name+"/web", "shop")
				require.NoError(t, err)
				assert.Equal(t, workload.Identity{Kind: kind, Namespace: "shop", Name: "web"}, id)
			}
			read, ok := workload.From(workload.NewObject(kind))
			require.True(t, ok)
			assert.Equal(t, kind, read.Kind)

			list := workload.NewList(kind)
			require.NoError(t, meta.SetList(list, []runtime.Object{workload.NewObject(kind)}))
			gvks, _, err := scheme.ObjectKinds(list)
			require.NoError(t, err)
			assert.Equal(t, string(kind)+"List", gvks[0].Kind)
		})
	}
}
