package workload_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// ownedBy returns a pod as at admission: without name and namespace.
func ownedBy(apiVersion, kind, name string, labels ...string) *corev1.Pod {
	yes := true
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		GenerateName:    name + "-",
		Labels:          map[string]string{},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: "uid", Controller: &yes}},
	}}
	for i := 0; i < len(labels); i += 2 {
		pod.Labels[labels[i]] = labels[i+1]
	}
	return pod
}

// Whole selects no ReplicaSet of a Deployment or Rollout; a ReplicaSet without such a label is standalone.
func TestWhole(t *testing.T) {
	for label, whole := range map[string]bool{"app": true, "pod-template-hash": false, "rollouts-pod-template-hash": false} {
		assert.Equal(t, whole, workload.Whole().Matches(labels.Set{"team": "shop", label: "x"}), label)
	}
}

func TestOwnerOf(t *testing.T) {
	const hash, argoHash = "pod-template-hash", "rollouts-pod-template-hash"
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string // empty if the pod has no workload
	}{
		"Deployment":                           {ownedBy("apps/v1", "ReplicaSet", "api-7d4b9c6f5", hash, "7d4b9c6f5"), "Deployment/api"},
		"Deployment with dashes":               {ownedBy("apps/v1", "ReplicaSet", "my-app-v2-7d4b9c6f5", hash, "7d4b9c6f5"), "Deployment/my-app-v2"},
		"Deployment named like its hash":       {ownedBy("apps/v1", "ReplicaSet", "abc-abc", hash, "abc"), "Deployment/abc"},
		"a ReplicaSet that stands alone":       {ownedBy("apps/v1", "ReplicaSet", "api-7d4b9c6f5"), "ReplicaSet/api-7d4b9c6f5"},
		"one whose hash is not in its name":    {ownedBy("apps/v1", "ReplicaSet", "adopted", hash, "7d4b9c6f5"), "ReplicaSet/adopted"},
		"one whose name is nothing but a hash": {ownedBy("apps/v1", "ReplicaSet", "-abc", hash, "abc"), "ReplicaSet/-abc"},
		"Argo Rollout":                         {ownedBy("apps/v1", "ReplicaSet", "api-7d4b9c6f5", argoHash, "7d4b9c6f5"), "Rollout/api"},
		"a Rollout whose template has a hash":  {ownedBy("apps/v1", "ReplicaSet", "api-7d4b9c6f5", argoHash, "7d4b9c6f5", hash, "abc"), "Rollout/api"},
		"a Rollout's adopted ReplicaSet":       {ownedBy("apps/v1", "ReplicaSet", "adopted", argoHash, "7d4b9c6f5"), "ReplicaSet/adopted"},
		"StatefulSet":                          {ownedBy("apps/v1", "StatefulSet", "db", hash, "x"), "StatefulSet/db"},
		"DaemonSet":                            {ownedBy("apps/v1", "DaemonSet", "agent"), "DaemonSet/agent"},
		"another group's StatefulSet":          {ownedBy("apps.kruise.io/v1beta1", "StatefulSet", "db"), "StatefulSet.apps.kruise.io/db"},
		"another version of apps":              {ownedBy("apps/v2", "StatefulSet", "db"), "StatefulSet/db"},
		"a group that cannot be read":          {ownedBy("a/b/c", "StatefulSet", "db"), ""},
		"Job":                                  {ownedBy("batch/v1", "Job", "import"), "Job/import"},
		"a Job with a short number":            {ownedBy("batch/v1", "Job", "import-2026"), "Job/import-2026"},
		"a Job named like a CronJob's":         {ownedBy("batch/v1", "Job", "backup-29384756"), "CronJob/backup"},
		"a Job of a day":                       {ownedBy("batch/v1", "Job", "import-20261119"), "Job/import-20261119"},
		"a Job of a day of this century":       {ownedBy("batch/v1", "Job", "import-20991231"), "Job/import-20991231"},
		"a Job of a day, the year last":        {ownedBy("batch/v1", "Job", "import-19112026"), "Job/import-19112026"},
		"a Job with a great number":            {ownedBy("batch/v1", "Job", "import-99999999"), "Job/import-99999999"},
		"a CronJob's first minute":             {ownedBy("batch/v1", "Job", "backup-25000000"), "CronJob/backup"},
		"a CronJob's last minute":              {ownedBy("batch/v1", "Job", "backup-60000000"), "CronJob/backup"},
		"a Job named only by a number":         {ownedBy("batch/v1", "Job", "29384756"), "Job/29384756"},
		"a node's static pod":                  {ownedBy("v1", "Node", "worker-1"), ""},
		"ReplicationController":                {ownedBy("v1", "ReplicationController", "old"), ""},
		"a custom kind":                        {ownedBy("example.com/v1", "Database", "db"), "Database.example.com/db"},
		"a Rollout itself":                     {ownedBy("argoproj.io/v1alpha1", "Rollout", "db"), ""},
		"a kind of a group without a dot":      {ownedBy("policy/v1", "Database", "db"), ""},
		"a kind that is no label's value":      {ownedBy("example.com/v1", "Database"+strings.Repeat("e", 44), "db"), ""},
		"a kind that is none":                  {ownedBy("example.com/v1", "Data/base", "db"), ""},
		"an owner without a name":              {ownedBy("apps/v1", "StatefulSet", ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := workload.OwnerOf(c.pod, "shop", nil)
			if c.want == "" {
				assert.False(t, ok, got)
				return
			}
			assert.True(t, ok)
			assert.Equal(t, c.want, got.String())
			assert.Equal(t, "shop", got.Namespace)
		})
	}
}

func TestOnlyTheControllerOwns(t *testing.T) {
	pod := ownedBy("apps/v1", "StatefulSet", "db")
	pod.OwnerReferences[0].Controller = nil
	_, ok := workload.OwnerOf(pod, "shop", nil)
	assert.False(t, ok)

	_, ok = workload.OwnerOf(&corev1.Pod{}, "shop", nil)
	assert.False(t, ok)
}

// jobs has the owners of known Jobs, by namespace/name.
type jobs map[string]string

func (j jobs) JobOwner(namespace, job string) (string, bool) {
	owner, known := j[namespace+"/"+job]
	return owner, known
}

// ReplicaSetOwner knows the ReplicaSet legacy-7f, which Deployment web adopted.
func (jobs) ReplicaSetOwner(namespace, replicaSet string) (workload.Identity, bool) {
	return workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: namespace, Name: "web"}, replicaSet == "legacy-7f"
}

// A Deployment adopts ReplicaSets whose names are not its own (kubernetes/kubernetes#108372); the owner reference counts.
func TestAdoptedReplicaSetsBelongToTheDeployment(t *testing.T) {
	for name, want := range map[string]string{"legacy-7f": "Deployment/web", "alone": "ReplicaSet/alone"} {
		got, ok := workload.OwnerOf(ownedBy("apps/v1", "ReplicaSet", name), "shop", jobs{})
		assert.True(t, ok)
		assert.Equal(t, want, got.String())
	}
	adopted := &appsv1.ReplicaSet{ObjectMeta: ownedBy("apps/v1", "Deployment", "web").ObjectMeta}
	adopter, ok := workload.AdopterOf(adopted)
	assert.True(t, ok)
	assert.Equal(t, "Deployment/web", adopter.String())
	_, ok = workload.AdopterOf(&appsv1.ReplicaSet{})
	assert.False(t, ok)
	_, ok = workload.AdopterOf(&appsv1.ReplicaSet{ObjectMeta: ownedBy("example.com/v1", "Deployment", "web").ObjectMeta})
	assert.False(t, ok)
}

// A known owner takes precedence over the format of a name.
func TestLookup(t *testing.T) {
	seen := jobs{"shop/backup-29384756": "backup", "shop/manual": "backup", "shop/report-29384756": "", "bank/other": "x"}
	for job, want := range map[string]string{
		"backup-29384756": "CronJob/backup",
		"manual":          "CronJob/backup",
		"report-29384756": "Job/report-29384756",
		"unseen-29384756": "CronJob/unseen",
		"other":           "Job/other",
	} {
		got, ok := workload.OwnerOf(ownedBy("batch/v1", "Job", job), "shop", seen)
		assert.True(t, ok)
		assert.Equal(t, want, got.String())
	}
}

func TestRecommendationName(t *testing.T) {
	assert.Equal(t, "deployment-api", workload.RecommendationName(v1alpha1.KindDeployment, "api"))
	assert.Equal(t, "cronjob-backup", workload.Identity{Kind: v1alpha1.KindCronJob, Name: "backup"}.RecommendationName())

	fits := strings.Repeat("a", 253-len("statefulset-"))
	assert.Equal(t, "statefulset-"+fits, workload.RecommendationName(v1alpha1.KindStatefulSet, fits))

	long := strings.Repeat("a", 229) + "." + strings.Repeat("b", 23)
	cut := workload.RecommendationName(v1alpha1.KindStatefulSet, long)
	assert.Len(t, cut, 253-1, "the dot before the hash is dropped")
	assert.NotContains(t, cut, ".-")
	assert.NotEqual(t, cut, workload.RecommendationName(v1alpha1.KindStatefulSet, long[:252]+"c"))
	assert.Equal(t, cut, workload.RecommendationName(v1alpha1.KindStatefulSet, long), "the same every time")
}

func TestRecommendationLabels(t *testing.T) {
	id := workload.Identity{Kind: v1alpha1.KindDeployment, Name: strings.Repeat("a", 62) + "." + strings.Repeat("b", 5)}
	assert.Equal(t, map[string]string{v1alpha1.WorkloadKindLabel: "Deployment", v1alpha1.WorkloadNameLabel: strings.Repeat("a", 62)}, id.RecommendationLabels())

	id.Name = strings.Repeat("a", 62) + "-"
	assert.Equal(t, id.Name, id.RecommendationLabels()[v1alpha1.WorkloadNameLabel], "63 characters fit")

	id.Name = "api.v2"
	assert.Equal(t, "api.v2", id.RecommendationLabels()[v1alpha1.WorkloadNameLabel])
}
