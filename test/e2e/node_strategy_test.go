package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/recommender"
	"attune.io/attune/test/cluster"
)

const sharingTest = "TestNodeStrategy"

// sharing is the namespace of the workloads that share nodes.
const sharing = "sharing"

// shareLabel is that of the nodes that those may run on which move.
const shareLabel = "e2e.attune.io/shared"

// The nodes of TestNodeStrategy. The operator is on the other one.
const (
	sharedNode = 1
	otherNode  = 2
	// sharedMiB is what the pods share. They are born with 696 MiB in all.
	sharedMiB = 736
)

// shared is the cluster of TestNodeStrategy, whose nodes are looked at often.
func shared() installation {
	options := cluster.Options{Nodes: 2, Prometheus: true, NodeCPU: "1500m", NodeMemory: "8Gi", KubeletConfig: sharesLittle(sharedMiB)}
	return installation{options: options, reserved: []int{sharedNode}, settings: append([]string{
		"replicas=1", "certs.provider=self-signed", "node.interval=10s",
	}, settings...)}
}

// sharesLittle leaves the shared node so much memory for pods.
func sharesLittle(mib int) func(node int, config map[string]any) {
	return func(node int, config map[string]any) {
		if node == sharedNode {
			reserved := config["systemReserved"].(map[string]any)
			reserved["memory"] = plus(reserved["memory"], fmt.Sprintf("%dMi", 8<<10-mib))
		}
	}
}

// sharer is a workload of the story. Its pods' names are known before they are, since it is a StatefulSet.
type sharer struct {
	name     string
	replicas int
	ranking  v1alpha1.EvictionRanking
	// kind is StatefulSet where it is empty.
	kind v1alpha1.WorkloadKind
	// peak is the CPU that it has used for ten minutes of the last hour, in millicores, and memory what it has used of
	// late, in MiB. Of CPU it has otherwise used usual. It is given no more CPU than its peak, so that nobody is resized,
	// and watched, for what a busy machine adds to that.
	peak, memory int
	// yesterday is the memory that it used before the last 24 hours, if that was more: its limit has room for it.
	yesterday int
	paused    bool
}

// usual is the CPU that everybody uses, in millicores.
const usual = 20

var (
	// web needs its peak seldom. It may go, after low.
	web = sharer{name: "web", replicas: 2, ranking: v1alpha1.RankingMedium, peak: 220, memory: 40}
	// keeps is paused, and keeps what its template says, which is 80 MiB more than it needs.
	keeps = sharer{name: "keeps", replicas: 1, ranking: v1alpha1.RankingLow, peak: 220, memory: 40, paused: true}
	// grows will need 75 MiB more than it was born with, and heavy 115.
	grows = sharer{name: "grows", replicas: 1, ranking: v1alpha1.RankingHigh, peak: usual, memory: 100}
	heavy = sharer{name: "heavy", replicas: 1, ranking: v1alpha1.RankingHigh, peak: usual, memory: 180, yesterday: 300}
	// low is to go first.
	low = sharer{name: "low", replicas: 2, ranking: v1alpha1.RankingLow, peak: usual, memory: 100}

	sharers = []sharer{web, keeps, grows, heavy, low}
	meagre  = size{cpu: "10m", memory: "16Mi"}
	lavish  = size{cpu: "220m", memory: "120Mi"}
)

func (s sharer) pod(i int) string {
	if s.kind == v1alpha1.KindDaemonSet {
		return s.name + "-x2x7k" // not its pod's, but one that a DaemonSet could give
	}
	return fmt.Sprintf("%s-%d", s.name, i)
}

func (s sharer) born() size {
	if s.paused {
		return lavish
	}
	return size{cpu: fmt.Sprintf("%dm", s.peak), memory: fmt.Sprintf("%dMi", s.memory), memoryLimit: fmt.Sprintf("%dMi", 2*max(s.memory, s.yesterday))}
}

// window is how far back the policies look.
const window = 26 * time.Hour

// past of pods with the names that its pods will have: their own recent usage is known when they are born, for which
// others would have to run for half an hour.
func (s sharer) past(end time.Time) (all []cluster.Series) {
	spike := end.Add(-30 * time.Minute)
	for i := range s.replicas {
		series := history{sharing, s.pod(i), "app", 0, float64(s.memory)}.until(end, 2*time.Hour)
		if s.yesterday > 0 {
			series.From = end.Add(-window)
			series.Memory = func(at time.Time) float64 {
				if at.Before(series.From.Add(time.Hour)) {
					return float64(s.yesterday) * mebibyte
				}
				return float64(s.memory) * mebibyte
			}
		}
		series.CPU = func(at time.Time) float64 {
			if at.Before(spike) && at.After(spike.Add(-10*time.Minute)) {
				return float64(s.peak) / 1000
			}
			return usual / 1000.
		}
		all = append(all, series)
	}
	return all
}

func (s sharer) create(t *testing.T) {
	t.Helper()
	c := app("app", meagre)
	c.Env[0].Value = strconv.Itoa(usual)
	if s.paused {
		c.Resources = lavish.requirements()
	}
	labels := map[string]string{"app": s.name}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: s.name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](0), ServiceName: s.name, PodManagementPolicy: appsv1.ParallelPodManagement,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
		},
	}
	set.Spec.Template.Spec = corev1.PodSpec{Containers: []corev1.Container{c}, TerminationGracePeriodSeconds: ptr.To[int64](1)}
	moves(&set.Spec.Template.Spec)
	require.NoError(t, env.client.Create(t.Context(), set))
	s.createPolicy(t)
}

// moves has pods run on the nodes that are shared, best on the other one.
func moves(spec *corev1.PodSpec) {
	spec.NodeSelector = map[string]string{shareLabel: "true"}
	spec.Tolerations = append(spec.Tolerations, corev1.Toleration{Key: reservedTaint, Operator: corev1.TolerationOpExists})
	there := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName(otherNode)}}
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{
		{Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{there}}},
	}}}
}

// createPolicy makes one that sizes births alone as yet.
func (s sharer) createPolicy(t *testing.T) {
	t.Helper()
	require.NoError(t, env.client.Create(t.Context(), &v1alpha1.AttunePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: s.name},
		Spec: v1alpha1.AttunePolicySpec{
			TargetRef: v1alpha1.TargetRef{Kind: cmp.Or(s.kind, v1alpha1.KindStatefulSet), Name: s.name},
			PolicySettings: v1alpha1.PolicySettings{
				Strategy: ptr.To(v1alpha1.StrategyNode),
				Node:     &v1alpha1.NodeSettings{Eviction: ptr.To(v1alpha1.Enabled), EvictionRanking: ptr.To(s.ranking)},
				Paused:   ptr.To(s.paused),
				MetricsSource: &v1alpha1.MetricsSource{
					HistoryWindow: duration(window), QueryStep: duration(30 * time.Second), RateWindow: duration(time.Minute),
				},
				CPU: &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{
					MaxAllowed: resource.NewMilliQuantity(int64(s.peak), resource.DecimalSI),
				}},
				Memory:         &v1alpha1.MemorySettings{AllowDecrease: ptr.To(true)},
				UpdateStrategy: &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateInitial), SafetyObservationPeriod: duration(time.Minute)},
			},
		},
	}))
}

func (s sharer) recommendation(ctx context.Context) (*v1alpha1.AttuneRecommendation, error) {
	rec := &v1alpha1.AttuneRecommendation{}
	kind := strings.ToLower(string(cmp.Or(s.kind, v1alpha1.KindStatefulSet)))
	return rec, env.client.Get(ctx, client.ObjectKey{Namespace: sharing, Name: kind + "-" + s.name}, rec)
}

// agent is a DaemonSet of the lowest ranking, whose pods nobody evicts. What its pod uses itself is not known.
var agent = sharer{name: "agent", replicas: 1, ranking: v1alpha1.RankingLow, kind: v1alpha1.KindDaemonSet, peak: usual, memory: 16}

func createAgent(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app": agent.name}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: agent.name}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	set.Spec.Template.Labels = labels
	set.Spec.Template.Spec.Containers = []corev1.Container{idle(size{cpu: "20m", memory: "16Mi"})}
	onNode(&set.Spec.Template.Spec, sharedNode)
	require.NoError(t, env.client.Create(t.Context(), set))
	agent.createPolicy(t)
}

// TestNodeStrategy: pods are born with their peaks, and those that need them seldom are lowered to their shares of the
// node's spike headroom. One whose use grows is raised in place. A neighbour that may not be changed keeps what it holds
// and takes part all the same: nobody goes for that. When there is no room any more for what everybody needs, one pod of
// the lowest ranking goes to the other node, and nobody else.
func TestNodeStrategy(t *testing.T) { alone(t, sharesNodes) }

func sharesNodes(t *testing.T) {
	s := &shares{began: time.Now()}
	namespace(t.Context(), t, sharing, true)
	// The parts build on each other: a failed one leaves nothing for the next.
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"born at their peaks", s.newPods},
		{"lowered to their shares, a frozen neighbour's counted", s.lowered},
		{"the leader says why", s.told},
		{"raised in place, and nobody goes for what a frozen neighbour holds", s.raised},
		{"one that does not fit goes to the other node", s.evictsOne},
		{"nobody else went, or was restarted", s.stayed},
	} {
		if !t.Run(part.name, part.test) {
			return
		}
	}
}

type shares struct {
	began time.Time
	// born are the pods of the shared node once it had them all, by name; gone is the one that was evicted.
	born map[string]types.UID
	gone string
}

// tell how long it took so far.
func (s *shares) tell(t *testing.T, format string, args ...any) {
	t.Helper()
	t.Logf("after %s: %s", time.Since(s.began).Round(time.Second), fmt.Sprintf(format, args...))
}

// sharingPods are the live ones by name.
func sharingPods(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	list := &corev1.PodList{}
	require.NoError(t, env.client.List(t.Context(), list, client.InNamespace(sharing)))
	all := map[string]*corev1.Pod{}
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all
}

func (s *shares) newPods(t *testing.T) {
	ctx := t.Context()
	relabel(t, sharedNode, shareLabel, ptr.To("true"))
	var past []cluster.Series
	for _, w := range append(sharers, agent) {
		past = append(past, w.past(time.Now().Add(-15*time.Second))...)
	}
	require.NoError(t, env.cluster.BackfillInto(ctx, past))
	for _, w := range sharers {
		w.create(t)
	}
	createAgent(t)
	eventually(t, "what agent needs is known", func() error { return agent.isKnown(ctx) })
	for _, w := range sharers {
		eventually(t, "what new pods of "+w.name+" are given", func() error { return w.isKnown(ctx) })
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: w.name}}
		replicas := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, w.replicas)
		require.NoError(t, env.client.Patch(ctx, set, client.RawPatch(types.MergePatchType, replicas)))
	}
	eventually(t, "all run", func() error { return s.run(t) })
	for _, w := range sharers {
		for i := range w.replicas {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: w.pod(i)}}
			require.NoError(t, see(t, p))
			assert.Equal(t, int64(1), p.Generation, p.Name)
			assert.Equal(t, nodeName(sharedNode), p.Spec.NodeName, p.Name)
			assert.Equal(t, w.born(), sizeOf(p.Spec.Containers[0].Resources), p.Name)
			if !w.paused {
				assert.Contains(t, p.Annotations, v1alpha1.SeededAnnotation, p.Name)
			}
		}
	}
	s.tell(t, "all pods are born")
}

// isKnown: new pods are born with the peaks of both resources, unless it is paused.
func (s sharer) isKnown(ctx context.Context) error {
	rec, err := s.recommendation(ctx)
	if err != nil || s.paused {
		return err
	}
	if rec.Spec.Seed == nil {
		return errors.New("withheld: " + rec.Spec.SeedBlocked)
	}
	if seeds := rec.Spec.Seed.Containers; len(seeds) == 0 || seeds[0].CPURequest == nil || seeds[0].MemoryRequest == nil {
		return fmt.Errorf("seed %v", seeds)
	}
	return nil
}

// run: all pods do, and are ready.
func (s *shares) run(t *testing.T) error {
	t.Helper()
	s.born = map[string]types.UID{}
	for name, p := range sharingPods(t) {
		if c := conditionOf(p, corev1.PodReady); c == nil || c.Status != corev1.ConditionTrue {
			return fmt.Errorf("pod %s is not ready: %v", name, p.Status.Conditions)
		}
		s.born[name] = p.UID
	}
	want := agent.replicas
	for _, w := range sharers {
		want += w.replicas
	}
	if len(s.born) != want {
		return fmt.Errorf("%d pods of %d", len(s.born), want)
	}
	return nil
}

// lowered: web's spikes come to 400m and that of keeps to 200m, so each of the three has a third of a reserve of 400m,
// beside 20m. Without keeps the two would have all of it: they are lowered only because it takes part.
// told: the plugin asks the leader through the API server, the kubelet and the container runtime.
func (s *shares) told(t *testing.T) {
	var answer answers.NodeAnswer
	// The answer is the last decision, which may be newer than the last resize.
	eventually(t, "web has what it was granted", func() error {
		var said bytes.Buffer
		cmd := env.cluster.Command(t.Context(), env.plugin, "node", nodeName(sharedNode), "-o", "json")
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil || said.Len() > 0 {
			return fmt.Errorf("%v: %s", err, &said)
		}
		answer = answers.NodeAnswer{}
		if err := json.Unmarshal(out, &answer); err != nil {
			return err
		}
		for i := range web.replicas {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: web.pod(i)}}
			if err := see(t, pod); err != nil {
				return err
			}
			has, p := pod.Spec.Containers[0].Resources.Requests.Cpu().String(), answerAbout(answer, pod.Name)
			if len(p.Containers) != 1 || p.Containers[0].Gets.CPURequest == nil || *p.Containers[0].Gets.CPURequest != has {
				return fmt.Errorf("pod %s has %s: %s", pod.Name, has, out)
			}
		}
		return nil
	})
	require.NotNil(t, answer.Decided)
	for i := range web.replicas {
		c := answerAbout(answer, web.pod(i)).Containers[0]
		require.NotNil(t, c.Base)
		require.NotNil(t, c.Share)
		assert.NotEmpty(t, c.Base.CPU)
		assert.NotEmpty(t, c.Steps)
	}
	frozen := slices.ContainsFunc(answer.Pods, func(p answers.NodePod) bool { return p.Frozen && p.Message != "" })
	assert.True(t, frozen, "the paused neighbour's reason: %+v", answer)
}

// answerAbout returns what the leader says about a pod.
func answerAbout(answer answers.NodeAnswer, pod string) (about answers.NodePod) {
	if i := slices.IndexFunc(answer.Pods, func(p answers.NodePod) bool { return p.Name == sharing+"/"+pod }); i >= 0 {
		about = answer.Pods[i]
	}
	return about
}

func (s *shares) lowered(t *testing.T) {
	ctx := t.Context()
	for _, w := range append(sharers, agent) {
		p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: w.name}}
		require.NoError(t, env.client.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"updateStrategy":{"type":"Auto"}}}`))))
	}
	for i := range web.replicas {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: web.pod(i)}}
		eventually(t, p.Name+" is lowered in place", func() error {
			if err := settled(t, p); err != nil {
				return err
			}
			if asked := p.Spec.Containers[0].Resources.Requests.Cpu(); asked.MilliValue() >= int64(web.peak) {
				return fmt.Errorf("it asks for %s", asked)
			}
			return nil
		})
		share := p.Spec.Containers[0].Resources.Requests.Cpu().MilliValue()
		assert.InDelta(t, usual+400/3, share, 25, "a third of the reserve")
		assert.NoError(t, hasWeight(p, "app", share))
		s.tell(t, "%s was lowered to %dm of CPU", p.Name, share)
	}
	s.pausedPodKeepsSize(t)
}

// pausedPodKeepsSize: the paused one has what its template says.
func (s *shares) pausedPodKeepsSize(t *testing.T) {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: keeps.pod(0)}}
	assert.NoError(t, hasSpec(t, p, lavish))
	assert.Equal(t, int64(1), p.Generation, "nobody has resized it")
}

// raised: 40 MiB are free, and 80 are held by keeps above what it needs. What grows then needs 75 more: it has what is
// free, and nobody goes for the rest, which will be there once keeps may be lowered.
func (s *shares) raised(t *testing.T) {
	relabel(t, otherNode, shareLabel, ptr.To("true")) // who goes has somewhere to go
	p := s.uses(t, grows, 165)
	within(t, settle, "it is raised in place", func() error { return holdsMore(t, p, grows.memory+40) })
	held := p.Spec.Containers[0].Resources
	s.tell(t, "%s was raised to %s, its limit to %s", p.Name, held.Requests.Memory(), held.Limits.Memory())
	assert.LessOrEqual(t, held.Requests.Memory().Value(), int64(grows.memory+40)*mebibyte, "what was free")
	// While it is watched itself, it counts with no more than it holds.
	within(t, 2*settle, "its watch is over", func() error {
		rec, err := grows.recommendation(t.Context())
		if err == nil && len(rec.Status.Records) > 0 {
			err = fmt.Errorf("records %v", rec.Status.Records)
		}
		return err
	})
	s.tell(t, "its watch is over")
	assert.Empty(t, evictions(t), "it would have the rest if somebody went")
	s.pausedPodKeepsSize(t)
}

// uses tells a workload's first pod to use so many MiB. Its policy is paused until all of it was measured: on a busy machine
// the pod takes seconds to use it, and a pod that was resized for a part of it would not be resized again for 8 minutes.
func (s *shares) uses(t *testing.T, w sharer, mib int) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: w.pod(0)}}
	require.NoError(t, see(t, p))
	generation := w.pause(t, true)
	eventually(t, "the pause of "+w.name+" is known", func() error {
		rec, err := w.recommendation(t.Context())
		if err == nil && rec.Spec.Policy.Generation < generation {
			err = fmt.Errorf("decided with generation %d of %d", rec.Spec.Policy.Generation, generation)
		}
		return err
	})
	use(t.Context(), t, p, fmt.Sprintf("memory=%d", mib))
	eventually(t, "it has taken that", func() error { return holds(p, int64(mib)) })
	eventually(t, "all of it was measured", func() error { return w.needs(t, mib) })
	w.pause(t, false)
	return p
}

// pause or resume a workload's policy. Returns the policy's generation.
func (s sharer) pause(t *testing.T, paused bool) int64 {
	t.Helper()
	policy := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: sharing, Name: s.name}}
	patch := fmt.Appendf(nil, `{"spec":{"paused":%t}}`, paused)
	require.NoError(t, env.client.Patch(t.Context(), policy, client.RawPatch(types.MergePatchType, patch)))
	return policy.Generation
}

// needs: the peak in the workload's demand is at least so many MiB.
func (s sharer) needs(t *testing.T, mib int) error {
	t.Helper()
	rec, err := s.recommendation(t.Context())
	if err != nil {
		return err
	}
	if len(rec.Spec.Containers) == 0 || rec.Spec.Containers[0].Demand == nil || rec.Spec.Containers[0].Demand.MemoryPeak == nil {
		return fmt.Errorf("containers %v", rec.Spec.Containers)
	}
	if peak := rec.Spec.Containers[0].Demand.MemoryPeak; peak.Value() < int64(mib)*mebibyte {
		return fmt.Errorf("its peak is %s", peak)
	}
	return nil
}

// holdsMore: a pod requests at least so many MiB, its limit has risen too, and its kubelet has carried that out.
func holdsMore(t *testing.T, p *corev1.Pod, mib int) error {
	t.Helper()
	if err := settled(t, p); err != nil {
		return err
	}
	asked := p.Spec.Containers[0].Resources
	if asked.Requests.Memory().Value() < int64(mib)*mebibyte {
		return fmt.Errorf("it asks for %s", asked.Requests.Memory())
	}
	return hasLimit(p, "app", asked.Limits.Memory().Value())
}

// evictions are the pods of which an event says that they are to go, or went, by reason.
func evictions(t *testing.T) map[string][]string {
	t.Helper()
	list := &corev1.EventList{}
	require.NoError(t, env.client.List(t.Context(), list, client.InNamespace(sharing)))
	told := map[string][]string{}
	for _, e := range list.Items {
		if strings.HasPrefix(e.Reason, "Evict") && !slices.Contains(told[e.Reason], e.InvolvedObject.Name) {
			told[e.Reason] = append(told[e.Reason], e.InvolvedObject.Name)
		}
	}
	return told
}

// evictsOne: with what heavy needs now it is 50 MiB too much, although keeps is counted with what it needs and not with
// what it holds. One of low leaves 100.
func (s *shares) evictsOne(t *testing.T) {
	p := s.uses(t, heavy, 285)
	var successor *corev1.Pod
	within(t, 2*settle, "one of low runs on the other node", func() error {
		all := sharingPods(t)
		for i := range low.replicas {
			if now := all[low.pod(i)]; now != nil && now.UID != s.born[now.Name] && is(t, now, corev1.PodReady, "") == nil {
				successor = now
				return nil
			}
		}
		return fmt.Errorf("events %v, %s is at %v", evictions(t), p.Name, p.Spec.Containers[0].Resources)
	})
	s.gone = successor.Name
	s.tell(t, "%s runs on %s", s.gone, successor.Spec.NodeName)
	assert.Equal(t, nodeName(otherNode), successor.Spec.NodeName)
	assert.Equal(t, low.born(), sizeOf(successor.Spec.Containers[0].Resources), "born with its peak")
	assert.Contains(t, successor.Annotations, v1alpha1.SeededAnnotation)
	eventually(t, "who needed the room has it, in place", func() error { return holdsMore(t, p, 240) })
	s.tell(t, "%s was raised to %s", p.Name, p.Spec.Containers[0].Resources.Requests.Memory())
	rec, err := low.recommendation(t.Context())
	require.NoError(t, err)
	at := slices.IndexFunc(rec.Status.History, func(h v1alpha1.HistoryEntry) bool { return h.Result == "Evicted" })
	if assert.GreaterOrEqual(t, at, 0, "%v", rec.Status.History) {
		assert.Equal(t, s.gone, rec.Status.History[at].Pod)
		assert.Equal(t, "DoesNotFit", rec.Status.History[at].Reason)
	}
	node := &corev1.Node{}
	require.NoError(t, env.client.Get(t.Context(), client.ObjectKey{Name: nodeName(sharedNode)}, node))
	allocatable := recommender.Amount(node.Status.Allocatable.Memory().Value())
	eventually(t, "it is told why", func() error {
		is := fmt.Sprintf("Evicting pod %s from node %s: memory does not fit: ", s.gone, nodeName(sharedNode))
		all := recommender.Format(recommender.Memory, allocatable) + " is available; ranking Low"
		return errors.Join(hasEvent(t.Context(), sharing, is, v1alpha1.EventEvicting), hasEvent(t.Context(), sharing, all, v1alpha1.EventEvicting),
			hasEvent(t.Context(), sharing, s.gone, v1alpha1.EventEvicted))
	})
}

func (s *shares) stayed(t *testing.T) {
	s.pausedPodKeepsSize(t)
	now := sharingPods(t)
	assert.ElementsMatch(t, slices.Collect(maps.Keys(s.born)), slices.Collect(maps.Keys(now)))
	for name, p := range now {
		assert.Zero(t, p.Status.ContainerStatuses[0].RestartCount, name)
		if name != s.gone {
			assert.Equal(t, s.born[name], p.UID, name)
		}
	}
	for reason, names := range evictions(t) {
		assert.Equal(t, []string{s.gone}, names, reason)
	}
	for _, w := range sharers {
		rec, err := w.recommendation(t.Context())
		require.NoError(t, err)
		for _, row := range rec.Status.History {
			assert.True(t, row.Result == "Success" || row.Pod == s.gone, "%v", row)
		}
	}
	s.tell(t, "the end")
}
