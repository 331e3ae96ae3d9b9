package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
)

// With prices every amount has a price, in the currency of the defaults.
func TestSavingsWithPrices(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	require.NoError(t, cli.client.Create(t.Context(), &v1alpha1.AttuneDefaults{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName},
		Spec: v1alpha1.DefaultsSpec{CostPricing: &v1alpha1.CostPricing{
			CPUPerCoreHour: ptr.To(v1alpha1.Decimal("0.03")), MemoryPerGiBHour: ptr.To(v1alpha1.Decimal("0.004")), Currency: "€",
		}},
	}))
	golden(t, "savings-priced.txt", cli.run("savings").out)
	golden(t, "savings-priced.json", cli.run("savings", "deploy/web", "-o", "json").out)
}

func TestSavingsWithoutTheRightToListPods(t *testing.T) {
	got := newCLITest(t, noRight(&corev1.PodList{}, "pods")).run("savings", "deploy/web", "-o", "json")
	assert.Equal(t, exitOK, got.code)
	assert.Contains(t, got.errOut, "saved amounts are not known, and available amounts are computed from the templates: pods")
	assert.Contains(t, got.out, `"saved": null`)
	assert.Contains(t, got.out, `"cpu": "870m"`, "all three replicas from the template")
}

// Two nodes of one core run one pod each. Both pods fit on one node since attune made them smaller.
func TestSavingsCountRemovableNodes(t *testing.T) {
	spread := func(through interceptor.Funcs) cliTest {
		cli := newCLITest(t, through)
		pods := &corev1.PodList{}
		require.NoError(t, cli.client.List(t.Context(), pods, client.InNamespace("shop"), client.MatchingLabels{"pod-template-hash": "7c9"}))
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodFailed {
				continue
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-" + pods.Items[i].Name}}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			node.Status.Allocatable = corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10"),
			}
			require.NoError(t, cli.client.Create(t.Context(), node))
			pods.Items[i].Spec.NodeName = node.Name
			require.NoError(t, cli.client.Update(t.Context(), &pods.Items[i]))
		}
		return cli
	}
	cli := spread(interceptor.Funcs{})
	assert.Contains(t, cli.run("savings", "-A").out, "\nRemovable nodes, an estimate: 1 of 2; 0 before attune, 1 with the available savings.\n")
	var read struct {
		Nodes map[string]int `json:"nodes"`
	}
	require.NoError(t, json.Unmarshal([]byte(cli.run("savings", "-A", "-o", "json").out), &read))
	assert.Equal(t, map[string]int{"nodes": 2, "removable": 1, "removableBefore": 0, "removableAfter": 1}, read.Nodes)
	assert.NotContains(t, cli.run("savings").out, "Removable", "of a namespace nothing is said of nodes")
	assert.NotContains(t, cli.run("savings", "-A", "-l", "tier=api").out, "Removable")

	got := spread(noRight(&corev1.NodeList{}, "nodes")).run("savings", "-A")
	assert.Equal(t, exitOK, got.code)
	assert.Contains(t, got.errOut, "removable nodes are not shown: nodes")
	assert.NotContains(t, got.out, "Removable")
}

// A kind that the API server no longer serves is omitted with a note, and the others are shown.
func TestSavingsOmitKindsThatAreNotServed(t *testing.T) {
	cli := newCLITest(t, interceptor.Funcs{})
	gone := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cloneset.apps.kruise.io-api"}}
	gone.Spec.Workload = v1alpha1.WorkloadRef{Kind: "CloneSet.apps.kruise.io", Name: "api"}
	gone.Spec.Policy, gone.Spec.Mode = v1alpha1.PolicyRef{Name: "api"}, v1alpha1.UpdateAuto
	require.NoError(t, cli.client.Create(t.Context(), gone))
	got := cli.run("savings")
	assert.Equal(t, exitOK, got.code, got.errOut)
	assert.Contains(t, got.errOut, "current resources of workloads of kind CloneSet.apps.kruise.io are not shown: the API server does not have the kind CloneSet.apps.kruise.io")
	assert.Contains(t, got.out, "Deployment/web")
	assert.Contains(t, got.out, "CloneSet.apps.kruise.io/api")
}

func TestSavingsOfNothing(t *testing.T) {
	got := newCLITest(t, interceptor.Funcs{}).run("savings", "-n", "empty")
	assert.Equal(t, answer{errOut: "no recommendations found; kubectl attune status shows the policies\n"}, got)
}

// byHand has a CronJob with a recommendation and the running pod of a Job that a user created from it.
func byHand(t *testing.T, through interceptor.Funcs) cliTest {
	t.Helper()
	cli := newCLITest(t, through)
	app := corev1.Container{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}
	before := app
	before.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("300m")}}
	of := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: kind, Name: name, UID: "1", Controller: new(true)}}
	}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{before}}}
	for _, object := range []client.Object{
		&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "backup"}, Spec: batchv1.CronJobSpec{
			JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}},
		}},
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "now", OwnerReferences: of("CronJob", "backup")}},
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "now-x2", OwnerReferences: of("Job", "now")},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{app}}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		},
		&v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cronjob-backup"}, Spec: v1alpha1.AttuneRecommendationSpec{
			Workload: v1alpha1.WorkloadRef{Kind: v1alpha1.KindCronJob, Name: "backup"}, Policy: v1alpha1.PolicyRef{Name: "api"}, Mode: v1alpha1.UpdateAuto,
			Containers: []v1alpha1.ContainerTarget{{Name: "app", Confidence: "1", Target: v1alpha1.Resources{CPURequest: new(resource.MustParse("100m"))}}},
		}},
	} {
		require.NoError(t, cli.client.Create(t.Context(), object))
	}
	return cli
}

// The pods of a Job from kubectl create job --from=cronjob/NAME belong to the CronJob, as on the page and in the
// metrics.
func TestAJobThatWasMadeOfACronJobByHandIsTheCronJobs(t *testing.T) {
	got := byHand(t, interceptor.Funcs{}).run("savings", "cj/backup", "-o", "json")
	require.Equal(t, exitOK, got.code, got.errOut)
	assert.Contains(t, got.out, `"cpu": "200m"`, "300m of the template less 100m of the pod")
	assert.Empty(t, got.errOut)

	assert.Contains(t, byHand(t, interceptor.Funcs{}).run("explain", "cj/backup").out, "now-x2")

	var pods struct {
		Scans []struct {
			Object struct{ Pods []struct{ Name string } }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(byHand(t, interceptor.Funcs{}).run("recommendations", "cj/backup", "-o", "krr").out), &pods))
	require.Len(t, pods.Scans, 1)
	require.Len(t, pods.Scans[0].Object.Pods, 1)
	assert.Equal(t, "now-x2", pods.Scans[0].Object.Pods[0].Name)
}

// A user that may not list Jobs gets a note about uncounted pods. Without CronJobs the right is not needed.
func TestSavingsWithoutTheRightToListJobs(t *testing.T) {
	cli := byHand(t, noRight(&batchv1.JobList{}, "jobs"))
	got := cli.run("savings", "cj/backup", "-o", "json")
	assert.Equal(t, exitOK, got.code)
	assert.Contains(t, got.errOut, "pods of Jobs that a user created from a CronJob are not counted for it: listing the jobs: jobs")
	assert.NotContains(t, got.out, `"200m"`)
	assert.Empty(t, cli.run("savings", "deploy/web").errOut)
}
