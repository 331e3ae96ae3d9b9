// Package decisions compares the decisions of 200 drawn scenes with those that testdata/decisions.txt has. Each scene is
// a policy with its defaults, a workload, its usage and its past. Settings, targets, admission and the resizes of
// running pods are decided by the product's pure functions, and each of the four has a digest.
//
// A change that must not change decisions leaves the file as it is. A change that is meant to change some runs
// `go test ./decisions -update`: the diff of the file shows which stages of which scenes change. `-seed N` prints the
// decisions of one scene, to compare them between two commits.
package decisions

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/constraint"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/adaptive"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/resizetest"
	"attune.io/attune/tuning"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/webhook/pod"
)

var (
	update = flag.Bool("update", false, "write testdata/decisions.txt")
	only   = flag.Int("seed", -1, "print the decisions of this scene")
)

const (
	file   = "testdata/decisions.txt"
	scenes = 200
)

// stages are the decisions of one scene, in their order.
type stages struct {
	Settings, Targets, Admission, Resize any
}

func TestDecisionsAreUnchanged(t *testing.T) {
	if *only >= 0 {
		text, err := json.MarshalIndent(decide(t, newScene(uint64(*only))), "", "  ")
		require.NoError(t, err)
		t.Log(string(text))
		return
	}
	var b strings.Builder
	seeded, resized := 0, 0
	for seed := range uint64(scenes) {
		of := decide(t, newScene(seed))
		if of.Admission.(admission).Patch != "" {
			seeded++
		}
		if len(of.Resize.(decision).Writes) > 0 {
			resized++
		}
		fmt.Fprintf(&b, "%d settings %s targets %s admission %s resize %s\n", seed, digest(t, of.Settings), digest(t, of.Targets), digest(t, of.Admission), digest(t, of.Resize))
	}
	t.Logf("%d scenes: %d change a new pod, %d resize a running one", scenes, seeded, resized)
	assert.Greater(t, seeded, scenes/8, "the scenes meet something")
	assert.Greater(t, resized, scenes/8, "the scenes meet something")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	was, is := strings.Split(string(text), "\n"), strings.Split(b.String(), "\n")
	require.Len(t, is, len(was))
	for i := range was {
		assert.Equal(t, was[i], is[i], "decisions change. If that is intended: go test ./decisions -update, and name the change in CHANGELOG.md. Otherwise compare `go test ./decisions -v -seed N` with an older commit")
	}
}

func digest(t *testing.T, of any) string {
	t.Helper()
	text, err := json.Marshal(of)
	require.NoError(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(text))[:12]
}

// decide takes a scene from the policy to the resizes of running pods.
func decide(t *testing.T, s *scene) stages {
	settings, err := policy.Resolve(s.cluster, s.namespace, s.policy)
	out := stages{Settings: settingsOf(s, err)}
	spec := s.targets(settings)
	out.Targets = targetsOf(spec)
	rec := &v1alpha1.AttuneRecommendation{Spec: spec, Status: s.status}
	rec.Name, rec.Namespace, rec.Generation = s.workload.RecommendationName(), s.workload.Namespace, 1
	out.Admission = s.admit(t, rec)
	out.Resize = s.resize(rec, settings, err == nil)
	return out
}

// settingsOf are the fields that a level sets, with the level. Built-in values are in the decisions.
func settingsOf(s *scene, err error) any {
	set := []string{}
	for _, f := range policy.Fields(s.cluster, s.namespace, s.policy, policy.Operator{SourceNamespaces: []string{"*"}}) {
		if f.Level != policy.BuiltIn {
			set = append(set, fmt.Sprintf("%s: %s (%s)", f.Path, f.Value, f.Level))
		}
	}
	if err != nil {
		set = append(set, "invalid")
	}
	return set
}

func (s *scene) targets(settings policy.Settings) v1alpha1.AttuneRecommendationSpec {
	history := targets.History{Profiles: map[string]recommender.Profile{}, Estimates: map[string]*[2]recommender.Estimate{}, Highest: s.highest}
	for name, steps := range s.steps {
		history.Profiles[name] = recommender.NewProfile(steps, step)
		if settings.Strategy == v1alpha1.StrategyAdaptive {
			history.Estimates[name] = adaptive.Of(steps, settings.Recommender)
		}
	}
	return targets.Desired(targets.View{
		Workload: s.workload, Policy: s.policy, Settings: settings, History: history, Status: s.status, Now: now, Largest: s.largest,
		Blocked: autoscale.Autoscalers{HPAs: s.hpas}.Of(s.workload).On,
	})
}

// highest usage of a container in a span of time.
func (s *scene) highest(container string, r recommender.Resource) node.Span {
	return func(from, to time.Time) (highest recommender.Usage, known bool) {
		for _, of := range s.steps[container] {
			if value := [2]recommender.Usage{recommender.Usage(of.CPUCores * 1000), recommender.Usage(of.MemoryBytes)}[r]; of.At.After(from) && !of.At.After(to) {
				highest, known = max(highest, value), true
			}
		}
		return highest, known
	}
}

// target is what acts of a container's target: no explanation, and reasons without their sentences.
type target struct {
	v1alpha1.ContainerTarget
	Reasons []string
}

func targetsOf(spec v1alpha1.AttuneRecommendationSpec) any {
	all := []target{}
	for _, c := range spec.Containers {
		of := target{ContainerTarget: c}
		for _, h := range c.Holds {
			of.Reasons = append(of.Reasons, h.Resource+" "+h.Reason)
		}
		of.Holds, of.Steps = nil, nil
		all = append(all, of)
	}
	return all
}

// admission is what a new pod gets.
type admission struct {
	Seed            *v1alpha1.Seed
	Withheld        string
	Patch, Decision string
	Blocked         []string
}

func (s *scene) admit(t *testing.T, rec *v1alpha1.AttuneRecommendation) admission {
	t.Helper()
	text, err := json.Marshal(s.workload.Template)
	require.NoError(t, err)
	created := &pod.Pod{}
	require.NoError(t, json.Unmarshal(text, created))
	ranges, ns := make([]*corev1.LimitRange, len(s.limits)), &pod.Namespace{}
	for i := range s.limits {
		ranges[i] = &s.limits[i]
	}
	ns.Bounds = constraint.BoundsOf(ranges)
	for i := range s.quotas {
		ns.Quotas = append(ns.Quotas, constraint.QuotaLeftOf(&s.quotas[i]))
	}
	d := pod.SeedPod(created, pod.Read(rec), ns, now)
	out := admission{Seed: rec.Spec.Seed, Withheld: rec.Spec.SeedBlocked, Patch: string(d.Patch), Decision: string(d.Reason)}
	for _, b := range d.Blocked {
		out.Blocked = append(out.Blocked, b.Container+" "+b.Resource.String()+" "+string(b.Reason))
	}
	return out
}

// decision is what happens to running pods.
type decision struct {
	Writes     []write
	Evictions  []string
	Conditions []string
	Records    int
}

type write struct {
	Pod, Wave, Reason string
	Urgent            bool
	Moves             []resize.Move
}

func (s *scene) resize(rec *v1alpha1.AttuneRecommendation, settings policy.Settings, valid bool) (out decision) {
	v := s.view(rec, settings, valid)
	d := tuning.Decide(v)
	for round := 0; !d.Unknowns.None() && round < 5; round++ {
		s.answer(&v, d.Unknowns)
		d = tuning.Decide(v)
	}
	for _, w := range d.Writes {
		out.Writes = append(out.Writes, write{Pod: w.Plan.PodName, Wave: w.Plan.Wave, Reason: w.Plan.Reason, Urgent: w.Plan.Urgent, Moves: w.Plan.Moves})
	}
	for _, p := range d.Evictions {
		out.Evictions = append(out.Evictions, p.Name)
	}
	for _, c := range d.Status.Conditions {
		out.Conditions = append(out.Conditions, c.Type+" "+string(c.Status)+" "+c.Reason)
	}
	out.Records = len(d.Status.Records)
	return out
}

// view has pods that run with their template's resources for an hour, on one node.
func (s *scene) view(rec *v1alpha1.AttuneRecommendation, settings policy.Settings, valid bool) tuning.View {
	machine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelHostname: "node-1"}}}
	machine.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("64Gi")}
	machine.Status.NodeInfo.KubeletVersion = "v1.36.3"
	machine.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	v := tuning.View{
		Now: now, Rec: rec, Workload: &s.workload, Autoscalers: autoscale.Autoscalers{HPAs: s.hpas}.Of(s.workload),
		Nodes:     map[string]tuning.Node{"node-1": {Node: machine}},
		Policy:    tuning.PolicyView{Settings: settings, Usable: valid},
		Namespace: tuning.NamespaceView{Limits: s.limits, Quotas: s.quotas},
		Operator:  tuning.OperatorView{ServerVersion: "v1.36.3", MayEvict: true},
		Usage:     tuning.UsageView{Memory: map[types.UID]map[string]recommender.Amount{}, MemorySoon: map[types.UID]bool{}},
		Looked: tuning.LookedView{
			Live: map[types.UID]bool{}, Rooms: map[string]*resize.Room{}, Stalled: map[types.UID]string{}, Before: map[harm.Question]harm.Answer{},
			Unread: tuning.Unread{Nodes: map[string]*resize.Refusal{}},
		},
	}
	for i := range s.pods {
		v.Pods = append(v.Pods, s.running(i))
	}
	return v
}

func (s *scene) running(i int) *corev1.Pod {
	started := metav1.NewTime(now.Add(-time.Hour))
	p := resizetest.Running()
	p.Name, p.UID, p.CreationTimestamp, p.Annotations = string(uid(i)), uid(i), started, map[string]string{}
	p.Spec, p.Spec.NodeName, p.Status.StartTime = *s.workload.Template.Spec.DeepCopy(), "node-1", &started
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-abc", Controller: new(true)}}
	for _, c := range p.Spec.Containers {
		status := resizetest.StatusOf(c.Name, podview.ReadSpec(c.Resources))
		status.ContainerID, status.State.Running.StartedAt = "containerd://"+p.Name+c.Name, started
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, status)
	}
	p.Status.QOSClass = podview.QOSClass(p)
	return p
}

// answer reads what a decision asks for.
func (s *scene) answer(v *tuning.View, asked tuning.Unknowns) {
	for _, name := range asked.Rooms {
		v.Looked.Rooms[name] = resize.RoomOf(v.Pods, nil, now)
	}
	for _, id := range asked.Live {
		v.Looked.Live[id] = true
	}
	for _, id := range asked.Stalled {
		v.Looked.Stalled[id] = ""
	}
	for _, id := range asked.Memory {
		used := map[string]recommender.Amount{}
		for name, steps := range s.steps {
			if len(steps) > 0 {
				used[name] = recommender.Amount(steps[len(steps)-1].MemoryBytes)
			}
		}
		v.Usage.Memory[id] = used
	}
	for _, q := range asked.Before {
		v.Looked.Before[q] = harm.Answer{Value: 0.5}
	}
	if asked.Nodes {
		v.Looked.Cluster = []*corev1.Node{v.Nodes["node-1"].Node}
	}
}
