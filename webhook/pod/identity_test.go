package pod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// identified is a typical recommendation of a workload with the identity web.
func identified(t *testing.T, kind v1alpha1.WorkloadKind, name string, created time.Time) *v1alpha1.AttuneRecommendation {
	rec := typicalSeed(t)
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: kind, Name: name}
	rec.Name, rec.Spec.Identity, rec.CreationTimestamp = workload.RecommendationName(kind, name), "web", metav1.NewTime(created)
	return rec
}

func TestTheNewestOfAnIdentity(t *testing.T) {
	x := NewIndex()
	of := workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web-43"}
	assert.Nil(t, x.Newest(of, "web"))
	old, young := identified(t, v1alpha1.KindDeployment, "web-41", now), identified(t, v1alpha1.KindDeployment, "web-42", now.Add(time.Hour))
	x.Set(young)
	x.Set(old)
	x.Set(identified(t, v1alpha1.KindStatefulSet, "web-44", now.Add(2*time.Hour)))
	assert.Equal(t, young.Name, x.Newest(of, "web").Name)
	assert.Nil(t, x.Newest(of, "other"))
	of.Namespace = "another"
	assert.Nil(t, x.Newest(of, "web"), "an identity is one of its namespace")
	of.Namespace = "shop"

	withheld := young.DeepCopy()
	withheld.Spec.Identity = ""
	x.Set(withheld)
	assert.Equal(t, old.Name, x.Newest(of, "web").Name)
	x.Delete(old)
	assert.Nil(t, x.Newest(of, "web"))
	assert.Len(t, x.identities, 1, "the StatefulSet's")
}

// The pods of owners that attune does not size keep their resources, whatever their labels say: these owners do not
// create a rejected pod again.
func TestAnIdentitySizesNoPodsOfOtherOwners(t *testing.T) {
	x := NewIndex()
	x.Set(identified(t, v1alpha1.KindJob, workload.SharedName("web"), now))
	x.Set(identified(t, v1alpha1.KindDeployment, "web-41", now))
	for name, owner := range map[string]*metav1.OwnerReference{
		"Airflow, gitlab-runner": nil,
		"Argo Workflows":         {APIVersion: "argoproj.io/v1alpha1", Kind: "Workflow", Name: "etl-x7k2p"},
		"Tekton":                 {APIVersion: "tekton.dev/v1", Kind: "TaskRun", Name: "build-x7k2p"},
		"GitHub runners":         {APIVersion: "actions.github.com/v1alpha1", Kind: "EphemeralRunner", Name: "runner-x7k2p"},
		"Spark executors":        {APIVersion: "v1", Kind: "Pod", Name: "pi-driver"},
		"Spark Connect":          {APIVersion: "sparkoperator.k8s.io/v1alpha1", Kind: "SparkConnect", Name: "pi"},
		"CloudNativePG":          {APIVersion: "postgresql.cnpg.io/v1", Kind: "Cluster", Name: "orders"},
		"Volcano":                {APIVersion: "batch.volcano.sh/v1alpha1", Kind: "Job", Name: "train"},
	} {
		pod := typicalPod(t)
		pod.OwnerReferences = nil
		if owner != nil {
			owner.Controller = ptr.To(true)
			pod.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		pod.Labels = map[string]string{v1alpha1.IdentityLabel: "web"}
		assert.Nil(t, answerOf(t, handler(t, x, fixed(now)), reviewOf(t, pod)).Response.Patch, name)
	}
	for name, kind := range map[string]string{"web-42": "StatefulSet", "web": "DaemonSet"} {
		pod := typicalPod(t)
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, Controller: ptr.To(true)}}
		pod.Labels = map[string]string{v1alpha1.IdentityLabel: "web"}
		assert.Nil(t, answerOf(t, handler(t, x, fixed(now)), reviewOf(t, pod)).Response.Patch, "another kind: %s", kind)
	}
}

// A pod that lacks a container of the recommendation shares nothing with it; one with an injected container does.
func TestAnIdentitySizesPodsWithItsContainers(t *testing.T) {
	x := NewIndex()
	x.Set(identified(t, v1alpha1.KindJob, workload.SharedName("web"), now))
	for _, missing := range []bool{false, true} {
		pod := typicalPod(t)
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "web-x7k2p", Controller: ptr.To(true)}}
		pod.Labels = map[string]string{v1alpha1.IdentityLabel: "web"}
		if missing {
			pod.Spec.Containers[0].Name = "another"
		}
		assert.Equal(t, !missing, answerOf(t, handler(t, x, fixed(now)), reviewOf(t, pod)).Response.Patch != nil)
	}
}
