package e2e

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
)

// oomKills is how many real kills TestOOMKillsAreAnswered measures; make test-long asks for more.
var oomKills = flag.Int("oom-kills", fewKills, "how many OOM kills TestOOMKillsAreAnswered measures")

// fewKills are measured beside the other tests. More are measured alone, with the usage source stopped.
const fewKills = 5

// How long it may take from a kill to the old limit: slowestAnswer at most beside other tests; answer99 for 99 of 100
// in a cluster that has nothing else to do.
const (
	slowestAnswer = 15 * time.Second
	answer99      = 5 * time.Second
)

// killsTogether is how many containers are killed at the same time.
const killsTogether = 2

// The pods of TestOOMKillsAreAnswered, before and after they are lowered, in MiB of memory limit.
const (
	oomBefore = 160
	oomAfter  = 80
	oomNeed   = 120
)

func leakyName(i int) string { return fmt.Sprintf("leaky%02d", i) }

func oomHistories() []history {
	var all []history
	for i := range *oomKills {
		all = append(all, history{"ooms", leakyName(i) + "-6d4f8c7b9d-x2x7k", "app", 0.005, 30})
	}
	return all
}

// TestOOMKillsAreAnswered: of many workloads whose memory grows past their lowered limit, each is put back
// after the first kill, and learns from it. It measures how long that takes, with the leader alive:
//
//   - the kill is the end of the container's process, of which the kernel tells this process (a pidfd);
//   - it is seen, and the revert is accepted, when a watch of this process' own tells of it, which is a
//     little later than the operator can know;
//   - it is back when the pod and a container of it have the old limit in their cgroups.
func TestOOMKillsAreAnswered(t *testing.T) {
	ctx := needLast(t)
	namespace(ctx, t, "ooms", true)
	deployments := leakyWorkloads(t)
	policyFor(ctx, t, deployments[0], v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
		s.TargetRef.Name = "" // all of them
		s.CPU.MaxAllowed, s.Memory.MaxAllowed = ptr.To(resource.MustParse("10m")), ptr.To(resource.MustParse("40Mi"))
		s.UpdateStrategy.SafetyObservationPeriod = duration(20 * time.Minute) // no watch ends before its kill
	})
	victims := make([]*corev1.Pod, len(deployments))
	for i, d := range deployments {
		eventually(t, d.Name+" is watched at its lower limit", func() error { return recorded(ctx, d, v1alpha1.RecordWatching) })
		victims[i] = &pods(ctx, t, d)[0]
		require.NoError(t, hasLimit(victims[i], "app", oomAfter*mebibyte))
	}

	if *oomKills > fewKills {
		stopPrometheus(t) // What kills is seen in the pods alone.
	}
	kills := watchKills(t, victims)
	var together errgroup.Group
	together.SetLimit(killsTogether)
	for _, victim := range victims {
		together.Go(func() error { return kills.kill(ctx, t, victim) })
	}
	require.NoError(t, together.Wait())

	for i, d := range deployments {
		eventually(t, d.Name+" is reverted", func() error { return told(ctx, d, "Reverted", "oomkill") })
		rec, err := recommendation(ctx, d)
		require.NoError(t, err)
		require.Len(t, rec.Status.Floors, 1, "%s: one kill is one floor", d.Name)
		assert.Positive(t, rec.Status.Floors[0].Amount.Cmp(resource.MustParse("103Mi")), "1.3 times 80 MiB is 104 MiB: %s", rec.Status.Floors[0].Amount.String())
		assert.Empty(t, rec.Status.Verified)
		require.NoError(t, hasSpec(t, victims[i], leakySize))
		assert.Equal(t, int32(1), victims[i].Status.ContainerStatuses[0].RestartCount, "by the kernel, once")
	}
	eventually(t, "the watch told of every kill and every revert", kills.complete)
	t.Log(kills.table())
	took := kills.took(func(a answer) time.Time { return a.back })
	assert.Less(t, rank(took, 1), slowestAnswer, "from the kill to the old limit in the cgroup")
	if *oomKills > fewKills {
		assert.Less(t, rank(took, 0.99), answer99, "from the kill to the old limit in the cgroup")
	}
}

// stopPrometheus until the test ends.
func stopPrometheus(t *testing.T) {
	t.Helper()
	require.NoError(t, env.cluster.StopPrometheus(t.Context()))
	t.Cleanup(func() { assert.NoError(t, env.cluster.StartPrometheus(context.WithoutCancel(t.Context()))) })
}

var leakySize = size{cpu: "10m", memory: "80Mi", memoryLimit: fmt.Sprintf("%dMi", oomBefore)}

func leakyWorkloads(t *testing.T) []*appsv1.Deployment {
	t.Helper()
	var all []*appsv1.Deployment
	for i := range *oomKills {
		c := idle(leakySize)
		c.ReadinessProbe = nil // many of them would be the busiest thing here
		d := newDeployment("ooms", leakyName(i), 1, c)
		createFor(t, d)
		all = append(all, d)
	}
	for _, d := range all {
		ready(t.Context(), t, d)
	}
	return all
}

// answer is when what became of one kill.
type answer struct{ killed, seen, reverted, back time.Time }

// kills notes what a watch tells of the victims.
type kills struct {
	mu  sync.Mutex
	all map[string]*answer
}

func watchKills(t *testing.T, victims []*corev1.Pod) *kills {
	t.Helper()
	config, err := env.cluster.RESTConfig()
	require.NoError(t, err)
	api, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	pods, err := api.CoreV1().Pods("ooms").Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	t.Cleanup(pods.Stop)
	k := &kills{all: map[string]*answer{}}
	for _, v := range victims {
		k.all[v.Name] = &answer{}
	}
	go k.note(pods)
	return k
}

func (k *kills) note(pods watch.Interface) {
	for event := range pods.ResultChan() {
		now := time.Now()
		p, ok := event.Object.(*corev1.Pod)
		if !ok {
			continue
		}
		k.mu.Lock()
		if a := k.all[p.Name]; a != nil && !a.killed.IsZero() {
			if a.seen.IsZero() && oomKilled(p) {
				a.seen = now
			}
			if a.reverted.IsZero() && sizeOf(p.Spec.Containers[0].Resources) == leakySize {
				a.reverted = now
			}
		}
		k.mu.Unlock()
	}
}

func oomKilled(p *corev1.Pod) bool {
	for _, s := range p.Status.ContainerStatuses {
		for _, end := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if end != nil && end.Reason == "OOMKilled" {
				return true
			}
		}
	}
	return false
}

// kill has a pod use more than it may, and waits until all of it is answered.
func (k *kills) kill(ctx context.Context, t *testing.T, victim *corev1.Pod) error {
	process, err := unix.PidfdOpen(mainProcess(t, victim, "app"), 0)
	if err != nil {
		return err
	}
	defer unix.Close(process)
	group, err := env.cluster.PodCgroup(victim, "memory")
	if err != nil {
		return err
	}
	limitFile := "memory.limit_in_bytes"
	if cluster.Unified() {
		limitFile = "memory.max"
	}
	go use(ctx, t, victim, fmt.Sprintf("memory=%d", oomNeed))
	ended := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
	for n := 0; n == 0; {
		if n, err = unix.Poll(ended, 1000); err != nil && err != unix.EINTR || ctx.Err() != nil {
			return fmt.Errorf("waiting for the end of %s: %w", victim.Name, err)
		}
	}
	k.set(victim, func(a *answer) { a.killed = time.Now() })
	for limit := time.Now().Add(settle); ; time.Sleep(5 * time.Millisecond) {
		if hasLimitIn(group, limitFile, oomBefore*mebibyte) && hasLimitIn(group, "*/"+limitFile, oomBefore*mebibyte) {
			k.set(victim, func(a *answer) { a.back = time.Now() })
			break
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%s does not have its old limit back", victim.Name)
		}
	}
	return nil
}

func (k *kills) set(victim *corev1.Pod, f func(*answer)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(k.all[victim.Name])
}

// hasLimitIn: one of the files of a pod's cgroup has a memory limit.
func hasLimitIn(group, pattern string, limit int64) bool {
	files, _ := filepath.Glob(filepath.Join(group, pattern))
	return slices.ContainsFunc(files, func(file string) bool {
		text, _ := os.ReadFile(file) // gone with its container
		n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return n == limit
	})
}

// complete: of each kill every time is known, and they are in order.
func (k *kills) complete() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for name, a := range k.all {
		for _, at := range []time.Time{a.seen, a.reverted, a.back} {
			if !at.After(a.killed) || a.killed.IsZero() {
				return fmt.Errorf("%s: %+v", name, *a)
			}
		}
	}
	return nil
}

// took is how long each kill took to something, sorted.
func (k *kills) took(to func(answer) time.Time) (took []time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range k.all {
		took = append(took, to(*a).Sub(a.killed))
	}
	slices.Sort(took)
	return took
}

// table is how long the answers took.
func (k *kills) table() string {
	columns := []struct {
		name string
		of   func(answer) time.Time
	}{
		{"seen in the API", func(a answer) time.Time { return a.seen }},
		{"revert accepted", func(a answer) time.Time { return a.reverted }},
		{"old limit in the cgroup", func(a answer) time.Time { return a.back }},
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d OOM kills, %d at a time; from the end of the process:\n%-26s %8s %8s %8s\n", len(k.all), killsTogether, "", "p50", "p99", "max")
	for _, c := range columns {
		took := k.took(c.of)
		fmt.Fprintf(&out, "%-26s %8s %8s %8s\n", c.name, rank(took, 0.5), rank(took, 0.99), rank(took, 1))
	}
	return out.String()
}

// rank is the nearest-rank quantile of sorted durations.
func rank(sorted []time.Duration, q float64) time.Duration {
	return sorted[int(math.Ceil(q*float64(len(sorted))))-1].Round(10 * time.Millisecond)
}
