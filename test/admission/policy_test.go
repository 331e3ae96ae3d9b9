package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	core "k8s.io/kubernetes/pkg/apis/core"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/tuning/targets"
)

// written is a policy as a manifest has it. The promises of a scene read it without the product's code.
type written map[string]any

// decide draws a policy and a history, and makes the recommendation of them, unless the policy webhook refuses the policy.
func (s *scene) decide(d dice) {
	spec := d.policySpec(s.pod)
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: namespace}}
	of := identity(s.pod)
	if err := json.Unmarshal(raw, &p.Spec.PolicySettings); err != nil {
		panic(err)
	}
	p.Spec.TargetRef.Kind = of.Kind
	settings, err := policy.ResolveNew(nil, nil, p, policy.Operator{SourceNamespaces: []string{"*"}})
	if err != nil {
		return
	}
	template := &corev1.PodTemplateSpec{Spec: *s.pod.Spec.DeepCopy()}
	v := targets.View{
		Workload: workload.Workload{Identity: of, Template: template, Replicas: 3}, Policy: p, Settings: settings, Now: now,
		History: targets.History{Profiles: map[string]recommender.Profile{}}, Status: d.status(s.pod),
		Blocked: func(string, recommender.Resource) *recommender.Hold { return nil },
	}
	for _, c := range containers(s.pod) {
		v.History.Profiles[c.Name] = histories[d.IntN(len(histories))]
	}
	s.written = spec
	s.rec = &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Name: of.RecommendationName(), Namespace: of.Namespace}, Spec: targets.Desired(v), Status: v.Status}
}

// policySpec draws a policy in mode Initial or Auto, with profile, containerPolicies and limits of CPU.
func (d dice) policySpec(pod *corev1.Pod) written {
	out := written{
		"updateStrategy": written{"type": pick(d, "Initial", "Initial", "Initial", "Auto")},
		"metricsSource":  written{"minimumDataPoints": 12, "historyWindow": "24h"},
		"cpu":            d.cpuFields(30), "memory": d.memoryFields(30),
	}
	d.set(out, 40, "profile", "Cost", "Balanced", "Reliability")
	var entries []any
	for _, name := range d.names(pod) {
		if !d.chance(60) {
			continue
		}
		entry := written{"containerName": name}
		d.set(entry, 40, "mode", "Off", "Auto")
		d.set(entry, 40, "controlledResources", []any{"cpu"}, []any{"memory"}, []any{"cpu", "memory"})
		d.set(entry, 20, "controlledValues", "RequestsOnly", "RequestsAndLimits")
		if d.chance(60) {
			entry["cpu"] = d.cpuFields(50)
		}
		if d.chance(60) {
			entry["memory"] = d.memoryFields(50)
		}
		entries = append(entries, entry)
	}
	if entries != nil {
		out["containerPolicies"] = entries
	}
	return out
}

// names are those of the pod's containers, of one that it does not have, and of all others.
func (d dice) names(pod *corev1.Pod) []string {
	names := []string{"*", "gone"}
	for _, c := range containers(pod) {
		names = append(names, c.Name)
	}
	d.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// set sets a field in some percent of cases.
func (d dice) set(to written, percent int, field string, from ...any) {
	if value := pick(d, from...); d.chance(percent) {
		to[field] = value
	}
}

func (d dice) cpuFields(percent int) written {
	out := d.fields(percent, []any{"10m", "100m", "333m"}, []any{"500m", "2", "8"})
	d.set(out, percent, "limits", "Keep", "Remove", written{"ratio": "2"}, written{"ratio": "1"}, written{"ratio": "3.5", "min": "300m"}, written{"ratio": "2", "max": "1"},
		written{"ratio": "1.25", "min": "50m", "max": "4"}, written{"max": "2"})
	d.set(out, percent/3, "startupBoost", written{"multiplier": pick[any](d, "1.5", "3"), "duration": "1m"})
	return out
}

func (d dice) memoryFields(percent int) written {
	out := d.fields(percent, []any{"16Mi", "64Mi", "100M"}, []any{"256Mi", "1Gi", "8Gi"})
	d.set(out, percent, "allowDecrease", true, true, false)
	d.set(out, percent, "raiseBeforeKill", "Auto", "Off")
	return out
}

// fields draws what CPU and memory share.
func (d dice) fields(percent int, least, most []any) written {
	out := written{}
	d.set(out, percent, "percentile", 1, 50, 80, 95, 99, 100)
	d.set(out, percent, "overhead", "0", "15", "42.5", "200")
	d.set(out, percent, "minAllowed", least...)
	d.set(out, percent, "maxAllowed", most...)
	d.set(out, percent/2, "controlledValues", "RequestsOnly", "RequestsAndLimits")
	d.set(out, percent/2, "burstSensitivity", "0", "0.5", "2")
	return out
}

// status draws floors and, for Auto, verified sizes.
func (d dice) status(pod *corev1.Pod) (out v1alpha1.AttuneRecommendationStatus) {
	for _, c := range containers(pod) {
		if d.chance(10) {
			out.Floors = append(out.Floors, v1alpha1.Floor{Container: c.Name, Resource: "memory", Reason: "oomkill", Amount: d.amount(corev1.ResourceMemory), LearnedAt: metav1.NewTime(now.Add(-time.Hour))})
		}
		if d.chance(40) {
			out.Verified = append(out.Verified, v1alpha1.VerifiedResources{Name: c.Name, Size: v1alpha1.Resources{
				CPURequest: d.maybe(corev1.ResourceCPU, 90), MemoryRequest: d.maybe(corev1.ResourceMemory, 90),
			}})
		}
	}
	return out
}

// histories are a day of usage at some levels, steady or with bursts.
var histories = func() (all []recommender.Profile) {
	const step, steps = 5 * time.Minute, 288
	for _, cpu := range []float64{0.0005, 0.02, 0.15, 0.9, 6} {
		for _, memory := range []float64{2e6, 40e6, 300e6, 2e9} {
			for _, burst := range []float64{1, 5} {
				usage := make([]recommender.StepUsage, steps)
				for i := range usage {
					factor := 1 + 0.1*float64(i%7)
					if i%97 == 5 {
						factor *= burst
					}
					usage[i] = recommender.StepUsage{At: now.Add(-step * time.Duration(steps-i)), CPUCores: cpu * factor, MemoryBytes: memory * factor}
				}
				all = append(all, recommender.NewProfile(usage, step))
			}
		}
	}
	return append(all, recommender.Profile{})
}()

// entryOf is the entry of a container: that of its name, otherwise the one of all others; empty: there is none.
func (w written) entryOf(container string) written {
	entries, _ := w["containerPolicies"].([]any)
	for _, name := range []string{container, "*"} {
		if i := slices.IndexFunc(entries, func(e any) bool { return e.(written)["containerName"] == name }); i >= 0 {
			return entries[i].(written)
		}
	}
	return written{}
}

// controls reports whether the policy lets attune size a container's resource.
func (w written) controls(container string, r corev1.ResourceName) bool {
	entry := w.entryOf(container)
	list, limited := entry["controlledResources"].([]any)
	return entry["mode"] != "Off" && (!limited || slices.Contains(list, any(string(r))))
}

// cpuLimits is the value of cpu.limits of a container; nil: Keep.
func (w written) cpuLimits(container string) any {
	for _, level := range []written{w.entryOf(container), w} {
		if fields, ok := level["cpu"].(written); ok && fields["limits"] != nil {
			return fields["limits"]
		}
	}
	return nil
}

// mayRemove reports whether the CPU limit of a container may go: the policy, or else the drawn seed, says so, and the pod is not
// Guaranteed.
func (s *scene) mayRemove(container string, class core.PodQOSClass) bool {
	switch {
	case class == core.PodQOSGuaranteed:
		return false
	case s.written == nil:
		return s.removes(container)
	}
	return s.written.cpuLimits(container) == "Remove" && s.written.controls(container, corev1.ResourceCPU)
}

// asWritten: what the policy leaves to the template is as the template has it, byte by byte.
func (s *scene) asWritten(before, after *corev1.Pod) error {
	if s.written == nil {
		return nil
	}
	var errs []error
	was, is := containers(before), containers(after)
	for i := range was {
		name := was[i].Name
		if s.written.entryOf(name)["mode"] == "Off" && !sameBytes(was[i], is[i]) {
			errs = append(errs, fmt.Errorf("%s changes although its mode is Off", name))
		}
		for _, r := range sized {
			if !s.written.controls(name, r) && !sameAmounts(was[i], is[i], r) {
				errs = append(errs, fmt.Errorf("%s of %s changes although the policy does not control it", r, name))
			}
		}
		if len(s.ranges) == 0 && s.written.controls(name, corev1.ResourceCPU) {
			errs = append(errs, s.bounded(name, was[i], is[i]))
		}
	}
	return errors.Join(errs...)
}

// bounded: a CPU limit that attune raises is at most max, or the next above the request: a limit that equals its request could change
// the class.
func (s *scene) bounded(name string, was, is corev1.Container) error {
	rule, _ := s.written.cpuLimits(name).(written)
	text, _ := rule["max"].(string)
	limit, old, request := is.Resources.Limits[corev1.ResourceCPU], was.Resources.Limits[corev1.ResourceCPU], is.Resources.Requests[corev1.ResourceCPU]
	if text == "" || limit.Cmp(old) <= 0 {
		return nil
	}
	request.Add(resource.MustParse("1m"))
	if most := resource.MustParse(text); limit.Cmp(most) > 0 && limit.Cmp(request) > 0 {
		return fmt.Errorf("the CPU limit of %s becomes %s: the policy allows %s", name, limit.String(), text)
	}
	return nil
}

func sameBytes(a, b corev1.Container) bool {
	was, err := json.Marshal(a)
	is, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(was, is)
}

func sameAmounts(a, b corev1.Container, r corev1.ResourceName) bool {
	same := func(x, y corev1.ResourceList) bool {
		was, had := x[r]
		is, has := y[r]
		return had == has && was.Cmp(is) == 0
	}
	return same(a.Resources.Requests, b.Resources.Requests) && same(a.Resources.Limits, b.Resources.Limits)
}

// drawn counts what the drawn policies say, to show that the dice meet it.
func (s *scene) drawn(to map[string]int) {
	if s.written == nil {
		return
	}
	to["a policy"]++
	for _, c := range containers(s.pod) {
		entry := s.written.entryOf(c.Name)
		to[fmt.Sprint("mode ", entry["mode"])]++
		to[fmt.Sprint("controlledResources ", entry["controlledResources"])]++
		limits := s.written.cpuLimits(c.Name)
		if _, bounded := limits.(written); bounded {
			limits = "{...}"
		}
		to[fmt.Sprint("cpu.limits ", limits)]++
	}
}
