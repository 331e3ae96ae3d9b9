package sim

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/sim/api"
)

// seededWith is a pod whose container has a memory limit, and would have another one without attune.
func seededWith(t *testing.T, limit, template string) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(v1alpha1.Seeded{Original: []v1alpha1.ContainerResources{{Name: "app", Resources: v1alpha1.Resources{MemoryLimit: ptr(resource.MustParse(template))}}}})
	require.NoError(t, err)
	pod := runsWith(limit, 0)
	pod.Annotations = map[string]string{v1alpha1.SeededAnnotation: string(raw)}
	return pod
}

// runsWith is a pod whose container runs with a memory limit and was restarted so often.
func runsWith(limit string, restarts int32) *corev1.Pod {
	pod := limited(limit, restarts, 1)
	s := &pod.Status.ContainerStatuses[0]
	s.ContainerID, s.State.Running, s.State.Terminated = "run-"+string(rune('0'+restarts)), &corev1.ContainerStateRunning{}, nil
	s.LastTerminationState.Terminated = nil
	return pod
}

// oomKilled is the change that tells of the OOM kill of a container that runs.
func oomKilled(before *corev1.Pod) api.Event {
	after := before.DeepCopy()
	s := &after.Status.ContainerStatuses[0]
	s.State.Running, s.State.Terminated = nil, &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137, ContainerID: s.ContainerID}
	return modified(before, after)
}

func TestRescuedSeesASecondKillBelowTheTemplate(t *testing.T) {
	raise := func(limit string) string {
		return `{"spec":{"containers":[{"name":"app","resources":{"limits":{"memory":"` + limit + `"}}}]}}`
	}
	for name, c := range map[string]struct {
		template           string
		between            time.Duration
		asked              string
		keeps, restorable_ bool
		wrong              bool
	}{
		"twice in ten minutes":        {"1Gi", 10 * time.Minute, "", false, true, true},
		"at once":                     {"1Gi", 20 * time.Second, "", false, true, false},
		"two hours later":             {"1Gi", 2 * time.Hour, "", false, true, false},
		"its template has no more":    {"100Mi", 10 * time.Minute, "", false, true, false},
		"the template was asked for":  {"1Gi", 10 * time.Minute, raise("1Gi"), false, true, false},
		"a little more was asked for": {"1Gi", 10 * time.Minute, raise("130Mi"), false, true, true},
		"autoRevert: false":           {"1Gi", 10 * time.Minute, "", true, true, false},
		"it would be refused":         {"1Gi", 10 * time.Minute, "", false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			r := newRescued(l.scene, func(types.NamespacedName) bool { return c.keeps }, func(*corev1.Pod, map[string]corev1.ResourceRequirements) bool { return c.restorable_ })
			pod := seededWith(t, "100Mi", c.template)
			r.changed(api.Event{Type: watch.Added, Object: pod})
			r.changed(oomKilled(pod))
			if c.asked != "" {
				w := l.write("patch/resize", "Pod", c.asked, nil)
				w.UID = string(pod.UID)
				r.wrote(w)
			}
			l.go_(c.between)
			again := seededWith(t, "100Mi", c.template)
			again.Status.ContainerStatuses[0].ContainerID = "run-1"
			r.changed(oomKilled(again))
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestUndemandedSeesALimitThatNothingDemanded(t *testing.T) {
	for name, c := range map[string]struct {
		given    string
		needed   float64
		killedAt string
		overhead float64
		wrong    bool
	}{
		"twice the template":                      {"200Mi", 10, "", 0, false},
		"more than that":                          {"210Mi", 10, "", 0, true},
		"four times what was needed":              {"400Mi", 100, "", 0, false},
		"more than four times":                    {"410Mi", 100, "", 0, true},
		"what its policy adds":                    {"900Mi", 100, "", 2, false},
		"1.3 times and again after a kill":        {"338Mi", 10, "200Mi", 0, false},
		"more than that after a kill":             {"345Mi", 10, "200Mi", 0, true},
		"a kill at a limit that was raised since": {"400Mi", 10, "100Mi", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab()
			pod := seededWith(t, c.given, "100Mi")
			u := newUndemanded(l.scene, demandFacts{
				pods: func() []*corev1.Pod { return nil }, pod: func(string, string) *corev1.Pod { return pod },
				needs:    func(*corev1.Pod, string, float64) float64 { return c.needed * mib },
				overhead: func(types.NamespacedName) float64 { return c.overhead }, least: func(types.NamespacedName) float64 { return 0 },
			})
			if c.killedAt != "" {
				u.changed(oomKilled(runsWith(c.killedAt, 0)))
			}
			u.changed(api.Event{Type: watch.Added, Object: pod})
			assert.Equal(t, c.wrong, len(l.wrong) > 0, "%v", l.wrong)
		})
	}
}

func TestRunsSeesWhatLasts(t *testing.T) {
	l := newLab()
	var now []stuck
	r := newRuns(l.scene, func() []stuck { return now })
	minutes := func(n int) {
		for range n {
			r.tick()
			l.go_(time.Minute)
		}
	}
	now = []stuck{{webRec, "pod shop/web-1", "does not start", 2 * time.Minute}}
	minutes(3)
	assert.Empty(t, l.wrong, "as long as it may take")
	now = nil
	minutes(1)
	now = []stuck{{webRec, "pod shop/web-1", "does not start", 2 * time.Minute}}
	minutes(3)
	assert.Empty(t, l.wrong, "it began anew")
	minutes(1)
	l.found(t, "it would run without attune: pod shop/web-1 does not start")
}

// A container whose usage follows its limit is measured with page cache that fills on when the limit is raised, and with the
// heap that its process reserved when it started.
func TestElasticUsageFollowsItsLimit(t *testing.T) {
	at := func(minutes int) time.Time { return beginning.Add(time.Duration(minutes) * time.Minute) }
	l := &life{started: beginning, of: demand{memory: 100 * mib, elastic: elastic{fills: mib}}, limits: []limitSince{{at(0), 200 * mib}, {at(60), 400 * mib}}}
	assert.InDelta(t, 60*mib, l.elastic(at(1)), mib)
	assert.InDelta(t, 98*mib, l.elastic(at(30)), mib, "what the limit leaves, less a little")
	assert.InDelta(t, 158*mib, l.elastic(at(61)), mib, "it fills on")
	assert.InDelta(t, 294*mib, l.elastic(at(120)), mib)
	l.of.elastic = elastic{heap: 0.5}
	assert.InDelta(t, 100*mib, l.elastic(at(120)), mib, "by the limit at its start")
	l.started = at(90)
	assert.InDelta(t, 200*mib, l.elastic(at(120)), mib)
}
