package workload_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/internal/workload"
)

// rolloutOf decodes a Rollout like a client. Its generation is 3.
func rolloutOf(t *testing.T, spec, status string) workload.Workload {
	t.Helper()
	o := &workload.ArgoRollout{}
	text := `{"metadata": {"namespace": "shop", "name": "api", "generation": 3}, "spec": ` + spec + `, "status": ` + status + `}`
	require.NoError(t, json.Unmarshal([]byte(text), o))
	w, ok := workload.From(o)
	require.True(t, ok)
	return w
}

const argoTemplate = `{"replicas": 4, "strategy": {"canary": {"steps": [{"setWeight": 20}]}},
	"template": {"spec": {"containers": [{"name": "app", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}]}}}`

func TestARolloutHasItsTemplate(t *testing.T) {
	w := rolloutOf(t, argoTemplate, `{}`)
	assert.Equal(t, "Rollout/api", w.String())
	assert.EqualValues(t, 4, w.Replicas)
	assert.Equal(t, "1", w.Template.Spec.Containers[0].Resources.Requests.Cpu().String())
	_, skipped := w.Skipped()
	assert.False(t, skipped)
	assert.EqualValues(t, 1, rolloutOf(t, `{"template": {}}`, `{}`).Replicas, "as of a Deployment")
}

// The CRD accepts any string as a size, and one such object must not block the others.
func TestARolloutThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"a size that is none": {strings.Replace(argoTemplate, "1Gi", "a lot", 1), "Rollout/api, whose pod template cannot be read: "},
		"an amount of a megabyte": {strings.Replace(argoTemplate, "1Gi", strings.Repeat("9", 1<<20), 1),
			"Rollout/api, whose pod template cannot be read: an amount has 1048576 characters: use at most 64"},
		"a number of a megabyte": {strings.Replace(argoTemplate, `"cpu": 1`, `"cpu": `+strings.Repeat("9", 1<<20), 1),
			"Rollout/api, whose pod template cannot be read: an amount has 1048576 characters: use at most 64"},
		"an exponent": {strings.Replace(argoTemplate, "1Gi", "1e999999999", 1),
			"Rollout/api, whose pod template cannot be read: the exponent of the amount 1e999999999 is too large: use at most two digits"},
		"a number's exponent": {strings.Replace(argoTemplate, `"cpu": 1`, `"cpu": 1e999999999`, 1),
			"Rollout/api, whose pod template cannot be read: the exponent of the amount 1e999999999 is too large: use at most two digits"},
		"a field of another type": {`{"replicas": "four"}`, "Rollout/api, whose pod template cannot be read: "},
		"another kind's template": {`{"workloadRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "api"}}`,
			"Rollout/api, whose pod template cannot be read: spec.workloadRef refers to a StatefulSet, but must refer to a Deployment"},
		"another group's Deployment": {`{"workloadRef": {"apiVersion": "example.com/v1", "kind": "Deployment", "name": "api"}}`,
			"Rollout/api, whose pod template cannot be read: spec.workloadRef refers to a Deployment, but must refer to a Deployment"},
		"a Deployment that is not there": {`{"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}`,
			"Rollout/api, whose pod template cannot be read: Deployment/web of spec.workloadRef does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			w := rolloutOf(t, c.spec, `{"observedGeneration": 7}`)
			assert.Nil(t, w.Template)
			where, skipped := w.Skipped()
			assert.True(t, skipped)
			assert.Contains(t, where, c.want)
			assert.Less(t, len(where), 400)
		})
	}
}

func TestARolloutWithTheTemplateOfADeployment(t *testing.T) {
	deployment := func(annotations map[string]string) workload.Workload {
		w, _ := workload.From(&appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: annotations},
			Spec:       appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}},
		})
		return w
	}
	rollout := rolloutOf(t, `{"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}`, `{}`)

	all := []workload.Workload{rollout, deployment(nil)}
	workload.Join(all)
	assert.Equal(t, "app", all[0].Template.Spec.Containers[0].Name)
	_, skipped := all[0].Skipped()
	assert.False(t, skipped)
	assert.Nil(t, rollout.Template, "a copy was given the template")

	large := []workload.Workload{deployment(map[string]string{workload.TooLargeAnnotation: workload.Cut}), rollout}
	workload.Join(large)
	where, _ := large[1].Skipped()
	assert.Equal(t, "Rollout/api, whose pod template cannot be read: Deployment/web of spec.workloadRef is too large", where)

	alone := []workload.Workload{rollout}
	workload.Join(alone)
	assert.Nil(t, alone[0].Template)
}

// The version changes with each object that the workload was read from.
func TestTheVersionOfARolloutWithTheTemplateOfADeployment(t *testing.T) {
	rollout := rolloutOf(t, `{"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}`, `{}`)
	version := func(of, template string) string {
		w, _ := workload.From(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", ResourceVersion: template}})
		rollout.Version = of
		all := []workload.Workload{rollout, w}
		workload.Join(all)
		return all[0].Version
	}
	assert.Equal(t, version("1", "2"), version("1", "2"))
	assert.NotEqual(t, version("1", "2"), version("1", "3"), "the template may have changed")
	assert.NotEqual(t, version("1", "2"), version("2", "2"))
	assert.NotEqual(t, version("1", "21"), version("12", "1"))
	assert.NotEqual(t, "1", version("1", "2"), "there was no Deployment before")
	assert.Empty(t, version("", "2"), "not known")
	assert.Empty(t, version("1", ""), "not known")
}

func TestTheProgressOfARollout(t *testing.T) {
	for name, c := range map[string]struct{ status, want string }{
		"done":                      {`{"observedGeneration": "3", "currentPodHash": "a", "stableRS": "a", "phase": "Healthy"}`, ""},
		"not yet seen":              {`{"observedGeneration": "2", "currentPodHash": "a", "stableRS": "a"}`, "its controller has not observed generation 3 yet"},
		"never seen":                {`{}`, "its controller has not observed generation 3 yet"},
		"the hash of old versions":  {`{"observedGeneration": "5f9c7d", "currentPodHash": "a", "stableRS": "a"}`, ""},
		"waits for a person":        {`{"observedGeneration": "3", "currentPodHash": "b", "stableRS": "a", "phase": "Paused", "message": "CanaryPauseStep"}`, "the stable revision is not the newest one; its phase is Paused (CanaryPauseStep)"},
		"progresses":                {`{"observedGeneration": "3", "currentPodHash": "b", "stableRS": "a", "phase": "Progressing"}`, "the stable revision is not the newest one; its phase is Progressing"},
		"was aborted":               {`{"observedGeneration": "3", "currentPodHash": "b", "stableRS": "a", "phase": "Degraded", "abort": true}`, "the stable revision is not the newest one; the rollout was aborted"},
		"the first one":             {`{"observedGeneration": "3", "currentPodHash": "a"}`, "the stable revision is not the newest one"},
		"a status of another shape": {`{"observedGeneration": {}}`, "its controller has not observed generation 3 yet"},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, workload.Rollout{InProgress: c.want != "", Reason: c.want}, rolloutOf(t, argoTemplate, c.status).Rollout)
		})
	}
	long := rolloutOf(t, argoTemplate, `{"currentPodHash": "b", "observedGeneration": "3", "message": "`+strings.Repeat("x", 5000)+`", "phase": "Paused"}`)
	assert.Less(t, len(long.Rollout.Reason), 300)
}

// Caches return copies, so a copy must share nothing.
func TestACopyOfARolloutIsItsOwn(t *testing.T) {
	of := &workload.ArgoRolloutList{}
	require.NoError(t, json.Unmarshal([]byte(`{"items": [{"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": `+argoTemplate+`}]}`), of))
	of.Items[0].Spec.WorkloadRef = &workload.WorkloadRef{Name: "web"}
	copied := of.DeepCopyObject().(*workload.ArgoRolloutList)
	require.Equal(t, of, copied)
	copied.Items[0].Labels["x"], *copied.Items[0].Spec.Replicas, copied.Items[0].Spec.WorkloadRef.Name = "z", 9, "db"
	copied.Items[0].Spec.Template.Spec.Containers[0].Name = "other"
	assert.Equal(t, "y", of.Items[0].Labels["x"])
	assert.EqualValues(t, 4, *of.Items[0].Spec.Replicas)
	assert.Equal(t, "web", of.Items[0].Spec.WorkloadRef.Name)
	assert.Equal(t, "app", of.Items[0].Spec.Template.Spec.Containers[0].Name)
}
