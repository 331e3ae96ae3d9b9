package harm

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// exitedWith sets the exit code of a termination.
func exitedWith(code int32, end *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	end.ExitCode = code
	return end
}

func TestOOMKilledWithAnExitOfItsOwnIsNoKill(t *testing.T) {
	for code, killed := range map[int32]bool{137: true, 1: true, 3: true, 255: true, 0: false, 143: false} {
		pod := resized(desired, done(desired), restarts(1), last(exitedWith(code, ended("OOMKilled", "app-0", -time.Hour, time.Second))))
		assert.Equal(t, killed, len(podview.OOMKills(pod)) == 1, code)
		assert.Equal(t, killed, len(LearnKills(nil, pod, nil, nil, noon)) == 1, code)
		raise := recorded(desired, func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(size(500, 1000, 256, 512)) })
		assert.Equal(t, killed, Judge(pod, raise, noon, auto(), Signals{}).Harm == resize.HarmOOM, code)
		pod.Generation = 1
		_, lost := LossOf(pod, map[string]recommender.Size{"app": size(500, 1000, 2048, 4096)}, true, noon)
		assert.Equal(t, killed, lost, code)
	}
}

func TestARestartAfterLoweredMemory(t *testing.T) {
	lowered := size(500, 1000, 256, 512)
	noLimit := func(r *v1alpha1.ResizeRecord) {
		r.Prior[0].Resources, r.Desired[0].Resources = podview.ToResources(size(500, 0, 512, 0)), podview.ToResources(size(500, 0, 256, 0))
	}
	raise := func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(size(500, 1000, 256, 256)) }
	for _, tc := range []struct {
		name    string
		to      recommender.Size
		edit    func(*v1alpha1.ResizeRecord)
		end     *corev1.ContainerStateTerminated
		signals Signals
		want    resize.Harm
	}{
		{name: "the heap did not fit: exit code 3", to: lowered, end: exitedWith(3, ended("Error", "app-0", -time.Hour, time.Second)), want: resize.HarmRestart},
		{name: "a probe failed during garbage collection", to: lowered, end: exitedWith(143, ended("Error", "app-0", -time.Hour, time.Second)), want: resize.HarmRestart},
		{name: "a child was killed, and the main process ended with an error", to: lowered, end: exitedWith(143, ended("OOMKilled", "app-0", -time.Hour, time.Second)), want: resize.HarmRestart},
		{name: "137 without the reason", to: lowered, end: exitedWith(137, ended("Error", "app-0", -time.Hour, time.Second)), want: resize.HarmRestart},
		{name: "completed", to: lowered, end: exitedWith(0, ended("Completed", "app-0", -time.Hour, time.Second))},
		{name: "its request was lowered, and it has no limit", to: size(500, 0, 256, 0), edit: noLimit, end: exitedWith(1, ended("Error", "app-0", -time.Hour, time.Second)), want: resize.HarmRestart},
		{name: "its request alone was lowered", to: size(500, 1000, 256, 1024), end: exitedWith(1, ended("Error", "app-0", -time.Hour, time.Second))},
		{name: "its memory was raised", to: lowered, edit: raise, end: exitedWith(1, ended("Error", "app-0", -time.Hour, time.Second))},
		{name: "its CPU was lowered", to: desired, end: exitedWith(1, ended("Error", "app-0", -time.Hour, time.Second))},
		{name: "the node restarted", to: lowered, end: exitedWith(1, ended("Error", "app-0", -time.Hour, time.Second)), signals: Signals{NodeBooted: noon}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			record := recorded(tc.to)
			if tc.edit != nil {
				tc.edit(&record)
			}
			v := Judge(resized(tc.to, done(tc.to), restarts(1), last(tc.end)), record, noon, auto(), tc.signals)
			assert.Equal(t, tc.want, v.Harm, v.Message)
		})
	}
	v := Judge(resized(lowered, done(lowered), restarts(1), last(exitedWith(3, ended("Error", "app-0", -time.Hour, time.Second)))), recorded(lowered), noon, auto(), Signals{})
	assert.Equal(t, "container app ended with exit code 3 after the resize of 2026-03-04T11:59:00Z lowered its memory", v.Message)
}

// The event of a kill may be measured after the resize that answers it.
func TestAKillBeforeTheResizeIsNoKillOfAChild(t *testing.T) {
	grown := size(500, 1000, 1024, 2048)
	second := func(r *v1alpha1.ResizeRecord) {
		r.Baseline[0].ContainerID, r.Baseline[0].RestartCount, r.Baseline[0].StartedAt = "containerd://app-1", 1, r.WrittenAt.DeepCopy()
	}
	events := func(n float64) Signals { return Signals{OOMEvents: map[string]float64{"app": n}} }
	before := func(ago time.Duration) *corev1.Pod {
		return resized(grown, done(grown), restarts(1), last(ended("OOMKilled", "app-0", -time.Hour, -ago)))
	}
	record := recorded(grown, second)
	assert.Empty(t, Judge(before(5*time.Second), record, noon, auto(), events(1)).Harm, "its own event")
	assert.Equal(t, resize.HarmOOM, Judge(before(5*time.Second), record, noon, auto(), events(2)).Harm, "and one of a child")
	long := recorded(grown, second, func(r *v1alpha1.ResizeRecord) { r.WatchUntil = &metav1.Time{Time: noon} })
	long.WrittenAt = metav1.NewTime(noon.Add(-10 * time.Minute))
	killed := resized(grown, done(grown), restarts(1), last(ended("OOMKilled", "app-0", -time.Hour, -10*time.Minute)))
	assert.Equal(t, resize.HarmOOM, Judge(killed, long, noon, auto(), events(1)).Harm, "the series of the killed run has ended: it is one of a child")
	assert.Equal(t, resize.HarmOOM, Judge(before(time.Hour), record, noon, auto(), events(1)).Harm, "its event was measured long before the resize")
}

func TestKillsOfTheNode(t *testing.T) {
	const used = 90 * mi
	at := noon.Add(-5 * time.Second)
	pressure := func(status corev1.ConditionStatus, since time.Time) *corev1.Node {
		n := &corev1.Node{}
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
			{Type: corev1.NodeMemoryPressure, Status: status, LastTransitionTime: metav1.NewTime(since)},
		}
		return n
	}
	lowersRequest := recorded(desired, func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(size(500, 1000, 768, 1024)) })
	short := pressure(corev1.ConditionTrue, noon.Add(-time.Minute))
	lowers := recorded(desired, ofMemory)
	raises := recorded(desired, func(r *v1alpha1.ResizeRecord) {
		r.Prior[0].Resources, r.VerifiedOnce = podview.ToResources(size(500, 1000, 256, 512)), ago(30*time.Second)
	})
	for _, tc := range []struct {
		name          string
		facts         KillFacts
		node          *corev1.Node
		records       []v1alpha1.ResizeRecord
		original      recommender.Size
		ofNode, doubt bool
	}{
		{name: "the node reports MemoryPressure", facts: KillFacts{Used: used}, node: short, ofNode: true},
		{name: "the node reported it until after the kill", facts: KillFacts{Used: used}, node: pressure(corev1.ConditionFalse, noon), ofNode: true},
		{name: "the node is lost, and its MemoryPressure is not known", facts: KillFacts{Used: used}, node: pressure(corev1.ConditionUnknown, noon), doubt: true},
		{name: "the node reported it long ago", facts: KillFacts{Used: used}, node: pressure(corev1.ConditionFalse, noon.Add(-time.Hour)), doubt: true},
		{name: "three workloads at once", facts: KillFacts{Used: used, Workloads: 3}, ofNode: true},
		{name: "two workloads at once", facts: KillFacts{Used: used, Workloads: 2}, doubt: true},
		{name: "below 70 % of the limit, and nothing else", facts: KillFacts{Used: 600 * mi}, doubt: true},
		{name: "close to its limit, under MemoryPressure", facts: KillFacts{Used: 720 * mi, Workloads: 5}, node: short},
		{name: "usage is not known", facts: KillFacts{Workloads: 5}, node: short},
		{name: "attune lowered it and observes it", facts: KillFacts{Used: used, Workloads: 5}, node: short, records: []v1alpha1.ResizeRecord{lowers}},
		{name: "attune lowered its request and observes it", facts: KillFacts{Used: used, Workloads: 5}, node: short, records: []v1alpha1.ResizeRecord{lowersRequest}},
		{name: "attune raised it and observes it", facts: KillFacts{Used: used, Workloads: 5}, node: short, records: []v1alpha1.ResizeRecord{raises}, ofNode: true},
		{name: "admission lowered it", facts: KillFacts{Used: used, Workloads: 5}, node: short, original: size(500, 1000, 512, 2048)},
		{name: "admission lowered its request", facts: KillFacts{Used: used, Workloads: 5}, node: short, original: size(500, 1000, 768, 1024)},
		{name: "admission lowered its CPU", facts: KillFacts{Used: used, Workloads: 5}, node: short, original: size(1000, 2000, 512, 1024), ofNode: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := resized(desired, done(desired), restarts(2), last(ended("OOMKilled", "app-0", -time.Hour, 55*time.Second)))
			pod.Generation, pod.Spec.NodeName = 1, "node-1"
			kill := podview.OOMKills(pod)[0]
			require.Equal(t, at, kill.At)
			known := LearnKills(nil, pod, tc.records, nil, noon)
			ends := Ends{Facts: map[string]KillFacts{kill.Evidence: tc.facts}, Node: tc.node, Records: tc.records}
			if tc.original != (recommender.Size{}) {
				ends.Originals = map[string]recommender.Size{"app": tc.original}
			}
			read, floors, messages, again := ReadEnds(pod, known, ends, noon)
			assert.Equal(t, map[bool]time.Duration{true: NodeKillWithin}[tc.doubt], again)
			assert.Len(t, podview.OOMKills(pod), 1, "the cached pod stays")
			if !tc.ofNode {
				assert.Same(t, pod, read)
				assert.Equal(t, known, floors)
				assert.Empty(t, messages)
				return
			}
			assert.Empty(t, podview.OOMKills(read))
			assert.Equal(t, []string{"Node node-1 ran out of memory: container app was OOM-killed at 2026-03-04T11:59:55Z, when it used 90Mi of its limit 1Gi. " +
				"Its limit stays. Raise the memory requests of the pods on the node"}, messages)
			assert.Zero(t, resize.OOMFloorOf(floors, "app", noon), "what was learned before it was known is dropped")
			assert.Equal(t, floors, LearnKills(floors, pod, tc.records, nil, noon))
			if len(tc.records) > 0 {
				assert.Empty(t, Judge(read, tc.records[0], noon, auto(), Signals{}).Harm)
			}

			later := noon.Add(time.Hour)
			read, kept, messages, _ := ReadEnds(pod, floors, Ends{Records: tc.records}, later)
			assert.Empty(t, podview.OOMKills(read), "the evidence is gone, the status remembers")
			assert.Equal(t, floors, kept)
			assert.Empty(t, messages, "it is reported once")
			last(ended("OOMKilled", "app-1", time.Minute, 2*time.Minute))(pod)
			read, _, _, _ = ReadEnds(pod, floors, Ends{}, later)
			assert.Len(t, podview.OOMKills(read), 1, "the next kill is another one")
		})
	}
}

// The runtime may hear of a kill too late: then only the event shows it.
func TestExitCode137WithAnEventIsAKill(t *testing.T) {
	for _, tc := range []struct {
		reason string
		code   int32
		events float64
		want   int
	}{{"Error", 137, 1, 1}, {"Error", 137, 0, 0}, {"Error", 1, 1, 0}, {"Completed", 0, 1, 0}, {"OOMKilled", 137, 1, 1}, {"OOMKilled", 137, 0, 1}, {"OOMKilled", 143, 1, 0}} {
		pod := resized(prior, last(exitedWith(tc.code, ended(tc.reason, "app-0", 0, 55*time.Second))))
		ends := Ends{Facts: map[string]KillFacts{"containerd://app-0@2026-03-04T11:59:55Z": {Events: tc.events}}}
		read, floors, messages, again := ReadEnds(pod, nil, ends, noon)
		assert.Len(t, podview.OOMKills(read), tc.want, "%+v", tc)
		assert.Equal(t, map[bool]time.Duration{true: 30 * time.Second}[tc.reason == "Error" && tc.code == 137 && tc.events == 0], again, "its event may come with the next scrape: %+v", tc)
		assert.Empty(t, floors)
		assert.Empty(t, messages)
		_, _, _, again = ReadEnds(pod, nil, Ends{}, noon)
		assert.Zero(t, again, "nobody asked for its events")
		ends.Facts["containerd://app-0@2026-03-04T11:59:55Z"] = KillFacts{}
		_, _, _, again = ReadEnds(pod, LearnKills(nil, read, nil, nil, noon), ends, noon)
		if tc.want > 0 {
			assert.Zero(t, again, "it is learned: %+v", tc)
		}
	}
}

// A container that fills its limit between two samples, on a node that reports MemoryPressure, looks like a victim of the
// node each time. Only its first kill within an hour is the node's, in whichever pod.
func TestTheNextKillOfTheContainerIsItsOwn(t *testing.T) {
	node := &corev1.Node{}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}
	var floors []v1alpha1.Floor
	var said []string
	// end reads a kill at a time, and reports whether it is the container's own.
	end := func(run string, after time.Duration) bool {
		pod := resized(desired, done(desired), restarts(2), last(ended("OOMKilled", run, after-time.Minute, after)))
		pod.Generation, pod.Spec.NodeName = 1, "node-1"
		ends := Ends{Facts: map[string]KillFacts{podview.OOMKills(pod)[0].Evidence: {Used: 90 * mi, Workloads: 3}}, Node: node}
		own := false
		for pass := range 2 {
			now := noon.Add(after + time.Duration(5*pass)*time.Second)
			read, known, messages, again := ReadEnds(pod, floors, ends, now)
			own, floors = len(podview.OOMKills(read)) > 0, LearnKills(known, read, nil, nil, now)
			said = append(said, messages...)
			assert.Zero(t, again)
		}
		return own
	}
	assert.False(t, end("a-1", 5*time.Minute))
	assert.False(t, end("b-1", 5*time.Minute+10*time.Second), "another pod, killed with it")
	assert.False(t, end("c-1", 4*time.Minute), "another pod, killed before it, and seen later")
	assert.Zero(t, resize.OOMFloorOf(floors, "app", noon))
	said = nil
	assert.True(t, end("a-2", 15*time.Minute))
	assert.Equal(t, []string{"Node node-1 ran out of memory: container app was OOM-killed at 2026-03-04T12:14:00Z, when it used 90Mi of its limit 1Gi. " +
		"Less than an hour before, a kill of this container was the node's. So this one counts as a kill at the limit, which it may fill between two samples"}, said)
	assert.Equal(t, 1332*mi, resize.OOMFloorOf(floors, "app", noon.Add(14*time.Minute)))
	assert.True(t, end("b-2", 64*time.Minute), "in another pod")
	assert.False(t, end("a-3", 66*time.Minute), "the kills that were the node's are more than an hour old")
}

// Both kills that a pod shows are new: the older one is the first.
func TestTheOlderKillOfAPodIsReadFirst(t *testing.T) {
	pod := resized(desired, done(desired), restarts(1), last(ended("OOMKilled", "app-0", -time.Hour, 15*time.Second)))
	pod.Generation = 1
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: ended("OOMKilled", "app-1", 20*time.Second, 50*time.Second)}
	facts := map[string]KillFacts{}
	for _, kill := range podview.OOMKills(pod) {
		facts[kill.Evidence] = KillFacts{Used: 90 * mi, Workloads: 3}
	}
	read, _, _, _ := ReadEnds(pod, nil, Ends{Facts: facts}, noon)
	kills := podview.OOMKills(read)
	require.Len(t, kills, 1)
	assert.Equal(t, "containerd://app-1", kills[0].ContainerID)
}

// The rows of kills of nodes are bounded like all others, and displace no greatest minimum.
func TestRowsOfKillsOfTheNodeAreBounded(t *testing.T) {
	great := v1alpha1.Floor{Container: "app", Resource: "memory", Reason: "oomkill", Amount: podview.Quantity(recommender.Memory, 2048*mi), LearnedAt: metav1.NewTime(noon.Add(-time.Hour)), Evidence: "x"}
	floors, told := []v1alpha1.Floor{great}, 0
	for i := range 3 * mostFloors {
		pod := resized(desired, done(desired), restarts(1), last(ended("OOMKilled", fmt.Sprint("app-", i), -time.Hour, 55*time.Second)))
		kill := podview.OOMKills(pod)[0]
		ends := Ends{Facts: map[string]KillFacts{kill.Evidence: {Used: 90 * mi, Workloads: 3}}}
		for range 2 { // of a kill whose row is displaced nothing is said again and again
			read, now, messages, _ := ReadEnds(pod, floors, ends, noon)
			assert.Empty(t, podview.OOMKills(read), i)
			floors, told = now, told+len(messages)
		}
	}
	assert.Len(t, floors, mostFloors)
	assert.Contains(t, floors, great)
	assert.Equal(t, mostFloors-1, told)
}
