package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/cluster"
)

// onRaises asks for the table of docs/raise-before-kill.md, which takes a machine for itself.
var onRaises = flag.Bool("raises", false, "measure kills that raises avoid at many speeds, and run nothing else")

const (
	climbTest  = "TestRaiseBeforeKill"
	raisesTest = "TestRaisesAtManySpeeds"
)

// climbed is the cluster of TestRaisesAtManySpeeds: its operator scrapes the kubelets every 15 s where nothing climbs.
func climbed() installation {
	return installation{options: cluster.Options{Nodes: 1, NodeCPU: "1900m", NodeMemory: "16Gi"}, settings: []string{
		"usage.source=embedded", "usage.prometheus.address=", "replicas=1", "certs.provider=self-signed", "usage.interval=15s", "logLevel=debug",
	}}
}

// TestRaiseBeforeKill has two containers climb to a fifth more than their memory limit. The one with memory.raiseBeforeKill
// is raised and survives, and has its old limit back once it needs little again. The one without it is killed. Containers that
// rest close to their limit are not raised.
func TestRaiseBeforeKill(t *testing.T) {
	alone(t, func(t *testing.T) {
		t.Parallel()
		raisesBeforeKills(t, []float64{1}, 1)
	})
}

// TestRaisesAtManySpeeds does the same at speeds from 0.1 to 100 MiB/s, three times each, and prints how many kills were
// avoided.
func TestRaisesAtManySpeeds(t *testing.T) {
	if !*onRaises {
		t.Skip("it takes a quarter of an hour and a machine for itself: -raises asks for it (make record-raises)")
	}
	alone(t, func(t *testing.T) { raisesBeforeKills(t, []float64{0.1, 0.3, 1, 3, 10, 30, 100}, 3) })
}

// A ramp climbs from a base to a top, in MiB, beneath a limit, after it has rested.
const (
	rampLimit, rampTop, rampLeast = 256, 300, 40
	rampRests, rampStays          = time.Minute, 30 * time.Second
	// slow is the greatest speed in MiB/s at which every kill is avoided and every container without the setting is killed.
	slow = 1
)

// trial is one container that climbs.
type trial struct {
	speed  float64
	raises bool
	// spikes: it holds its memory after the climb, and its limit is seen to be restored.
	spikes bool
	pod    corev1.Pod
	d      *appsv1.Deployment

	killed, reached bool
	limit           resource.Quantity
}

// climbsOver is closed when TestRaiseBeforeKill has ended: no story stops the operator before, because another one has not
// seen what the quiet containers used at most.
var climbsOver = make(chan struct{})

func raisesBeforeKills(t *testing.T, speeds []float64, tries int) {
	ctx := t.Context()
	t.Cleanup(func() { close(climbsOver) })
	namespace(ctx, t, "climb", false)
	trials := createTrials(t, speeds, tries)
	still, noisy := climbs(t, "still", &trial{raises: true}), climbs(t, "noisy", &trial{raises: true})
	for _, of := range append([]*trial{still, noisy}, trials...) {
		ready(ctx, t, of.d)
		of.pod = pods(ctx, t, of.d)[0]
	}
	// The policies come after the kubelet has measured constant memory: on a busy machine a container takes so long to fill its
	// memory when it starts that this is a climb.
	for _, of := range []*trial{still, noisy} {
		of.rests(t)
		of.follow(t)
	}
	noisy.rests(t) // once more, for the operator: what comes after is nothing new only to one that has seen the top
	quiet, stop := context.WithCancel(ctx)
	var resting sync.WaitGroup
	resting.Go(func() { holdStill(quiet, still, func(int) int { return quietMiB }) })
	resting.Go(func() { holdStill(quiet, noisy, func(n int) int { return quietMiB - n*7%11 }) })
	climbTogether(ctx, trials)
	for _, of := range trials {
		of.judge(ctx, t)
	}
	t.Log("\n" + rampTable(speeds, tries, trials))
	avoided := map[float64]int{}
	for _, of := range trials {
		assert.True(t, of.killed || of.reached, "%s has climbed to its top, or was killed", of.d.Name)
		if of.raises && !of.killed {
			avoided[of.speed]++
		}
		if of.speed <= slow && !of.raises {
			assert.True(t, of.killed, "%s, which is not raised", of.d.Name)
		}
	}
	for _, speed := range speeds {
		if speed <= slow {
			assert.Equal(t, tries, avoided[speed], "kills avoided at %g MiB/s", speed)
		}
	}
	limitRestored(t, trials)
	stop()
	resting.Wait()
	for _, of := range []*trial{still, noisy} {
		of.judge(ctx, t)
		assert.False(t, of.killed, of.d.Name)
		assert.Equal(t, fmt.Sprintf("%dMi", rampLimit), of.limit.String(), "%s is quiet", of.d.Name)
	}
}

// createTrials makes so many of each speed, with the setting and without it. Those of the middle speed spike.
func createTrials(t *testing.T, speeds []float64, tries int) (trials []*trial) {
	t.Helper()
	for _, speed := range speeds {
		for i := range tries {
			for _, raises := range []bool{true, false} {
				name := fmt.Sprintf("at-%s-%d-%t", strings.ReplaceAll(fmt.Sprint(speed), ".", "-"), i, raises)
				of := &trial{speed: speed, raises: raises, spikes: raises && speed == speeds[len(speeds)/2]}
				trials = append(trials, climbs(t, name, of))
			}
		}
	}
	return trials
}

// climbTogether plays the ramps of all. Fast ones come one after the other: the machine gives none of them its memory fast
// enough otherwise.
func climbTogether(ctx context.Context, trials []*trial) {
	var climbing sync.WaitGroup
	fast := 0
	for _, of := range trials {
		after := time.Duration(0)
		if of.speed > 3 {
			fast++
			after = time.Duration(fast) * 8 * time.Second
		}
		climbing.Go(func() { of.climb(ctx, after) })
	}
	climbing.Wait()
}

// climbs makes a Deployment of one container, and for one that climbs a policy that raises it, or does not.
func climbs(t *testing.T, name string, of *trial) *trial {
	t.Helper()
	c := app("app", size{cpu: "5m", memory: "32Mi", memoryLimit: fmt.Sprintf("%dMi", rampLimit)})
	c.Env[0].Value, c.Env[1].Value = "0", fmt.Sprint(int(of.base())) // it has held that since it started
	d := newDeployment("climb", name, 1, c)
	createFor(t, d)
	of.d = d
	if of.speed > 0 {
		of.follow(t)
	}
	return of
}

// follow makes a policy for the container, which raises it, or does not.
func (of *trial) follow(t *testing.T) {
	t.Helper()
	policyFor(t.Context(), t, of.d, v1alpha1.UpdateAuto, func(s *v1alpha1.AttunePolicySpec) {
		s.Memory.MaxAllowed, s.Memory.AllowDecrease = nil, nil
		if !of.raises {
			s.Memory.RaiseBeforeKill = ptr.To(v1alpha1.RaiseOff)
		}
	})
}

// rests waits until the kubelet has measured three times in a row that a container holds what it begins with.
func (of *trial) rests(t *testing.T) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^container_memory_working_set_bytes\{[^}]*pod="` + of.pod.Name + `"[^}]*\} (\S+) (\d+)$`)
	seen := map[string]bool{}
	eventually(t, of.d.Name+" rests", func() error {
		out, err := env.cluster.Command(t.Context(), "kubectl", "get", "--raw", "/api/v1/nodes/"+of.pod.Spec.NodeName+"/proxy/metrics/resource").Output()
		if err != nil {
			return err
		}
		measured := line.FindSubmatch(out)
		if measured == nil {
			return errors.New("it is not measured")
		}
		holds, err := strconv.ParseFloat(string(measured[1]), 64)
		if err != nil {
			return err
		}
		if holds < (of.base()-5)*mebibyte {
			clear(seen)
			return fmt.Errorf("it holds %.0f MiB", holds/mebibyte)
		}
		if seen[string(measured[2])] = true; len(seen) < 3 {
			return fmt.Errorf("measured %d times", len(seen))
		}
		return nil
	})
}

// quietMiB is what the quiet ones hold.
const quietMiB = 230

// base is where a ramp begins: at least as much beneath its limit as it climbs in two and a half minutes.
func (of *trial) base() float64 {
	if of.speed == 0 {
		return quietMiB
	}
	return max(rampLeast, rampLimit-of.speed*150)
}

// top is where it ends: not more than five minutes later.
func (of *trial) top() float64 { return min(rampTop, of.base()+of.speed*300) }

// climb plays the ramp of a container, or as much of it as it survives.
func (of *trial) climb(ctx context.Context, after time.Duration) {
	began, held, top := time.Now(), -1, of.top()
	var stays time.Time
	for tick := range ticks(ctx, 100*time.Millisecond) {
		if of.reached && tick.Sub(stays) > rampStays {
			of.rested(ctx)
			return
		}
		mib := int(min(top, of.base()+of.speed*max(0, (tick.Sub(began)-after-rampRests).Seconds())))
		if mib == held {
			continue
		}
		switch err := setMemory(ctx, &of.pod, mib); {
		case err == nil:
			held = mib
			if mib == int(top) {
				of.reached, stays = true, time.Now()
			}
		case of.restarted(ctx):
			return
		}
	}
}

// restarted reports whether the container was killed.
func (of *trial) restarted(ctx context.Context) bool {
	pod := of.pod.DeepCopy()
	return env.client.Get(ctx, client.ObjectKeyFromObject(pod), pod) == nil && pod.Status.ContainerStatuses[0].RestartCount > 0
}

// rested is a container that has survived: the machine has its memory back.
func (of *trial) rested(ctx context.Context) {
	if !of.spikes {
		_ = setMemory(ctx, &of.pod, rampLeast)
	}
}

// holdStill holds the memory of a container where it is, until the context ends.
func holdStill(ctx context.Context, of *trial, mib func(n int) int) {
	n := 0
	for range ticks(ctx, time.Second) {
		_ = setMemory(ctx, &of.pod, mib(n))
		n++
	}
}

// ticks are the times of a ticker, until the context ends.
func ticks(ctx context.Context, every time.Duration) func(func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case at := <-ticker.C:
				if !yield(at) {
					return
				}
			}
		}
	}
}

// setMemory tells a workload what to hold; an error: its process was killed meanwhile.
func setMemory(ctx context.Context, pod *corev1.Pod, mib int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:8080/set?memory=%d", pod.Status.PodIP, mib), nil)
	if err != nil {
		return err
	}
	response, err := env.cluster.HTTPClient().Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// judge what became of a container.
func (of *trial) judge(ctx context.Context, t *testing.T) {
	t.Helper()
	require.NoError(t, env.client.Get(ctx, client.ObjectKeyFromObject(&of.pod), &of.pod))
	of.killed = of.pod.Status.ContainerStatuses[0].RestartCount > 0 || of.pod.Status.ContainerStatuses[0].State.Terminated != nil
	of.limit = of.pod.Spec.Containers[0].Resources.Limits.Memory().DeepCopy()
}

// rampTable is what docs/raise-before-kill.md has.
func rampTable(speeds []float64, tries int, trials []*trial) string {
	var out strings.Builder
	out.WriteString("| MiB/s | kills avoided, `Auto` | `Off` |\n|---|---|---|\n")
	for _, speed := range speeds {
		avoided := map[bool]int{}
		for _, of := range trials {
			if of.speed == speed && !of.killed {
				avoided[of.raises]++
			}
		}
		fmt.Fprintf(&out, "| %g | %d of %d | %d of %d |\n", speed, avoided[true], tries, avoided[false], tries)
	}
	return out.String()
}

// limitRestored: a container that was raised and needs little again has its old limit, although allowDecrease is off.
func limitRestored(t *testing.T, trials []*trial) {
	ctx := t.Context()
	for _, of := range trials {
		if !of.spikes || of.killed {
			continue
		}
		t.Run("a spike is given back", func(t *testing.T) {
			ctx := t.Context()
			assert.Greater(t, of.limit.Value(), int64(rampTop*mebibyte))
			require.NoError(t, setMemory(ctx, &of.pod, rampLeast))
			within(t, 8*time.Minute, "the old limit", func() error {
				return hasMemoryLimit(ctx, &of.pod, resource.MustParse(fmt.Sprintf("%dMi", rampLimit)))
			})
			assert.Zero(t, of.pod.Status.ContainerStatuses[0].RestartCount)
			rec, err := recommendation(ctx, of.d)
			require.NoError(t, err)
			require.NotEmpty(t, rec.Status.History)
			assert.Equal(t, "MemoryClimb", rec.Status.History[len(rec.Status.History)-1].Reason)
		})
		break
	}
	list := &corev1.EventList{}
	require.NoError(t, env.client.List(ctx, list, client.InNamespace("climb")))
	told := false
	for _, e := range list.Items {
		if strings.Contains(e.Message, "before an OOM kill, 256Mi -> ") && !told {
			told = true
			t.Log(e.Message)
		}
	}
	assert.True(t, told, "an event says why")
}
