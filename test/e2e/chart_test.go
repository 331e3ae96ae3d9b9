package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

// TestRelease takes the release through its life; it is back as it was in the end.
func TestRelease(t *testing.T) { alone(t, aRelease) }

func aRelease(t *testing.T) {
	ctx := t.Context()
	namespace(ctx, t, "release", true)
	d := deployment(ctx, t, "release", "web", 1, app("app", asked))
	tuned := deployment(ctx, t, "release", "tuned", 1, app("app", asked))
	policyFor(ctx, t, d, v1alpha1.UpdateInitial, nil)
	policyFor(ctx, t, tuned, v1alpha1.UpdateAuto, nil)
	eventually(t, "seeded", func() error { return createdWith(ctx, d, wanted) })
	scale(ctx, t, d, 2)
	moving, policy := movedWorkload(ctx, t, "release")
	values := savedValues(ctx, t)

	run := func(name string, test func(t *testing.T)) {
		require.True(t, t.Run(name, test), "what follows needs it")
	}
	run("helm test passes", func(t *testing.T) { helm(t, "test", "attune", "--logs") })
	run("cert-manager renews: no admission is lost", func(t *testing.T) { certManagerRenews(t, d) })
	run("upgraded to self-signed certificates: pods are created and seeded", func(t *testing.T) {
		upgradedUnderLoad(t, d, "certs.provider=self-signed").lostFew(t)
	})
	run("the operator renews: no admission is lost", func(t *testing.T) { selfSignedRenews(t, d) })
	inFlight := flying(t)
	before := watched(t, inFlight)
	run("upgraded to another build, with a resize under way: pods are created and seeded", func(t *testing.T) {
		upgradedUnderLoad(t, d, "image.tag="+anotherBuild(t)).lostFew(t)
		sameResize(t, before, watched(t, inFlight))
	})
	run("rolled back, with the same resize under way: pods are created and seeded", func(t *testing.T) {
		underLoad(t, d, func() { helm(t, "rollback", release, "--wait", "--timeout", "120s") }).lostFew(t)
		eventually(t, "seeded after the rollback", func() error { return createdWith(ctx, d, wanted) })
		sameResize(t, before, watched(t, inFlight))
	})
	run("upgraded to cert-manager's certificates: pods are created, and seeded after it", func(t *testing.T) {
		// cert-manager's authority may be trusted before its certificate is served: calls may be lost, pods not.
		upgradedUnderLoad(t, d, "certs.provider=cert-manager").failedNone(t)
		eventually(t, "cert-manager's certificate served", func() error { return servesWhatIsKept(t.Context(), t) })
	})
	run("usage from the kubelets, and no longer from Prometheus: nothing that was known is lost", func(t *testing.T) {
		sourceMoves(t, moving, policy, "embedded")
	})
	run("uninstalled: what users made stays", func(t *testing.T) { uninstalled(t, d, tuned) })
	run("a foreign CustomResourceDefinition: refused", func(t *testing.T) { refusedOverForeign(t, values) })
	run("installed again: goes on where it was", func(t *testing.T) { installedAgain(t, values, d, tuned) })
	scale(ctx, t, d, 0) // the others need its room
	t.Parallel()        // The rest of a watch needs nothing from the others.
	eventually(t, "the resize that was begun before all this kept", func() error { return verifiedOnce(ctx, tuned) })
	within(t, 6*time.Minute, "the resize that was under way kept", func() error { return verifiedOnce(ctx, inFlight) })
	pod := pods(ctx, t, inFlight)[0]
	assert.Equal(t, before.Generation, pod.Generation, "patched once")
	assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount)
}

const release = "attune"

func chart(t *testing.T) string {
	t.Helper()
	project, err := cluster.ProjectDir()
	require.NoError(t, err)
	return filepath.Join(project, "charts", "attune")
}

func helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := tryHelm(t.Context(), args...)
	require.NoError(t, err, "helm %v:\n%s", args, out)
	return out
}

func tryHelm(ctx context.Context, args ...string) (string, error) {
	out, err := env.cluster.Command(ctx, "helm", append(args, "--namespace", deploy.Namespace)...).CombinedOutput()
	return string(out), err
}

// savedValues are those of the release, in a file.
func savedValues(ctx context.Context, t *testing.T) string {
	t.Helper()
	out, err := env.cluster.Command(ctx, "helm", "get", "values", release, "--namespace", deploy.Namespace, "--output", "yaml").Output()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, out, 0o600))
	return file
}

// upgradedUnderLoad changes one value of the release.
func upgradedUnderLoad(t *testing.T, d *appsv1.Deployment, set string) *tally {
	t.Helper()
	admitted := underLoad(t, d, func() {
		helm(t, "upgrade", release, chart(t), "--reuse-values", "--set", set, "--wait", "--timeout", "120s")
	})
	eventually(t, "seeded after the upgrade", func() error { return createdWith(t.Context(), d, wanted) })
	return admitted
}

// anotherBuild loads an image whose program differs and returns its tag.
func anotherBuild(t *testing.T) string {
	t.Helper()
	project, err := cluster.ProjectDir()
	require.NoError(t, err)
	dir := t.TempDir()
	binary, archive := filepath.Join(dir, "attune"), filepath.Join(dir, "attune.tar")
	require.NoError(t, deploy.Binary(t.Context(), project, "./cmd/attune", binary))
	file, err := os.OpenFile(binary, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.WriteString("another build")
	require.NoError(t, err)
	require.NoError(t, file.Close())
	require.NoError(t, cluster.BuildImage(archive, binary, "/attune", nil, "docker.io/local/attune:another"))
	require.NoError(t, env.cluster.Load(t.Context(), archive))
	return "another"
}

func uninstalled(t *testing.T, seeded, tuned *appsv1.Deployment) {
	ctx := t.Context()
	eventually(t, "resized", func() error { return allHave(pods(ctx, t, tuned), wanted) })
	before := append(pods(ctx, t, seeded), pods(ctx, t, tuned)...)
	eventually(t, "the bridge has written", func() error {
		_, err := published(ctx, seeded.Namespace, "attune-deployment-"+seeded.Name)
		return err
	})
	uninstall(t)

	assert.NoError(t, createdWith(ctx, seeded, asked), "created as it is")
	for _, kind := range []client.ObjectList{
		&v1alpha1.AttunePolicyList{}, &v1alpha1.AttuneDefaultsList{}, &v1alpha1.AttuneNamespaceDefaultsList{}, &v1alpha1.AttuneRecommendationList{},
	} {
		assert.NoError(t, env.client.List(ctx, kind), "a kind of the group is gone")
	}
	for _, d := range []*appsv1.Deployment{seeded, tuned} {
		assert.NoError(t, env.client.Get(ctx, client.ObjectKeyFromObject(d), &v1alpha1.AttunePolicy{}))
		_, err := recommendation(ctx, d)
		assert.NoError(t, err)
	}
	sizes := map[size]int{}
	for _, old := range before {
		pod := &corev1.Pod{}
		require.NoError(t, env.client.Get(ctx, client.ObjectKeyFromObject(&old), pod))
		assert.Equal(t, old.UID, pod.UID)
		assert.Equal(t, old.Generation, pod.Generation, "%s was written to", pod.Name)
		assert.Zero(t, pod.Status.ContainerStatuses[0].RestartCount)
		sizes[sizeOf(pod.Spec.Containers[0].Resources)]++
	}
	assert.Equal(t, map[size]int{asked: 1, wanted: 2}, sizes, "the seeded and the resized pod keep their sizes")

	scale(ctx, t, seeded, 3)
	assert.Equal(t, 2, countOf(pods(ctx, t, seeded), asked), "born after it had gone")
	eventually(t, "what the bridge wrote is garbage-collected with the release", func() error {
		_, err := published(ctx, seeded.Namespace, "attune-deployment-"+seeded.Name)
		return isGone(err)
	})
}

func allHave(pods []corev1.Pod, want size) error {
	for _, pod := range pods {
		if got := sizeOf(pod.Spec.Containers[0].Resources); got != want {
			return fmt.Errorf("%s has %v", pod.Name, got)
		}
	}
	return nil
}

func countOf(pods []corev1.Pod, want size) (n int) {
	for _, pod := range pods {
		if sizeOf(pod.Spec.Containers[0].Resources) == want {
			n++
		}
	}
	return n
}

// refusedOverForeign has one of the definitions that the release left be another's.
func refusedOverForeign(t *testing.T, values string) {
	label := func(ctx context.Context, value string) error {
		return env.cluster.Command(ctx, "kubectl", "label", "--overwrite", "crd", "attunedefaults.attune.io", "attune.io/crds="+value).Run()
	}
	require.NoError(t, label(t.Context(), "theirs"))
	t.Cleanup(func() { require.NoError(t, label(context.WithoutCancel(t.Context()), "chart")) })
	out, err := tryHelm(t.Context(), "install", release, chart(t), "--values", values, "--dry-run=server")
	require.Error(t, err, out)
	assert.Contains(t, out, "the CustomResourceDefinition attunedefaults.attune.io is not from this chart")
}

func installedAgain(t *testing.T, values string, seeded, tuned *appsv1.Deployment) {
	ctx := t.Context()
	helm(t, "install", release, chart(t), "--values", values, "--wait", "--timeout", "120s")
	eventually(t, "seeded again", func() error { return createdWith(ctx, seeded, wanted) })
	for _, d := range []*appsv1.Deployment{seeded, tuned} {
		eventually(t, "the policy of "+d.Name+" ready", func() error {
			p := &v1alpha1.AttunePolicy{}
			if err := env.client.Get(ctx, client.ObjectKeyFromObject(d), p); err != nil {
				return err
			}
			if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) {
				return fmt.Errorf("conditions %v", p.Status.Conditions)
			}
			return nil
		})
	}
}

// flying is a workload with a resize that is watched for minutes.
func flying(t *testing.T) *appsv1.Deployment {
	d := deployment(t.Context(), t, "release", "flying", 1, app("app", asked))
	policyFor(t.Context(), t, d, v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
		s.UpdateStrategy.SafetyObservationPeriod = duration(4 * time.Minute)
	})
	return d
}

// watched is the record of the one resize of a workload, which is on its pod and watched.
func watched(t *testing.T, d *appsv1.Deployment) (record v1alpha1.ResizeRecord) {
	t.Helper()
	eventually(t, "a resize is watched", func() error {
		rec, err := recommendation(t.Context(), d)
		if err != nil {
			return err
		}
		if n := len(rec.Status.Records); n != 1 || rec.Status.Records[0].Phase != v1alpha1.RecordWatching {
			return fmt.Errorf("records %v, history %v", rec.Status.Records, rec.Status.History)
		}
		record = rec.Status.Records[0]
		return nil
	})
	return record
}

// sameResize: it is the one of before, with the same end of its watch, of the same patch of the same pod.
func sameResize(t *testing.T, before, now v1alpha1.ResizeRecord) {
	t.Helper()
	assert.Equal(t, before.PodUID, now.PodUID)
	assert.Equal(t, before.Generation, now.Generation)
	assert.Equal(t, before.WrittenAt, now.WrittenAt)
	assert.Equal(t, before.WatchUntil, now.WatchUntil)
}

// verifiedOnce checks that one resize was watched to its end and kept.
func verifiedOnce(ctx context.Context, d *appsv1.Deployment) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	if len(rec.Status.Verified) != 1 || len(rec.Status.Records) != 0 || len(rec.Status.History) != 1 || rec.Status.History[0].Result != "Success" {
		return fmt.Errorf("kept %v, records %v, history %v", rec.Status.Verified, rec.Status.Records, rec.Status.History)
	}
	return nil
}
