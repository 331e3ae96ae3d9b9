package decisions

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

// drawer draws one scene. The order of the draws decides the scene of a seed: add new draws at the end of newScene, so
// that the existing scenes stay the same.
type drawer struct{ *rand.Rand }

// scene is a workload with its policy, its past and its namespace.
type scene struct {
	cluster   *v1alpha1.AttuneDefaults
	namespace *v1alpha1.AttuneNamespaceDefaults
	policy    *v1alpha1.AttunePolicy
	workload  workload.Workload
	// steps are the usage of each container by its name.
	steps   map[string][]recommender.StepUsage
	status  v1alpha1.AttuneRecommendationStatus
	hpas    []autoscalingv2.HorizontalPodAutoscaler
	limits  []corev1.LimitRange
	quotas  []corev1.ResourceQuota
	pods    int
	largest [2]recommender.Amount
}

const step = 5 * time.Minute

// now is a Monday, in the afternoon.
var now = time.Date(2026, 11, 2, 15, 0, 0, 0, time.UTC)

func newScene(seed uint64) *scene {
	d := drawer{rand.New(rand.NewPCG(seed, 0))}
	s := &scene{steps: map[string][]recommender.StepUsage{}}
	if d.chance(30) {
		s.cluster = &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
		s.cluster.Spec.PolicySettings = d.settings(20)
	}
	if d.chance(30) {
		s.namespace = &v1alpha1.AttuneNamespaceDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName, Namespace: "shop"}}
		s.namespace.Spec.PolicySettings = d.settings(20)
	}
	s.policy = &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", Namespace: "shop", UID: "policy"}}
	s.policy.Spec.PolicySettings = d.settings(35)
	s.workload = d.workload()
	s.policy.Spec.TargetRef = v1alpha1.TargetRef{Kind: s.workload.Kind}
	for _, c := range s.workload.Template.Spec.Containers {
		s.steps[c.Name] = d.usage(c)
	}
	d.past(s)
	d.surroundings(s)
	return s
}

func (d drawer) chance(percent int) bool { return d.IntN(100) < percent }

func pick[T any](d drawer, from ...T) T { return from[d.IntN(len(from))] }

// maybe draws a pointer to one of the values, in some percent of the cases.
func maybe[T any](d drawer, percent int, from ...T) *T {
	value, set := pick(d, from...), d.chance(percent)
	if !set {
		return nil
	}
	return &value
}

func amounts(texts ...string) (out []resource.Quantity) {
	for _, text := range texts {
		out = append(out, resource.MustParse(text))
	}
	return out
}

func hours(of ...float64) (out []v1alpha1.Duration) {
	for _, h := range of {
		out = append(out, v1alpha1.Duration{Duration: metav1.Duration{Duration: time.Duration(h * float64(time.Hour))}})
	}
	return out
}

// settings draws fields of one level, each with the chance. They are fields that every release has.
func (d drawer) settings(percent int) v1alpha1.PolicySettings {
	return v1alpha1.PolicySettings{
		Profile: maybe(d, percent/3, v1alpha1.ProfileCost, v1alpha1.ProfileBalanced, v1alpha1.ProfileReliability),
		CPU: &v1alpha1.CPUSettings{
			ResourceSettings: d.resource(percent, amounts("50m", "100m", "300m"), amounts("400m", "1", "6")),
			StartupBoost:     d.boost(percent / 3),
		},
		Memory: &v1alpha1.MemorySettings{
			ResourceSettings: d.resource(percent, amounts("32Mi", "64Mi", "200Mi"), amounts("300Mi", "1Gi", "6Gi")),
			AllowDecrease:    maybe(d, percent*2, true, true, false),
			RaiseBeforeKill:  maybe(d, percent, v1alpha1.RaiseAuto, v1alpha1.RaiseOff),
		},
		UpdateStrategy: d.updateStrategy(percent),
		Strategy:       maybe(d, percent, v1alpha1.StrategyWorkload, v1alpha1.StrategyWorkload, v1alpha1.StrategyAdaptive, v1alpha1.StrategyNode),
		Adaptive:       &v1alpha1.AdaptiveSettings{Risk: maybe(d, percent, v1alpha1.RiskLow, v1alpha1.RiskMedium, v1alpha1.RiskHigh)},
		Node:           &v1alpha1.NodeSettings{Eviction: maybe(d, percent, v1alpha1.Enabled, v1alpha1.Disabled)},
		MetricsSource: &v1alpha1.MetricsSource{
			HistoryWindow:     maybe(d, percent, hours(24, 72, 168)...),
			MinimumDataPoints: maybe[int32](d, percent, 12, 48, 200),
		},
		ExcludedContainers: pick(d, nil, nil, nil, []v1alpha1.ContainerName{}, []v1alpha1.ContainerName{"proxy"}, []v1alpha1.ContainerName{"app", "worker"}),
		Paused:             maybe(d, percent/8, true, false),
	}
}

func (d drawer) resource(percent int, least, most []resource.Quantity) v1alpha1.ResourceSettings {
	return v1alpha1.ResourceSettings{
		Percentile:       maybe[int32](d, percent, 50, 90, 95, 99),
		Overhead:         maybe[v1alpha1.Percent](d, percent, "0", "10", "42.5", "100"),
		MinAllowed:       maybe(d, percent, least...),
		MaxAllowed:       maybe(d, percent, most...),
		ControlledValues: maybe(d, percent, v1alpha1.ControlledRequestsOnly, v1alpha1.ControlledRequestsAndLimits),
		MaxChangePercent: maybe[int32](d, percent, 5, 30, 100, 1000),
		BurstSensitivity: maybe[v1alpha1.Decimal](d, percent, "0", "0.3", "2"),
	}
}

func (d drawer) boost(percent int) *v1alpha1.StartupBoost {
	return maybe(d, percent, v1alpha1.StartupBoost{Multiplier: "2", Duration: hours(0.1)[0]}, v1alpha1.StartupBoost{Multiplier: "1", Duration: hours(1)[0]})
}

func (d drawer) updateStrategy(percent int) *v1alpha1.UpdateStrategy {
	modes := []v1alpha1.UpdateType{v1alpha1.UpdateObserve, v1alpha1.UpdateRecommend, v1alpha1.UpdateInitial, v1alpha1.UpdateOneShot,
		v1alpha1.UpdateCanary, v1alpha1.UpdateAuto, v1alpha1.UpdateAuto, v1alpha1.UpdateAuto, v1alpha1.UpdateAuto}
	return &v1alpha1.UpdateStrategy{
		Type:                 maybe(d, min(100, percent*3), modes...),
		ResizeMethod:         maybe(d, percent/2, v1alpha1.ResizeInPlaceOnly, v1alpha1.ResizeInPlaceOrRecreate),
		Cooldown:             maybe(d, percent, hours(0.25, 1, 24)...),
		AutoRevert:           maybe(d, percent/2, true, false),
		Canary:               &v1alpha1.CanarySettings{Percentage: maybe[int32](d, percent, 10, 50, 100), AutoPromote: maybe(d, percent/3, true, false)},
		MaxConcurrentResizes: maybe(d, percent, intstr.FromInt32(1), intstr.FromInt32(3), intstr.FromString("50%")),
		Schedule:             d.schedule(percent / 4),
	}
}

func (d drawer) schedule(percent int) *v1alpha1.Schedule {
	return maybe(d, percent, v1alpha1.Schedule{Windows: []v1alpha1.ScheduleWindow{{Start: "22:00", End: "06:00"}}},
		v1alpha1.Schedule{Windows: []v1alpha1.ScheduleWindow{{Start: "08:00", End: "18:00"}}, DaysOfWeek: []v1alpha1.Weekday{"Monday"}})
}

func (d drawer) workload() workload.Workload {
	kind := pick(d, v1alpha1.KindDeployment, v1alpha1.KindDeployment, v1alpha1.KindDeployment, v1alpha1.KindStatefulSet, v1alpha1.KindDaemonSet, v1alpha1.KindCronJob)
	template := &corev1.PodTemplateSpec{}
	shape := d.IntN(6)
	for _, name := range []string{"app", "proxy", "worker"}[:1+d.IntN(3)] {
		template.Spec.Containers = append(template.Spec.Containers, corev1.Container{Name: name, Image: name, Resources: d.requirements(shape)})
	}
	w := workload.Workload{Identity: workload.Identity{Kind: kind, Namespace: "shop", Name: "web"}, Template: template, Annotations: map[string]string{}}
	w.Replicas = int32(1 + d.IntN(4))
	return w
}

// requirements are Guaranteed, Burstable or empty.
func (d drawer) requirements(shape int) (out corev1.ResourceRequirements) {
	cpu, memory := pick(d, amounts("100m", "250m", "1", "3")...), pick(d, amounts("64Mi", "256Mi", "1Gi", "3Gi")...)
	if shape == 0 {
		return out
	}
	out.Requests = corev1.ResourceList{"cpu": cpu, "memory": memory}
	switch shape {
	case 1, 2:
		out.Limits = out.Requests.DeepCopy()
	case 3:
		out.Limits = corev1.ResourceList{"memory": memory}
	case 4:
		double := func(q resource.Quantity) resource.Quantity { q.Add(q); return q }
		out.Limits = corev1.ResourceList{"cpu": double(cpu), "memory": double(memory)}
	}
	return out
}

// usage draws a history: its length, its level, a daily cycle, bursts, and growth.
func (d drawer) usage(c corev1.Container) []recommender.StepUsage {
	length := pick(d, 0, 20, 100, 600, 2016, 2016, 2016, 2016)
	level := func(q *resource.Quantity, usual float64) float64 {
		if x := q.AsApproximateFloat64(); x > 0 {
			usual = x
		}
		return usual * math.Exp(d.NormFloat64()-1)
	}
	cpu, memory := level(c.Resources.Requests.Cpu(), 0.2), level(c.Resources.Requests.Memory(), 2e8)
	daily, growth, bursts := d.Float64()*pick(d, 0.0, 0.9), pick(d, 0.0, 0.0, 0.0, 0.5), d.IntN(40)
	var out []recommender.StepUsage
	for i := range length {
		at := now.Add(-step * time.Duration(length-i))
		factor := (1 + daily*math.Sin(2*math.Pi*float64(at.Hour())/24)) * (1 + growth*float64(i)/float64(length)) * (1 + 0.1*d.Float64())
		burst := 1.0
		if d.IntN(2000) < bursts {
			burst = 3
		}
		out = append(out, recommender.StepUsage{At: at, CPUCores: cpu * factor * burst, MemoryBytes: memory * math.Sqrt(factor*burst)})
	}
	return out
}

// past draws what earlier resizes left in the status.
func (d drawer) past(s *scene) {
	ago := func(most time.Duration) metav1.Time {
		return metav1.Time{Time: now.Add(-time.Duration(d.Int64N(int64(most)))).Truncate(time.Second)}
	}
	for _, c := range s.workload.Template.Spec.Containers {
		if d.chance(15) {
			memory := c.Resources.Limits.Memory().DeepCopy()
			memory.Add(resource.MustParse("100Mi"))
			s.status.Floors = append(s.status.Floors, v1alpha1.Floor{Container: c.Name, Resource: "memory", Reason: "oomkill", Amount: memory, LearnedAt: ago(200 * time.Hour)})
		}
		if d.chance(30) {
			cpu, memory := pick(d, amounts("50m", "200m", "700m")...), pick(d, amounts("100Mi", "300Mi", "2Gi")...)
			s.status.Verified = append(s.status.Verified, v1alpha1.VerifiedResources{Name: c.Name, TemplateHash: "abc", Size: v1alpha1.Resources{CPURequest: &cpu, MemoryRequest: &memory}})
		}
	}
	if d.chance(25) {
		at := ago(3 * time.Hour)
		s.status.CooldownFrom = &at
	}
}

func (d drawer) surroundings(s *scene) {
	if d.chance(15) {
		metric := autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: pick(d, corev1.ResourceCPU, corev1.ResourceMemory), Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(70))},
		}}
		s.hpas = append(s.hpas, autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: string(s.workload.Kind), Name: s.workload.Name},
			MaxReplicas:    9, Metrics: []autoscalingv2.MetricSpec{metric},
		}})
	}
	if d.chance(15) {
		s.limits = append(s.limits, corev1.LimitRange{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: corev1.LimitTypeContainer,
			Min:  corev1.ResourceList{"memory": pick(d, amounts("10Mi", "128Mi")...)}, Max: corev1.ResourceList{"cpu": pick(d, amounts("1", "8")...)},
		}}}})
	}
	if d.chance(15) {
		hard := corev1.ResourceList{"requests.cpu": pick(d, amounts("1", "20")...)}
		s.quotas = append(s.quotas, corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: hard}, Status: corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{"requests.cpu": resource.MustParse("900m")}}})
	}
	s.pods = int(s.workload.Replicas)
	s.largest = pick(d, [2]recommender.Amount{}, [2]recommender.Amount{16000, 64 << 30}, [2]recommender.Amount{2000, 4 << 30})
}

func uid(i int) types.UID { return types.UID(fmt.Sprintf("web-%d", i)) }
