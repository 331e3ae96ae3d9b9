package lookup_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
)

func owned(kind, name string) []metav1.OwnerReference {
	if name == "" {
		return nil
	}
	api := "batch/v1"
	if kind == "StatefulSet" {
		api = "apps/v1"
	}
	return []metav1.OwnerReference{{APIVersion: api, Kind: kind, Name: name, Controller: ptr.To(true)}}
}

// cached returns a Job as the informer's cache has it.
func cached(t *testing.T, name, cronJob string) client.Object {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, OwnerReferences: owned("CronJob", cronJob)}}
	trimmed, err := trim.Object(job)
	require.NoError(t, err)
	return trimmed.(client.Object)
}

func pod(name, kind, owner string) client.Object {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, OwnerReferences: owned(kind, owner)}}
}

// indexed returns a cache with the indexes that the loops share.
func indexed(objects ...client.Object) client.Reader {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, workload.PodsByWorkload, func(o client.Object) []string { return workload.IndexOf(o) }).
		WithIndex(&batchv1.Job{}, workload.JobsByCronJob, func(o client.Object) []string { return workload.IndexOfJob(o) }).Build()
}

// An HPA lists pods by the selector of its target, whoever owns them. It ignores pods that failed or are being deleted.
func TestStrangersOfASelector(t *testing.T) {
	labels := map[string]string{"app": "db"}
	with := func(o client.Object, change func(*corev1.Pod)) client.Object {
		p := o.(*corev1.Pod)
		p.Labels = labels
		if change != nil {
			change(p)
		}
		return p
	}
	own := with(pod("db-0", "StatefulSet", "db"), nil)
	failed := with(pod("a-failed", "Job", "backup"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	deleted := with(pod("a-deleted", "Job", "backup"), func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"x.io/wait"}
	})
	elsewhere := with(pod("a-elsewhere", "Job", "backup"), func(p *corev1.Pod) { p.Namespace = "other" })
	done := with(pod("backup-1", "Job", "backup"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	w := workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindStatefulSet, Namespace: "shop", Name: "db"}, Selector: &metav1.LabelSelector{MatchLabels: labels}}
	now := time.Unix(1000, 0)
	young := with(pod("a-young", "ReplicaSet", "db-of-which-the-cache-knows-nothing"), func(p *corev1.Pod) { p.CreationTimestamp = metav1.Time{Time: now.Add(-59 * time.Second)} })
	find := func(w workload.Workload, others ...client.Object) string {
		strangers := &lookup.Strangers{Reader: indexed(append(others, own)...), Now: now}
		name, err := strangers.Of(t.Context(), w, []*corev1.Pod{own.(*corev1.Pod)})
		require.NoError(t, err)
		for range 2 {
			again, err := strangers.Of(t.Context(), w, []*corev1.Pod{own.(*corev1.Pod)})
			require.NoError(t, err)
			assert.Equal(t, name, again, "from one list for many workloads")
		}
		return name
	}
	assert.Empty(t, find(w, failed, deleted, elsewhere, young, pod("a-unlabelled", "Job", "backup")))
	assert.Equal(t, "backup-1", find(w, done, with(pod("canary", "", ""), nil)))
	assert.Empty(t, find(workload.Workload{Identity: w.Identity}, done), "a kind without a selector")
	w.Selector = clip.LeftOut()
	_, err := (&lookup.Strangers{Reader: indexed(), Now: now}).Of(t.Context(), w, nil)
	assert.Error(t, err, "a selector that was too large")
}

// A pass over many workloads of a namespace lists its pods twice, and a pod that was deleted since is none of another owner.
func TestStrangersOfManyWorkloadsComeFromOneList(t *testing.T) {
	of := func(i int) client.Object {
		p := pod(fmt.Sprintf("web-%d", i), "ReplicaSet", fmt.Sprintf("web-%d-5d4f8c7b9", i))
		p.SetLabels(map[string]string{"app": fmt.Sprintf("web-%d", i), "part-of": "shop"})
		return p
	}
	var pods []client.Object
	for i := range 50 {
		pods = append(pods, of(i))
	}
	reader := &listing{Reader: indexed(pods...)}
	strangers := &lookup.Strangers{Reader: reader, Now: time.Now()}
	find := func(i int, own ...*corev1.Pod) string {
		w := workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: fmt.Sprintf("web-%d", i)}}
		w.Selector = &metav1.LabelSelector{MatchLabels: of(i).GetLabels()}
		name, err := strangers.Of(t.Context(), w, own)
		require.NoError(t, err)
		return name
	}
	for i := range 50 {
		assert.Empty(t, find(i, of(i).(*corev1.Pod)))
		assert.Equal(t, fmt.Sprintf("web-%d", i), find(i))
	}
	assert.Equal(t, 2, reader.lists)
	reader.Reader = indexed()
	assert.Empty(t, find(7))
}

// listing counts the lists.
type listing struct {
	client.Reader
	lists int
}

func (l *listing) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	l.lists++
	return l.Reader.List(ctx, list, o...)
}

// The pods of a ReplicaSet that a Deployment adopted are the Deployment's, in the cache that keeps only ReplicaSets without
// a template hash.
func TestPodsOfAdoptedReplicaSetsAreTheDeployments(t *testing.T) {
	set := func(name, deployment string) client.Object {
		o := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		if deployment != "" {
			o.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: deployment, Controller: ptr.To(true)}}
		}
		trimmed, err := trim.Object(o)
		require.NoError(t, err)
		return trimmed.(client.Object)
	}
	of := func(name, replicaSet, hash string) client.Object {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: replicaSet, Controller: ptr.To(true)}}
		if hash != "" {
			p.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: hash}
		}
		return p
	}
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deployment-web"}}
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	reader := fake.NewClientBuilder().WithScheme(scheme).
		WithIndex(&corev1.Pod{}, workload.PodsByWorkload, func(o client.Object) []string { return workload.IndexOf(o) }).
		WithObjects(set("legacy-7f", "web"), set("alone", ""), set("other-8a", "api"), rec,
			of("web-abc-1", "web-abc", "abc"), of("legacy-7f-1", "legacy-7f", ""), of("alone-1", "alone", ""), of("other-8a-1", "other-8a", "")).Build()
	for id, want := range map[workload.Identity][]string{
		{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"}:   {"web-abc-1", "legacy-7f-1"},
		{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "api"}:   {"other-8a-1"},
		{Kind: v1alpha1.KindReplicaSet, Namespace: "shop", Name: "alone"}: {"alone-1"},
	} {
		pods, err := lookup.Pods(t.Context(), reader, id)
		require.NoError(t, err)
		var names []string
		for _, p := range pods {
			names = append(names, p.Name)
			owner, _ := workload.OwnerOf(p, "shop", lookup.Owners{Reader: reader})
			assert.Equal(t, id, owner)
		}
		assert.Equal(t, want, names)
	}
	found, err := lookup.Recommendation(t.Context(), reader, of("legacy-7f-2", "legacy-7f", "").(*corev1.Pod))
	require.NoError(t, err)
	require.NotNil(t, found, "the pod's resizes are the Deployment's")
}

// The owner reference of a Job decides, not its name.
func TestJobsAreKnownByTheirOwner(t *testing.T) {
	objects := []client.Object{
		// A Job of a CronJob, and a Job that a user created from the CronJob.
		cached(t, "backup-29384756", "backup"), pod("backup-29384756-x2", "Job", "backup-29384756"),
		cached(t, "manual", "backup"), pod("manual-x2", "Job", "manual"),
		// Standalone Jobs next to a CronJob import: one named by its date, and one named like a CronJob's Job.
		cached(t, "import-29384756", "import"), pod("import-29384756-x2", "Job", "import-29384756"),
		cached(t, "import-20261119", ""), pod("import-20261119-x2", "Job", "import-20261119"),
		cached(t, "import-29384799", ""), pod("import-29384799-x2", "Job", "import-29384799"),
		// The cache does not have the Job of this pod yet.
		pod("late-29384756-x2", "Job", "late-29384756"),
		pod("db-0", "StatefulSet", "db"), pod("alone", "", ""),
	}
	reader := indexed(objects...)

	want := map[string][]string{
		"CronJob/backup": {"backup-29384756-x2", "manual-x2"}, "CronJob/import": {"import-29384756-x2"},
		"Job/import-20261119": {"import-20261119-x2"}, "Job/import-29384799": {"import-29384799-x2"},
		"StatefulSet/db": {"db-0"}, "CronJob/late": nil,
	}
	listed, err := lookup.ListJobs(t.Context(), reader, "shop")
	require.NoError(t, err)
	found := map[string][]string{}
	for _, o := range objects {
		if _, ok := o.(*corev1.Pod); !ok {
			continue
		}
		if id, ok := workload.OwnerOf(o, "shop", lookup.Owners{Reader: reader}); ok {
			found[id.String()] = append(found[id.String()], o.GetName())
			once, _ := workload.OwnerOf(o, "shop", listed)
			assert.Equal(t, id, once, "who has no cache finds the same")
		}
	}
	assert.Equal(t, []string{"late-29384756-x2"}, found["CronJob/late"], "a guess, until the Job is seen")
	delete(found, "CronJob/late")
	for name, names := range want {
		kind, of := split(name)
		pods, err := lookup.Pods(t.Context(), reader, workload.Identity{Kind: kind, Namespace: "shop", Name: of})
		require.NoError(t, err)
		var listed []string
		for _, p := range pods {
			listed = append(listed, p.Name)
		}
		assert.ElementsMatch(t, names, listed, name)
		assert.ElementsMatch(t, names, found[name], name)
	}
}

func split(name string) (v1alpha1.WorkloadKind, string) {
	for _, kind := range workload.Kinds {
		if prefix := string(kind) + "/"; len(name) > len(prefix) && name[:len(prefix)] == prefix {
			return kind, name[len(prefix):]
		}
	}
	return "", name
}

// countsJobs counts the Jobs that lists return.
type countsJobs struct {
	client.Reader
	jobs int
}

func (c *countsJobs) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := c.Reader.List(ctx, list, options...)
	if jobs, ok := list.(*batchv1.JobList); ok {
		c.jobs += len(jobs.Items)
	}
	return err
}

// A reconcile of a CronJob reads only its own Jobs. Otherwise, a user could fill a namespace with CronJobs and Jobs and
// make each reconcile read all Jobs.
func TestPodsOfACronJobReadNoOthersJobs(t *testing.T) {
	var objects []client.Object
	for _, cronJob := range []string{"a", "b", "c", ""} {
		for i := range 4 {
			objects = append(objects, cached(t, fmt.Sprintf("job-%s-%d", cronJob, i), cronJob), pod(fmt.Sprintf("pod-%s-%d", cronJob, i), "Job", fmt.Sprintf("job-%s-%d", cronJob, i)))
		}
	}
	reader := &countsJobs{Reader: indexed(objects...)}
	pods, err := lookup.Pods(t.Context(), reader, workload.Identity{Kind: v1alpha1.KindCronJob, Namespace: "shop", Name: "b"})
	require.NoError(t, err)
	assert.Len(t, pods, 4)
	assert.Equal(t, 4, reader.jobs)
}

// A pod whose owner's kind differs only in case does not get the recommendation of another workload.
func TestRecommendationOfAPod(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cloneset.apps.kruise.io-web"}}
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: "CloneSet.apps.kruise.io", Name: "web"}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(rec).Build()
	of := func(kind, name string) *v1alpha1.AttuneRecommendation {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-x2x5k"}}
		if kind != "" {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: kind, Name: name, Controller: ptr.To(true)}}
		}
		found, err := lookup.Recommendation(t.Context(), reader, pod)
		require.NoError(t, err)
		return found
	}
	assert.NotNil(t, of("CloneSet", "web"))
	assert.Nil(t, of("cloneset", "web"))
	assert.Nil(t, of("CloneSet", "api"))
	assert.Nil(t, of("", ""))
}
