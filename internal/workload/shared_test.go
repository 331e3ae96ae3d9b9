package workload_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

func TestSharedIn(t *testing.T) {
	for name, tc := range map[string]struct {
		labels map[string]string
		want   string
	}{
		"none":                 {map[string]string{"app": "web"}, ""},
		"a user's":             {map[string]string{"attune.io/identity": "etl"}, "etl"},
		"KEDA's":               {map[string]string{"scaledjob.keda.sh/name": "etl"}, "etl"},
		"Knative's":            {map[string]string{"serving.knative.dev/configuration": "web"}, "web"},
		"a user's goes first":  {map[string]string{"attune.io/identity": "a", "scaledjob.keda.sh/name": "b"}, "a"},
		"not a label value":    {map[string]string{"attune.io/identity": "a:b"}, ""},
		"too long for a label": {map[string]string{"attune.io/identity": strings.Repeat("a", 64)}, ""},
		"empty":                {map[string]string{"attune.io/identity": "", "scaledjob.keda.sh/name": "b"}, "b"},
	} {
		assert.Equal(t, tc.want, workload.SharedIn(tc.labels), name)
	}
}

// jobOwner is a Lookup of one answer.
type jobOwner struct {
	owner string
	known bool
}

func (j jobOwner) JobOwner(string, string) (string, bool) { return j.owner, j.known }

// A pod of a Job belongs to a CronJob, then to its identity, then to the Job; pods of other kinds keep their workload.
func TestThePodsOfAnIdentity(t *testing.T) {
	for name, tc := range map[string]struct {
		kind, api, owner, identity string
		lookup                     workload.Lookup
		want                       string
	}{
		"at admission":                 {"Job", "batch/v1", "etl-x7k2p", "etl", nil, "Job/identity:etl"},
		"without an identity":          {"Job", "batch/v1", "etl-x7k2p", "", nil, "Job/etl-x7k2p"},
		"a CronJob's name":             {"Job", "batch/v1", "etl-29405000", "etl", nil, "CronJob/etl"},
		"known as a CronJob's":         {"Job", "batch/v1", "etl-x7k2p", "etl", jobOwner{"nightly", true}, "CronJob/nightly"},
		"known as the identity's":      {"Job", "batch/v1", "etl-29405000", "", jobOwner{"identity:etl", true}, "Job/identity:etl"},
		"known to have none":           {"Job", "batch/v1", "etl-x7k2p", "etl", jobOwner{"", true}, "Job/etl-x7k2p"},
		"a Job that is not known":      {"Job", "batch/v1", "etl-x7k2p", "etl", jobOwner{}, "Job/identity:etl"},
		"a Job of another API group":   {"Job", "batch.volcano.sh/v1alpha1", "etl", "etl", nil, "Job.batch.volcano.sh/etl"},
		"a StatefulSet keeps its name": {"StatefulSet", "apps/v1", "db-42", "db", nil, "StatefulSet/db-42"},
		// attune has no recommendation for these kinds, unless they are in scaledKinds.
		"Argo Workflows":        {"Workflow", "argoproj.io/v1alpha1", "etl-x7k2p", "etl", nil, "Workflow.argoproj.io/etl-x7k2p"},
		"Tekton":                {"TaskRun", "tekton.dev/v1", "build-x7k2p", "build", nil, "TaskRun.tekton.dev/build-x7k2p"},
		"a GitHub runner":       {"EphemeralRunner", "actions.github.com/v1alpha1", "runner-x7k2p", "runner", nil, "EphemeralRunner.actions.github.com/runner-x7k2p"},
		"a Spark executor":      {"Pod", "v1", "pi-driver", "pi", nil, ""},
		"a Spark driver's CR":   {"SparkApplication", "sparkoperator.k8s.io/v1beta2", "pi", "pi", nil, "SparkApplication.sparkoperator.k8s.io/pi"},
		"a pod without owner":   {"", "", "", "etl", nil, ""},
		"an Airflow task's pod": {"", "", "", "dag-task", nil, ""},
	} {
		pod := &metav1.ObjectMeta{Namespace: "shop"}
		if tc.identity != "" {
			pod.Labels = map[string]string{v1alpha1.IdentityLabel: tc.identity}
		}
		if tc.kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: tc.api, Kind: tc.kind, Name: tc.owner, Controller: ptr(true)}}
		}
		id, ok := workload.OwnerOf(pod, "shop", tc.lookup)
		assert.Equal(t, tc.want != "", ok, name)
		if ok {
			assert.Equal(t, tc.want, id.String(), name)
		}
	}
}

func runOf(name, identity string, created int) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "u", CreationTimestamp: metav1.NewTime(time.Unix(int64(created), 0))}}
	j.Spec.Template.Labels = map[string]string{v1alpha1.IdentityLabel: identity}
	return j
}

func TestAJobAsItsIdentity(t *testing.T) {
	w, _ := workload.From(runOf("etl-x7k2p", "etl", 1))
	want := workload.Identity{Kind: v1alpha1.KindJob, Namespace: "shop", Name: "identity:etl"}
	assert.Equal(t, want, w.RecommendedAs())
	assert.Equal(t, want, w.AsShared().Identity)
	assert.Equal(t, want, w.AsShared().RecommendedAs())
	assert.Empty(t, w.AsShared().UID)
	assert.True(t, want.IsShared())
	assert.False(t, w.IsShared())
	assert.Equal(t, []string{"identity:etl"}, workload.IndexOfJob(runOf("etl-x7k2p", "etl", 1)))

	owned := runOf("nightly-29405000", "etl", 1)
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: "nightly", Controller: ptr(true)}}
	assert.Equal(t, []string{"nightly"}, workload.IndexOfJob(owned), "the Job of a CronJob belongs to it")

	assert.True(t, workload.NewerJob(runOf("a", "etl", 2), runOf("b", "etl", 1)))
	assert.False(t, workload.NewerJob(runOf("a", "etl", 1), runOf("b", "etl", 1)))
	assert.True(t, workload.NewerJob(runOf("b", "etl", 1), runOf("a", "etl", 1)))
}

// The recommendation of an identity has a valid name of its own, whatever the label value and the names of Jobs are.
func TestTheRecommendationOfAnIdentity(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{
		"etl", "identity:etl", "identity:ETL", "identity:e_tl", "identity:e-tl", "identity:e.tl", "identity:e._.tl", "identity:e..tl",
		"identity-etl", "identity-job-etl", "identity:" + strings.Repeat("x", 63), "identity:" + strings.Repeat("X", 63), "identity:a_.b", "identity:a-.b",
	} {
		object := workload.RecommendationName(v1alpha1.KindJob, name)
		assert.Empty(t, validation.IsDNS1123Subdomain(object), name)
		assert.Empty(t, seen[object], "%s has the name of %s", name, seen[object])
		seen[object] = name
	}
	id := workload.Identity{Kind: v1alpha1.KindJob, Namespace: "shop", Name: "identity:e_TL"}
	assert.Equal(t, "e_TL", id.RecommendationLabels()[v1alpha1.WorkloadNameLabel])
}

func (jobOwner) ReplicaSetOwner(string, string) (workload.Identity, bool) {
	return workload.Identity{}, false
}
