package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/deploy"
)

// TestFailover takes the leader away twice while two pods are watched. Killed, its pod's next process leads on, before
// the lease ends. Hung, nobody leads while one of the pods is OOM-killed: the other replica puts that one back and keeps
// the size of the other. The other tests wait until a controller is back, since they need one.
func TestFailover(t *testing.T) { alone(t, failover) }

func failover(t *testing.T) {
	ctx := t.Context()
	namespace(ctx, t, "failover", true)
	web := deployment(ctx, t, "failover", "web", 1, app("app", asked))
	leaky := deployment(ctx, t, "failover", "leaky", 1, app("app", size{cpu: "20m", memory: "512Mi", memoryLimit: "512Mi"}))
	pod, victim := pods(ctx, t, web)[0], pods(ctx, t, leaky)[0]
	// Long enough that no watch ends before both leaders are gone, however slow the machine is.
	long := duration(3 * time.Minute)
	policyFor(ctx, t, web, v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) { s.UpdateStrategy.SafetyObservationPeriod = long })
	lowered := resource.MustParse("70Mi")
	policyFor(ctx, t, leaky, v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
		s.Memory.MaxAllowed, s.UpdateStrategy.SafetyObservationPeriod = &lowered, long
	})
	eventually(t, "lowered", func() error { return hasMemoryLimit(ctx, &victim, lowered) })
	eventually(t, "resized", func() error { return hasMemoryLimit(ctx, &pod, resource.MustParse(wanted.memoryLimit)) })
	eventually(t, "both watched", func() error { return watchedNow(ctx, web, leaky) })

	before := leader(ctx, t)
	killed := killLeader(ctx, t, before)
	next := renewedAfter(ctx, t, killed)
	assert.Equal(t, holder(before), holder(next), "the next process of the same pod leads on")
	t.Logf("from the leader's death to its pod's next process: %s", next.Spec.RenewTime.Sub(killed).Round(time.Millisecond))
	require.NoError(t, watchedNow(ctx, web, leaky))

	hung, others := freezeReplicas(ctx, t, next)
	frozen := time.Now()
	use(ctx, t, &victim, "memory=200")
	waitForKill(ctx, t, &victim)
	require.Equal(t, holder(next), holder(leader(ctx, t)), "killed while nobody leads")
	require.NoError(t, watchedNow(ctx, web, leaky))
	for i := range others {
		require.NoError(t, env.cluster.ThawPod(&others[i]))
	}

	after := successorOf(ctx, t, next)
	t.Logf("from the hang of the leader to the other one: %s", after.Spec.AcquireTime.Sub(frozen).Round(time.Millisecond))
	require.NoError(t, env.cluster.ThawPod(hung))
	eventually(t, "put back on the kubelet", func() error { return hasMemoryLimit(ctx, &victim, resource.MustParse("512Mi")) })
	t.Logf("from the next leader to the old limit on the kubelet: %s", time.Since(after.Spec.AcquireTime.Time).Round(time.Millisecond))
	eventually(t, "reverted in the history", func() error { return revertedOnce(ctx, leaky) })

	ready(ctx, t, deploymentIn(ctx, t, deploy.Namespace, "attune"))

	t.Parallel() // The rest of the watch needs nothing from the others.
	within(t, 2*settle, "kept after a clean watch", func() error { return verifiedOnce(ctx, web) })
	t.Logf("kept %s after the hang", time.Since(frozen).Round(time.Second))
	resized := pods(ctx, t, web)[0]
	assert.Equal(t, pod.UID, resized.UID)
	assert.Equal(t, wanted, sizeOf(resized.Spec.Containers[0].Resources))
	assert.Zero(t, resized.Status.ContainerStatuses[0].RestartCount)
}

// watchedNow checks that each Deployment's pod has an open record.
func watchedNow(ctx context.Context, deployments ...*appsv1.Deployment) error {
	for _, d := range deployments {
		rec, err := recommendation(ctx, d)
		if err != nil {
			return err
		}
		if len(rec.Status.Records) != 1 || len(rec.Status.History) != 0 {
			return fmt.Errorf("%s: records %v, history %v", d.Name, rec.Status.Records, rec.Status.History)
		}
	}
	return nil
}

func revertedOnce(ctx context.Context, d *appsv1.Deployment) error {
	rec, err := recommendation(ctx, d)
	if err != nil {
		return err
	}
	h := rec.Status.History
	if len(rec.Status.Records) != 0 || len(h) != 1 || h[0].Result != "Reverted" || h[0].Reason != "oomkill" {
		return fmt.Errorf("records %v, history %v", rec.Status.Records, h)
	}
	return nil
}

func leader(ctx context.Context, t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{}
	require.NoError(t, env.client.Get(ctx, client.ObjectKey{Namespace: deploy.Namespace, Name: "attune.attune.io"}, lease))
	require.NotNil(t, lease.Spec.HolderIdentity)
	return lease
}

// renewedAfter is the lease once somebody has renewed it.
func renewedAfter(ctx context.Context, t *testing.T, killed time.Time) (lease *coordinationv1.Lease) {
	t.Helper()
	eventually(t, "led on", func() error {
		if lease = leader(ctx, t); !lease.Spec.RenewTime.After(killed) {
			return fmt.Errorf("the lease was renewed at %s, the leader killed at %s", lease.Spec.RenewTime, killed)
		}
		return nil
	})
	return lease
}

// successorOf is the lease once another one than its last holder has it.
func successorOf(ctx context.Context, t *testing.T, last *coordinationv1.Lease) (lease *coordinationv1.Lease) {
	t.Helper()
	eventually(t, "handed over", func() error {
		if lease = leader(ctx, t); holder(lease) == holder(last) {
			return fmt.Errorf("%s holds the lease", holder(lease))
		}
		return nil
	})
	return lease
}

func holder(lease *coordinationv1.Lease) string { return *lease.Spec.HolderIdentity }

// replicaOf is the pod that leads; the lease has its name and UID.
func replicaOf(lease *coordinationv1.Lease) string {
	name, _, _ := strings.Cut(holder(lease), "_")
	return name
}

// killLeader ends the leader's process at once, so that it cannot give up its lease.
func killLeader(ctx context.Context, t *testing.T, lease *coordinationv1.Lease) time.Time {
	t.Helper()
	text, err := env.cluster.ReadCgroup(podOf(ctx, t, lease), "attune", "memory", "cgroup.procs")
	require.NoError(t, err)
	processes := strings.Fields(text)
	require.Len(t, processes, 1)
	process, err := strconv.Atoi(processes[0])
	require.NoError(t, err)
	require.Positive(t, process)
	require.NoError(t, syscall.Kill(process, syscall.SIGKILL))
	return time.Now()
}

// freezeReplicas stops every replica of the controller where it is, the leader last, until the test ends at the latest: none leads
// before it goes on, however long that takes.
func freezeReplicas(ctx context.Context, t *testing.T, lease *coordinationv1.Lease) (leads *corev1.Pod, others []corev1.Pod) {
	t.Helper()
	leads = podOf(ctx, t, lease)
	others = slices.DeleteFunc(operatorPods(ctx, t, controllers), func(p corev1.Pod) bool { return p.UID == leads.UID })
	require.NotEmpty(t, others)
	for i := range others {
		freeze(t, &others[i])
	}
	freeze(t, leads)
	return leads, others
}

func freeze(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	require.NoError(t, env.cluster.FreezePod(pod))
	t.Cleanup(func() { _ = env.cluster.ThawPod(pod) }) // It may have gone on long ago, and have been replaced.
}

func podOf(ctx context.Context, t *testing.T, lease *coordinationv1.Lease) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	require.NoError(t, env.client.Get(ctx, client.ObjectKey{Namespace: deploy.Namespace, Name: replicaOf(lease)}, pod))
	return pod
}
