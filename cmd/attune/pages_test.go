package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/ui"
	"attune.io/attune/usage/history"
)

// shown returns a cluster as in the caches of a leader: Deployment shop/web with a pod, selected by policy api. whole
// is its recommendation as in the API server.
func shown(t *testing.T, objects ...client.Object) (p pages, whole *v1alpha1.AttuneRecommendation) {
	t.Helper()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	requests := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}}
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: requests}}}
	own := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, Controller: ptr.To(true)}}
	}
	whole = &v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-web", UID: "rec", Generation: 3},
		Spec: v1alpha1.AttuneRecommendationSpec{
			Workload: v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}, Policy: v1alpha1.PolicyRef{Name: "api"}, Mode: v1alpha1.UpdateAuto,
			Containers: []v1alpha1.ContainerTarget{{
				Name: "app", Confidence: "0.92", DataPoints: 1680,
				Target: v1alpha1.Resources{CPURequest: ptr.To(resource.MustParse("200m")), MemoryRequest: ptr.To(resource.MustParse("1Gi"))},
				Steps:  []v1alpha1.Step{{Resource: "cpu", Name: "percentile", Before: "0", After: "200m", Reason: "95th percentile of 1680 samples"}},
			}},
		},
	}
	all := []client.Object{
		&v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}, Spec: v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: "web"}}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: spec}}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-7c9f8d6b5-aaaaa", Labels: map[string]string{"pod-template-hash": "7c9f8d6b5"}, OwnerReferences: own("ReplicaSet", "web-7c9f8d6b5")},
			Spec:       spec, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		},
		whole.DeepCopy(),
	}
	all = append(all, objects...)
	for i, o := range all {
		trimmed, err := trim.Object(o)
		require.NoError(t, err)
		all[i] = trimmed.(client.Object)
	}
	scheme, err := newScheme()
	require.NoError(t, err)
	live := fake.NewClientBuilder().WithScheme(scheme).WithObjects(whole.DeepCopy()).Build()
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(all...).
		WithIndex(&corev1.Pod{}, workload.PodsByWorkload, func(o client.Object) []string { return workload.IndexOf(o) }).
		WithIndex(&batchv1.Job{}, workload.JobsByCronJob, func(o client.Object) []string { return workload.IndexOfJob(o) }).
		WithIndex(&corev1.Pod{}, workload.PodsByNode, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	return pages{
		client: cache, live: live, settings: lookup.Reader{Client: cache}, history: history.New(history.Options{}),
		clock: clocktesting.NewFakePassiveClock(now),
	}, whole
}

func cachedRec(t *testing.T, p pages) *v1alpha1.AttuneRecommendation {
	t.Helper()
	all, err := p.All(t.Context(), "shop")
	require.NoError(t, err)
	require.Len(t, all.Recommendations, 1)
	return &all.Recommendations[0]
}

// The leader explains the same from its caches as kubectl attune explain from the API server, with every step.
func TestPagesExplain(t *testing.T) {
	p, whole := shown(t)
	got := p.Explain(t.Context(), cachedRec(t, p), true)
	require.Empty(t, got.Problem)
	assert.Empty(t, got.Note)
	settings, err := p.settingsOf(t.Context(), whole)
	require.NoError(t, err)
	spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi"),
	}}}}}
	want, err := answers.Explain(answers.View{
		Recommendation: whole, Settings: settings, Workload: workload.Workload{Template: &corev1.PodTemplateSpec{Spec: spec}},
		Pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "web-7c9f8d6b5-aaaaa", Labels: map[string]string{"pod-template-hash": "7c9f8d6b5"}}, Spec: spec}},
	}, nil, p.now())
	require.NoError(t, err)
	assert.Equal(t, want, got.Explanation)
	assert.Equal(t, "percentile", got.Containers[0].Steps[0].Name)
	assert.Equal(t, "500m", *got.Containers[0].Current.CPURequest)
	assert.Empty(t, p.Usage(t.Context(), whole)["app"], "nothing was measured")
}

// The pages say why new pods are not sized, for both values of the chart's webhook.namespaces.
func TestPagesSayWhyNewPodsAreNotSized(t *testing.T) {
	for _, c := range []struct {
		spec   v1alpha1.PolicySettings
		all    bool
		labels map[string]string
		want   string
	}{
		{all: false, want: "New pods keep the resources of their template: the namespace does not have the label attune.io/inject=enabled."},
		{all: false, labels: map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectEnabled}},
		{all: true},
		{all: true, labels: map[string]string{v1alpha1.InjectLabel: v1alpha1.InjectDisabled}, want: "New pods keep the resources of their template: the namespace has the label attune.io/inject=disabled."},
		{all: true, spec: v1alpha1.PolicySettings{Admission: ptr.To(v1alpha1.Disabled)}, want: "New pods keep the resources of their template: the setting admission is Disabled."},
	} {
		namespace := lookup.Namespace() // as in the leader's cache
		namespace.Name, namespace.Labels = "shop", c.labels
		p, _ := shown(t, namespace)
		p.settings.Admission = &workload.Admission{AllButDisabled: c.all}
		of := &v1alpha1.AttunePolicy{}
		require.NoError(t, p.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "api"}, of))
		of.Spec.PolicySettings = c.spec
		of.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateAuto)}
		require.NoError(t, p.client.(client.Client).Update(t.Context(), of))
		got := p.Explain(t.Context(), cachedRec(t, p), true)
		require.Empty(t, got.Problem)
		assert.Equal(t, c.want, got.Workload.NewPods, "%+v", c)
	}
}

// The page names missing data and shows the rest.
func TestPagesWithoutAll(t *testing.T) {
	p, _ := shown(t)
	rec := cachedRec(t, p)
	require.NoError(t, p.live.(client.Client).Delete(t.Context(), rec.DeepCopy()))
	rec.Spec.Policy.Name = "gone"
	got := p.Explain(t.Context(), rec, true)
	assert.Equal(t, "The next step of policy gone is not known: it does not exist. The API server did not return the steps up to bounds: kubectl attune explain shows them.", got.Note)
	assert.Equal(t, "200m", *got.Containers[0].Target.CPURequest)
	assert.Nil(t, p.Usage(t.Context(), rec))
	rec.Spec.Containers[0].Confidence = "much"
	assert.Contains(t, p.Explain(t.Context(), rec, true).Problem, `container app has the confidence "much"`)
}

// The leader serves pages in addition to its decisions, on loopback only. The other replicas name the leader.
func TestPagesAreServed(t *testing.T) {
	p, _ := shown(t)
	d := &decisions{decided: knows, leads: leading(), leader: nobody, pages: ui.NewHandler(p, func(string, error) {})}
	code, body := ask(d, http.MethodGet, "/ui/")
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, body, `href="/ui/ns/shop"`)
	code, body = ask(d, http.MethodGet, "/ui/ns/shop/Deployment/web")
	assert.Equal(t, http.StatusOK, code)
	assert.Contains(t, body, "95th percentile of 1680 samples")
	code, _ = ask(d, http.MethodGet, "/")
	assert.Equal(t, http.StatusFound, code)
	code, _ = ask(d, http.MethodPost, "/ui/")
	assert.Equal(t, http.StatusMethodNotAllowed, code)
	code, _ = ask(d, http.MethodGet, "/nodes/worker")
	assert.Equal(t, http.StatusOK, code)

	w := httptest.NewRecorder()
	request := httptest.NewRequest(http.MethodGet, "/ui/", nil)
	request.Host = "evil.example"
	d.handler().ServeHTTP(w, request)
	assert.Equal(t, http.StatusForbidden, w.Code)

	d.leads = make(chan struct{})
	code, body = ask(d, http.MethodGet, "/ui/")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Contains(t, body, "this replica is not the leader")
}

// The page of a namespace lists a cluster policy that selects it, even before it selects a workload there.
func TestPagesOfAClusterPolicy(t *testing.T) {
	everything := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "everything", UID: "acp"}}
	elsewhere := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", UID: "other"}, Spec: v1alpha1.AttuneClusterPolicySpec{Namespaces: []v1alpha1.NamespaceName{"else"}}}
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	p, _ := shown(t, everything, elsewhere, shop)
	p.settings.Clusterwide = true
	names := func(namespace string) (names []string) {
		all, err := p.All(t.Context(), namespace)
		require.NoError(t, err)
		for i := range all.Policies {
			names = append(names, all.Policies[i].Name)
		}
		return names
	}
	assert.Equal(t, []string{"api", "AttuneClusterPolicy/everything"}, names("shop"))
	assert.ElementsMatch(t, []string{"api", "AttuneClusterPolicy/everything", "AttuneClusterPolicy/elsewhere"}, names(""))
}
