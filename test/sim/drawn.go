package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"attune.io/attune/api/v1alpha1"
)

// drawn is the world of a seed.
func drawn(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0xa11))
	p := plan{
		Length: time.Duration(1+r.IntN(4)) * 24 * time.Hour, Minor: 33 + r.IntN(5),
		Nodes: 1 + r.IntN(4), NodeCPU: "64", NodeMemory: "256Gi", Seeds: r.IntN(4) > 0,
		MostLag: time.Duration(1+r.IntN(300)) * time.Second, Down: time.Duration(1+r.IntN(120)) * time.Second, Calm: 6 * time.Hour,
	}
	if r.IntN(3) == 0 {
		p.Loses = 0.002
	}
	for i := range 1 + r.IntN(6) {
		p.Workloads = append(p.Workloads, drawnWorkload(r, fmt.Sprintf("app%d", i)))
	}
	if r.IntN(25) == 0 {
		p.many(r)
	}
	p.room(r)
	p.Policies = drawnPolicies(r)
	p.Troubles = drawnTroubles(r, p)
	p.further(seed)
	p.drawOutages(seed)
	p.drawHazards(seed)
	p.drawActors(seed)
	p.drawKept(seed)
	p.drawRetarget(seed)
	p.Clusterwide = rand.New(rand.NewPCG(seed, 77)).IntN(6) == 0
	return p
}

// many replicas of one workload, in a short world.
func (p *plan) many(r *rand.Rand) {
	p.Workloads, p.Length, p.Nodes, p.Calm = p.Workloads[:1], 12*time.Hour, 4, 3*time.Hour
	w := &p.Workloads[0]
	w.Kind, w.Replicas = pick(r, v1alpha1.KindDeployment, v1alpha1.KindStatefulSet), int32(100+r.IntN(401))
	w.Demand = demand{shape: steady, seed: w.Demand.seed, cpu: 0.1, memory: 100 * mib}
	w.Containers = []corev1.Container{drawnContainer(r, w.Demand)}
}

// room: what nodes, quotas and LimitRanges leave, and what HPAs do with it.
func (p *plan) room(r *rand.Rand) {
	var cpu, memory int64
	for _, w := range p.Workloads {
		for _, c := range w.Containers {
			cpu += c.Resources.Requests.Cpu().MilliValue() * int64(w.Replicas)
			memory += c.Resources.Requests.Memory().Value() * int64(w.Replicas)
		}
	}
	if r.IntN(4) == 0 {
		times := pick(r, 1.1, 1.3, 2)
		p.NodeCPU = milli(max(2000, int64(float64(cpu)*times)/int64(p.Nodes)))
		p.NodeMemory = bytes(max(gib, int64(float64(memory)*times)/int64(p.Nodes)))
	}
	if r.IntN(5) == 0 {
		times := pick(r, 0.9, 1.05, 1.5)
		p.Objects = append(p.Objects, quota(milli(int64(float64(cpu)*times)), bytes(int64(float64(memory)*times))))
	}
	if r.IntN(6) == 0 {
		p.Objects = append(p.Objects, limitRange(r))
	}
	if w := p.Workloads[0]; r.IntN(8) == 0 && w.Kind == v1alpha1.KindDeployment {
		p.Objects = append(p.Objects, autoscaler(w, int32(30+r.IntN(60))))
	}
}

func milli(n int64) string { return fmt.Sprintf("%dm", n) }
func bytes(n int64) string { return fmt.Sprint(n) }

func quota(cpu, memory string) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "quota"}}
	q.Spec.Hard = corev1.ResourceList{corev1.ResourceRequestsCPU: resource.MustParse(cpu), corev1.ResourceRequestsMemory: resource.MustParse(memory)}
	return q
}

// limitRange gives limits to those that have none, or keeps them within bounds, narrow ones at times.
func limitRange(r *rand.Rand) *corev1.LimitRange {
	item := corev1.LimitRangeItem{Type: corev1.LimitTypeContainer}
	switch r.IntN(4) {
	case 0:
		item.Default = amounts("8", "16Gi")
	case 1:
		item.Min = amounts("50m", "64Mi")
	case 2:
		item.Max = amounts("64", "64Gi")
	default:
		item.MaxLimitRequestRatio = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("4")}
	}
	return &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "range"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}}}
}

// autoscaler by CPU utilization.
func autoscaler(of workloadPlan, utilization int32) *autoscalingv2.HorizontalPodAutoscaler {
	h := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name}}
	h.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: string(of.Kind), Name: of.Name}
	h.Spec.MinReplicas, h.Spec.MaxReplicas = ptr(int32(1)), max(2, of.Replicas*2)
	h.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &utilization},
	}}}
	return h
}

// drawnKinds of workloads, the usual ones more often.
var drawnKinds = []v1alpha1.WorkloadKind{
	v1alpha1.KindDeployment, v1alpha1.KindDeployment, v1alpha1.KindDeployment, v1alpha1.KindDeployment, v1alpha1.KindStatefulSet,
	v1alpha1.KindStatefulSet, v1alpha1.KindDaemonSet, v1alpha1.KindReplicaSet, v1alpha1.KindCronJob, v1alpha1.KindCronJob, v1alpha1.KindJob,
}

func drawnWorkload(r *rand.Rand, name string) workloadPlan {
	w := workloadPlan{
		Kind: pick(r, drawnKinds...), Namespace: "shop", Name: name, Replicas: int32(pick(r, 1, 1, 2, 3, 3, 5, 8, 20)),
		Schedule: pick(r, "*/10 * * * *", "*/30 * * * *", "0 * * * *", "15 3 * * *"),
	}
	w.Demand = demand{
		shape: pick(r, steady, steady, diurnal, bursty, leaking, stepped, idle), seed: r.Uint64(),
		cpu: 0.02 + r.Float64()*pick(r, 0.1, 0.5, 1.5), memory: float64(pick(r, 20, 60, 200, 700, 2000)) * mib * (0.5 + r.Float64()),
		cache: float64(pick(r, 0, 0, 200, 3000)) * mib, stepAt: beginning.Add(time.Duration(r.IntN(72)) * time.Hour),
	}
	if w.Kind == v1alpha1.KindCronJob || w.Kind == v1alpha1.KindJob {
		w.Replicas, w.Demand.work = int32(1+r.IntN(2)), time.Duration(1+r.IntN(25))*time.Minute
		if w.Kind == v1alpha1.KindJob {
			w.Demand.work *= 60
		}
	}
	w.Containers = []corev1.Container{drawnContainer(r, w.Demand)}
	if r.IntN(6) == 0 {
		more := drawnContainer(r, w.Demand)
		more.Name = "sidecar"
		w.Containers = append(w.Containers, more)
	}
	return w
}

// drawnContainer asks for much more or somewhat less than it needs.
func drawnContainer(r *rand.Rand, d demand) corev1.Container {
	times := pick(r, 0.8, 1.3, 2, 4, 8)
	cpu := *resource.NewMilliQuantity(int64(max(10, d.cpu*1000*times)), resource.DecimalSI)
	memory := *resource.NewQuantity(int64(d.memory*max(1.5, times))/mib*mib, resource.BinarySI)
	c := corev1.Container{Name: "app", Image: "example.org/app:1"}
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory}
	ratio := pick(r, 0, 1, 1, 2, 4)
	if ratio > 0 {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(memory.Value()*int64(ratio), resource.BinarySI)}
		if r.IntN(2) == 0 {
			c.Resources.Limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(cpu.MilliValue()*int64(ratio), resource.DecimalSI)
		}
	}
	if r.IntN(6) == 0 {
		c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	}
	return c
}

// drawnPolicies are one for each kind.
func drawnPolicies(r *rand.Rand) []policyPlan {
	var all []policyPlan
	for _, kind := range []v1alpha1.WorkloadKind{
		v1alpha1.KindDeployment, v1alpha1.KindStatefulSet, v1alpha1.KindDaemonSet, v1alpha1.KindReplicaSet, v1alpha1.KindCronJob, v1alpha1.KindJob,
	} {
		all = append(all, policyPlan{Namespace: "shop", Name: "all-" + string(kind), Spec: drawnPolicy(r, kind)})
	}
	return all
}

// drawnPolicy has settings of their whole ranges, the usual ones more often.
func drawnPolicy(r *rand.Rand, kind v1alpha1.WorkloadKind) (p v1alpha1.AttunePolicySpec) {
	p.TargetRef.Kind = kind
	u := &v1alpha1.UpdateStrategy{Type: ptr(pick(r, v1alpha1.UpdateAuto, v1alpha1.UpdateAuto, v1alpha1.UpdateAuto, v1alpha1.UpdateAuto, v1alpha1.UpdateCanary, v1alpha1.UpdateOneShot, v1alpha1.UpdateInitial, v1alpha1.UpdateRecommend, v1alpha1.UpdateObserve))}
	u.Cooldown = duration(pick(r, time.Minute, 10*time.Minute, time.Hour, time.Hour, 24*time.Hour))
	u.SafetyObservationPeriod = duration(pick(r, time.Minute, 5*time.Minute, 5*time.Minute, time.Hour))
	u.AutoRevert = ptr(r.IntN(8) > 0)
	if r.IntN(3) == 0 {
		u.MaxConcurrentResizes = ptr(pick(r, intstr.FromInt32(1), intstr.FromInt32(50), intstr.FromString("1%"), intstr.FromString("50%"), intstr.FromString("100%")))
	}
	if r.IntN(3) == 0 {
		u.Canary = &v1alpha1.CanarySettings{Percentage: ptr(int32(pick(r, 1, 10, 50, 100))), ObservationPeriod: duration(pick(r, time.Minute, time.Hour)), AutoPromote: ptr(r.IntN(4) > 0)}
	}
	if r.IntN(6) == 0 {
		u.ResizeMethod = ptr(v1alpha1.ResizeInPlaceOrRecreate)
	}
	p.UpdateStrategy = u
	p.Memory = &v1alpha1.MemorySettings{AllowDecrease: ptr(r.IntN(3) > 0)}
	p.CPU = &v1alpha1.CPUSettings{}
	for _, s := range []*v1alpha1.ResourceSettings{&p.Memory.ResourceSettings, &p.CPU.ResourceSettings} {
		drawnSettings(r, s)
	}
	if r.IntN(10) == 0 {
		p.CPU.StartupBoost = &v1alpha1.StartupBoost{Multiplier: "3", Duration: *duration(2 * time.Minute)}
	}
	p.Strategy = ptr(pick(r, v1alpha1.StrategyWorkload, v1alpha1.StrategyWorkload, v1alpha1.StrategyWorkload, v1alpha1.StrategyWorkload, v1alpha1.StrategyNode, v1alpha1.StrategyAdaptive))
	if *p.Strategy == v1alpha1.StrategyNode && (*u.Type == v1alpha1.UpdateCanary || *u.Type == v1alpha1.UpdateOneShot) {
		u.Type = ptr(v1alpha1.UpdateAuto) // strategy Node has no first wave
	}
	if *p.Strategy == v1alpha1.StrategyNode {
		p.CPU.StartupBoost = nil // nor does a boost go with it
	}
	return p
}

func drawnSettings(r *rand.Rand, s *v1alpha1.ResourceSettings) {
	if r.IntN(3) == 0 {
		s.Percentile = ptr(int32(pick(r, 50, 90, 95, 99)))
	}
	if r.IntN(3) == 0 {
		s.Overhead = ptr(v1alpha1.Percent(pick(r, "0", "5", "50", "200")))
	}
	if r.IntN(3) == 0 {
		s.MaxChangePercent = ptr(int32(pick(r, 1, 10, 50, 100, 1000)))
	}
	if r.IntN(4) == 0 {
		s.ControlledValues = ptr(v1alpha1.ControlledRequestsOnly)
	}
}
