package integration

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"attune.io/attune/api/v1alpha1"
)

func crdScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := newScheme(t)
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	return scheme
}

// table is what kubectl get shows, as the API server prints it: by column, of the first row.
func table(t *testing.T, path string) (wide map[string]any, narrow []string) {
	t.Helper()
	data, err := kubernetes.NewForConfigOrDie(server).RESTClient().Get().RequestURI("/apis/attune.io/v1alpha1"+path).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	require.NoError(t, err)
	var printed metav1.Table
	require.NoError(t, json.Unmarshal(data, &printed))
	require.Len(t, printed.Rows, 1)
	wide = map[string]any{}
	for i, column := range printed.ColumnDefinitions {
		wide[column.Name] = printed.Rows[0].Cells[i]
		if column.Priority == 0 {
			narrow = append(narrow, column.Name)
		}
	}
	return wide, narrow
}

func TestColumnsOfPolicies(t *testing.T) {
	c := newClient(t)
	p := &v1alpha1.AttunePolicy{}
	p.Name, p.Namespace = "api", newNamespace(t, c)
	p.Spec.TargetRef.Kind = v1alpha1.KindDeployment
	require.NoError(t, c.Create(t.Context(), p))

	cells, narrow := table(t, "/namespaces/"+p.Namespace+"/attunepolicies")
	assert.Equal(t, []string{"Name", "Mode", "Workloads", "Recs", "Resized", "Ready", "Age"}, narrow)
	assert.Equal(t, "api", cells["Name"])

	p.Status = v1alpha1.AttunePolicyStatus{
		Mode:      v1alpha1.UpdateCanary,
		Workloads: &v1alpha1.WorkloadCounts{Discovered: 3, WithRecommendations: 2, Resized: 1, Pending: 1},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionResizing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonIdle, LastTransitionTime: metav1.Now()},
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring, LastTransitionTime: metav1.Now()},
		},
		Savings: &v1alpha1.Savings{CPURequestReduction: resource.MustParse("1050m"), MemoryRequestReduction: resource.MustParse("696Mi")},
	}
	require.NoError(t, c.Status().Update(t.Context(), p))
	cells, _ = table(t, "/namespaces/"+p.Namespace+"/attunepolicies")
	for column, want := range map[string]any{
		"Mode": "Canary", "Workloads": 3.0, "Recs": 2.0, "Resized": 1.0, "Ready": "True", "Reason": "Monitoring",
		"CPU Savings": "1050m", "Mem Savings": "696Mi",
	} {
		assert.EqualValues(t, want, cells[column], column)
	}
}

func TestColumnsOfClusterPolicies(t *testing.T) {
	c := newClient(t)
	p := &v1alpha1.AttuneClusterPolicy{}
	p.Name = newNamespace(t, c)
	require.NoError(t, c.Create(t.Context(), p))
	t.Cleanup(func() { require.NoError(t, c.Delete(context.WithoutCancel(t.Context()), p)) })
	p.Status = v1alpha1.AttuneClusterPolicyStatus{
		Mode: v1alpha1.UpdateRecommend, Namespaces: &v1alpha1.NamespaceCounts{Selected: 5, Ready: 4},
		Workloads:  &v1alpha1.WorkloadCounts{Discovered: 30, WithRecommendations: 20, Resized: 10},
		Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring, LastTransitionTime: metav1.Now()}},
		Savings:    &v1alpha1.Savings{CPURequestReduction: resource.MustParse("1050m"), MemoryRequestReduction: resource.MustParse("696Mi")},
	}
	require.NoError(t, c.Status().Update(t.Context(), p))
	cells, narrow := table(t, "/attuneclusterpolicies?fieldSelector=metadata.name="+p.Name)
	assert.Equal(t, []string{"Name", "Mode", "Namespaces", "Workloads", "Recs", "Resized", "Ready", "Age"}, narrow)
	for column, want := range map[string]any{
		"Name": p.Name, "Mode": "Recommend", "Namespaces": 5.0, "Workloads": 30.0, "Recs": 20.0, "Resized": 10.0, "Ready": "True",
		"Reason": "Monitoring", "CPU Savings": "1050m", "Mem Savings": "696Mi",
	} {
		assert.EqualValues(t, want, cells[column], column)
	}
}

func TestColumnsOfRecommendations(t *testing.T) {
	c := newClient(t)
	r := &v1alpha1.AttuneRecommendation{}
	r.Name, r.Namespace = "deployment-api", newNamespace(t, c)
	cpu, memory := resource.MustParse("250m"), resource.MustParse("300Mi")
	r.Spec = v1alpha1.AttuneRecommendationSpec{
		Workload:   v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "api"},
		Policy:     v1alpha1.PolicyRef{Name: "all"},
		Mode:       v1alpha1.UpdateAuto,
		Containers: []v1alpha1.ContainerTarget{{Name: "app", Confidence: "0.9", Target: v1alpha1.Resources{CPURequest: &cpu, MemoryRequest: &memory}}},
	}
	require.NoError(t, c.Create(t.Context(), r))
	r.Status.Phase = v1alpha1.PhaseWatching
	require.NoError(t, c.Status().Update(t.Context(), r))

	cells, narrow := table(t, "/namespaces/"+r.Namespace+"/attunerecommendations")
	assert.Equal(t, []string{"Name", "Kind", "Workload", "Mode", "Phase", "CPU", "Memory", "Age"}, narrow)
	for column, want := range map[string]any{
		"Name": "deployment-api", "Kind": "Deployment", "Workload": "api", "Mode": "Auto", "Phase": "Watching", "CPU": "250m", "Memory": "300Mi", "Policy": "all",
	} {
		assert.Equal(t, want, cells[column], column)
	}
}

func TestColumnsOfDefaults(t *testing.T) {
	c := newClient(t)
	paused := true
	d := &v1alpha1.AttuneNamespaceDefaults{}
	d.Name, d.Namespace, d.Spec.Paused = v1alpha1.DefaultsName, newNamespace(t, c), &paused
	require.NoError(t, c.Create(t.Context(), d))
	cells, narrow := table(t, "/namespaces/"+d.Namespace+"/attunenamespacedefaults")
	assert.Equal(t, []string{"Name", "Paused", "Age"}, narrow)
	assert.Equal(t, true, cells["Paused"])

	cluster := &v1alpha1.AttuneDefaults{}
	cluster.Name, cluster.Spec.Paused = v1alpha1.DefaultsName, &paused
	require.NoError(t, c.Create(t.Context(), cluster))
	t.Cleanup(func() { require.NoError(t, c.Delete(context.Background(), cluster)) })
	cells, narrow = table(t, "/attunedefaults")
	assert.Equal(t, []string{"Name", "Paused", "Age"}, narrow)
	assert.Equal(t, true, cells["Paused"])
}
